// InferSynchronisation: adds the weakest credits with which the checker proves the program, and drops what it can.
//   Before:  put to %r; signal 0 to %r; flush; wait 0 from %s
//   After:   signal 1 to %s (once, at the start); ...; wait 1 from %r; put to %r; signal 0 to %r; wait 0 from %s
// Counterexamples guide the search:
//   - Add: the program starts with data signals only. While the checker refutes it, a transfer that the refutation
//     names gets the next stronger credit (see PlaceCredit.h). The search ends: the strongest credits together are
//     those of InferHandshake, which are sound.
//   - Elide: the pass tries a weaker credit for every transfer, and drops flushes and data signals. It keeps each
//     change that the checker still proves.
//   - Move: signals for reads go earlier and waits for data go later, in a pipeline into the next phase, as far as the
//     checker still proves the program. Where all phases wait at their beginning only, a round then begins with the
//     first phase. A wait for data may stand for the entry credit of a transfer that follows: the variants of a stripe
//     would take turns. The pass adds such credits, once per call, where that lets waits go later.
//     In a pipeline the pass moves before it elides: a flush at the end of the call lets waits go later.
// For speed, the search runs on meshes that are as small as the checker allows, and with few slices of a pipeline. If a
// larger mesh or all slices refute the result, the pass searches again with these. CheckProgram proves all meshes in
// full at the end. Requires channel form as VerifyProjected states it. Leaves programs alone that their author wrote in
// channel form.
#include "compiler/Passes.h"
#include "compiler/check/Verdict.h"
#include "compiler/sync/InferenceMemory.h"
#include "compiler/sync/MoveEnds.h"
#include "compiler/sync/PipelinePhases.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <map>

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_INFERSYNCHRONISATION
#include "compiler/Passes.h.inc"

namespace {

using Choices = SmallVector<size_t, 8>; // by transfer: which of its possible credits

/// A program, and the proof or the refutation of it.
struct Attempt {
  OwningOpRef<ProgramOp> program;
  std::optional<Refutation> refutation;
  bool isProved() const { return !refutation; }
};

class Inference {
public:
  Inference(ProgramOp base, const CheckOptions &options) : base(base), options(options), soon(options) {
    soon.endsAtRefutation = true;
    for (const ProjectedTransfer &transfer : findTransfers(base))
      possible.push_back(possibleCredits(transfer));
    for (auto mesh : base.getMeshes().getAsRange<DenseI64ArrayAttr>())
      meshes.emplace_back(mesh.asArrayRef());
    // A counterexample is found soonest on the smallest mesh.
    llvm::sort(meshes,
               [](const auto &a, const auto &b) { return std::pair(numRanks(a), a) < std::pair(numRanks(b), b); });
  }

  /// The synchronised program, or, if not even the strongest credits will do, that one with its refutation.
  Attempt run();
  /// Whether all checks could follow the program. If not, too little synchronisation may have been inferred.
  bool hasFollowed() const { return isFollowed; }

private:
  static int64_t numRanks(ArrayRef<int64_t> mesh) {
    int64_t result = 1;
    for (int64_t size : mesh)
      result *= size;
    return result;
  }
  std::optional<Refutation> check(ProgramOp program, const CheckOptions &wanted);
  bool isRefuted(ProgramOp program) { return check(program, soon).has_value(); }
  Attempt attempt(const Choices &choices, const CheckOptions &wanted);
  bool isProvedWith(const Choices &choices);
  bool strengthen(Choices &choices, const Attempt &refuted);
  void weaken(Choices &choices);
  Choices withEntryCredits(const Choices &choices) const;
  enum class WaitsMove { Last, First };
  Attempt settle(const Choices &choices, WaitsMove order, size_t &numMoved);
  void settlePipeline(ProgramOp program, size_t &numMoved);
  void elide(ProgramOp program);
  size_t changeAll(ProgramOp program, function_ref<bool(const ProjectedTransfer &)> change);
  void elideFlushes(ProgramOp program, bool keepsLast);
  void elideSignals(ProgramOp program);
  size_t moveEnds(ProgramOp program, function_ref<bool(const ProjectedTransfer &, size_t place)> move);
  size_t deferWaits(ProgramOp program);
  void reorderPhases(ProgramOp program);

  ProgramOp base;
  const CheckOptions &options;
  CheckOptions soon; // the same, for changes of which only the answer counts
  std::vector<SmallVector<CreditChoice>> possible;
  std::vector<SmallVector<int64_t>> meshes;
  std::map<Choices, bool> attempted; // whether the program with these was proved
  bool isFollowed = true;
  bool keepsWaits = false; // in a pipeline: data of some transfer is waited for in the phase that sends it
};

std::optional<Refutation> Inference::check(ProgramOp program, const CheckOptions &wanted) {
  for (ArrayRef<int64_t> mesh : meshes) {
    Verdict verdict = checkProgram(program, mesh, wanted);
    if (verdict.refutation)
      return verdict.refutation;
    isFollowed &= !verdict.tooLarge;
  }
  return std::nullopt;
}

Attempt Inference::attempt(const Choices &choices, const CheckOptions &wanted) {
  OwningOpRef<ProgramOp> program(base.clone());
  uint64_t semaphores = base.getSemaphores();
  for (auto [number, transfer] : llvm::enumerate(findTransfers(*program)))
    if (const CreditChoice &choice = possible[number][choices[number]]; choice.kind)
      placeCredit(transfer, choice, semaphores++);
  program->setSemaphores(semaphores);
  std::optional<Refutation> refutation = check(*program, wanted);
  attempted[choices] = !refutation;
  return {std::move(program), std::move(refutation)};
}

bool Inference::isProvedWith(const Choices &choices) {
  auto known = attempted.find(choices);
  return known != attempted.end() ? known->second : attempt(choices, soon).isProved();
}

/// Gives a transfer that the refutation names the next stronger credit: first puts that come too early, then reads that
/// come too late, then any transfer. False when all have their strongest.
bool Inference::strengthen(Choices &choices, const Attempt &refuted) {
  auto isStrongest = [&](size_t number) { return choices[number] + 1 == possible[number].size(); };
  SmallVector<size_t, 4> candidates;
  for (bool wantsPull : {false, true})
    for (auto [number, transfer] : llvm::enumerate(findTransfers(refuted.program.get())))
      if ((transfer.move == refuted.refutation->op || transfer.move == refuted.refutation->otherOp) &&
          transfer.isPull() == wantsPull && !isStrongest(number))
        candidates.push_back(number);
  // A stronger credit that leads to the same refutation does not help by itself: try the others first.
  for (size_t number : candidates) {
    Choices stronger = choices;
    while (++stronger[number] < possible[number].size()) {
      Attempt next = attempt(stronger, options);
      bool isSame = !next.isProved() && next.refutation->message == refuted.refutation->message;
      bool isDeadlock = !next.isProved() && next.refutation->property == Property::Deadlock;
      if (isSame || isDeadlock)
        continue;
      choices = stronger;
      return true;
    }
  }
  if (candidates.empty())
    for (size_t number = 0; number < choices.size(); ++number)
      if (!isStrongest(number))
        candidates.push_back(number);
  for (size_t number : candidates)
    choices[number] = possible[number].size() - 1;
  return !candidates.empty();
}

/// Later credits make earlier ones redundant.
void Inference::weaken(Choices &choices) {
  for (bool didChange = true; didChange;) {
    didChange = false;
    for (size_t number = 0; number < choices.size(); ++number)
      for (size_t weaker = 0; weaker < choices[number]; ++weaker) {
        Choices fewer = choices;
        fewer[number] = weaker;
        if (!isProvedWith(fewer))
          continue;
        choices = fewer;
        didChange = true;
      }
  }
}

Attempt Inference::run() {
  Choices choices(possible.size(), 0);
  Attempt current = attempt(choices, options);
  while (!current.isProved()) {
    if (!strengthen(choices, current))
      return current;
    current = attempt(choices, options);
  }
  weaken(choices);
  size_t numMoved = 0;
  current = settle(choices, WaitsMove::Last, numMoved);
  if (Choices more = withEntryCredits(choices); more != choices) {
    size_t numMovedThen = 0;
    Attempt then = settle(more, WaitsMove::First, numMovedThen);
    if (then.isProved() && numMovedThen > numMoved)
      return then;
  }
  return current;
}

/// Of a move; in a pipeline, around the conditions in its phase.
Block *blockAround(Operation *move, bool isPipeline) {
  Operation *op = move;
  while (isPipeline && isa<scf::IfOp>(op->getParentOp()) && !isPhase(op->getParentOp()))
    op = op->getParentOp();
  return op->getBlock();
}

/// With the entry credits of transfers that stand beside others and have no credit. The same where all waits of a
/// pipeline have moved without them.
Choices Inference::withEntryCredits(const Choices &choices) const {
  Choices more = choices;
  bool isPipeline = numSlices(base).has_value();
  if (isPipeline && !keepsWaits)
    return more;
  SmallVector<ProjectedTransfer> transfers = findTransfers(base);
  for (auto [number, transfer] : llvm::enumerate(transfers)) {
    Block *block = blockAround(transfer.move, isPipeline);
    bool hasNeighbour = llvm::count_if(transfers, [&](const ProjectedTransfer &other) {
                          return blockAround(other.move, isPipeline) == block;
                        }) > 1;
    const auto *entry = llvm::find(possible[number], CreditChoice{CreditKind::Entry, 0});
    if (hasNeighbour && choices[number] == 0 && entry != possible[number].end())
      more[number] = size_t(entry - possible[number].begin());
  }
  return more;
}

/// The program with these credits, without what it does not need, and with its ends moved; counts the waits that are.
/// Waits that move first may need a credit that they would make redundant where they were.
Attempt Inference::settle(const Choices &choices, WaitsMove order, size_t &numMoved) {
  Attempt current = attempt(choices, soon);
  if (!current.isProved())
    return current;
  if (numSlices(*current.program)) {
    settlePipeline(*current.program, numMoved);
    return current;
  }
  if (order == WaitsMove::First)
    numMoved += moveEnds(*current.program, sinkWait);
  elide(*current.program);
  // Only statements that touch arriving data wait for it; a rank says at once that its data is ready.
  moveEnds(*current.program, raiseSignal);
  numMoved += moveEnds(*current.program, sinkWait);
  return current;
}

/// What travels while others wait counts for more than one flush per call: without that flush, waits between the slices
/// would say that what a rank sent has been read. So it goes last, and so do signals that the moved waits may need.
void Inference::settlePipeline(ProgramOp program, size_t &numMoved) {
  elideFlushes(program, /*keepsLast=*/true);
  numMoved += moveEnds(program, sinkWait);
  numMoved += deferWaits(program);
  reorderPhases(program);
  elideSignals(program);
  elideFlushes(program, /*keepsLast=*/false);
  moveEnds(program, raiseSignal);
}

/// Tries a change to a copy of the program, found by the number of an op in the order of a walk.
template <typename Change> OwningOpRef<ProgramOp> copyWith(ProgramOp program, Change change) {
  OwningOpRef<ProgramOp> copy(program.clone());
  change(*copy);
  return copy;
}

/// Puts the body of one program into another.
void replaceBody(ProgramOp program, ProgramOp other) {
  program.getBody().takeBody(other.getBody());
  program.setSemaphores(other.getSemaphores());
}

/// A signal may make a flush redundant, and the other way round. Packets show their own arrival, so with them signals
/// are the cost, and the first to go.
void Inference::elide(ProgramOp program) {
  bool hasPackets = llvm::any_of(program.getBody().getOps<BufferOp>(),
                                 [](BufferOp buffer) { return buffer.getRole() == BufferRole::Packets; });
  if (hasPackets)
    elideSignals(program);
  elideFlushes(program, /*keepsLast=*/false);
  if (!hasPackets)
    elideSignals(program);
}

void Inference::elideFlushes(ProgramOp program, bool keepsLast) {
  auto numberOf = [](ProgramOp where) {
    int64_t number = 0;
    where.walk([&](FlushOp) { ++number; });
    return number;
  };
  // One at the very end may do for all.
  if (numberOf(program) > 0) {
    OpBuilder builder(&program.getBody().front(), endBeforeDivision(program));
    FlushOp::create(builder, program.getLoc());
  }
  auto elide = [&](int64_t first, int64_t last) {
    OwningOpRef<ProgramOp> copy = copyWith(program, [&](ProgramOp changed) {
      SmallVector<FlushOp> flushes;
      changed.walk([&](FlushOp flush) { flushes.push_back(flush); });
      for (FlushOp flush : ArrayRef(flushes).slice(size_t(first), size_t(last - first)))
        eraseWithEmptyNest(flush);
    });
    bool isProved = !isRefuted(*copy);
    if (isProved)
      replaceBody(program, *copy);
    return isProved;
  };
  if (int64_t others = numberOf(program) - 1; others > 1) // most programs need none of these
    elide(0, others);
  for (int64_t i = 0; i < numberOf(program) - (keepsLast ? 1 : 0);)
    if (!elide(i, i + 1))
      ++i;
}

void Inference::elideSignals(ProgramOp program) {
  for (uint64_t semaphore = 0; semaphore < program.getSemaphores();) {
    OwningOpRef<ProgramOp> copy = copyWith(program, [&](ProgramOp changed) {
      SmallVector<Operation *> ends;
      changed.walk([&](Operation *op) {
        if (auto signal = dyn_cast<SignalOp>(op)) {
          if (signal.getSemaphore() == semaphore)
            ends.push_back(op);
          else if (signal.getSemaphore() > semaphore)
            signal.setSemaphore(signal.getSemaphore() - 1);
        } else if (auto wait = dyn_cast<WaitOp>(op)) {
          if (wait.getSemaphore() == semaphore)
            ends.push_back(op);
          else if (wait.getSemaphore() > semaphore)
            wait.setSemaphore(wait.getSemaphore() - 1);
        }
      });
      for (Operation *end : ends)
        eraseWithEmptyNest(end);
      changed.setSemaphores(changed.getSemaphores() - 1);
    });
    if (isRefuted(*copy))
      ++semaphore;
    else
      replaceBody(program, *copy);
  }
}

/// Makes the change to all transfers that can have it, if the checker still proves the program. Gives their number.
/// Most programs allow it, and then take one check for all.
size_t Inference::changeAll(ProgramOp program, function_ref<bool(const ProjectedTransfer &)> change) {
  size_t numChanged = 0;
  OwningOpRef<ProgramOp> copy(program.clone());
  for (size_t number = 0; number < findTransfers(*copy).size(); ++number)
    numChanged += change(findTransfers(*copy)[number]);
  if (numChanged == 0 || isRefuted(*copy))
    return 0;
  replaceBody(program, *copy);
  return numChanged;
}

/// Tries one end of every transfer at other places, the best first. Gives the number of those that it moved.
size_t Inference::moveEnds(ProgramOp program, function_ref<bool(const ProjectedTransfer &, size_t place)> move) {
  size_t numMoved = changeAll(program, [&](const ProjectedTransfer &transfer) { return move(transfer, 0); });
  if (numMoved > 0)
    return numMoved;
  for (size_t number = 0; number < findTransfers(program).size(); ++number)
    for (size_t place = 0;; ++place) {
      OwningOpRef<ProgramOp> copy(program.clone());
      if (!move(findTransfers(*copy)[number], place))
        break;
      if (isRefuted(*copy))
        continue;
      replaceBody(program, *copy);
      ++numMoved;
      break;
    }
  return numMoved;
}

/// In a pipeline, the next phase of a slice comes one round later. Its ranks wait only then. Gives the number of waits
/// that it moved.
size_t Inference::deferWaits(ProgramOp program) {
  size_t numDeferred = changeAll(program, deferWait);
  if (numDeferred > 0)
    return numDeferred;
  for (size_t number = 0; number < findTransfers(program).size(); ++number) {
    OwningOpRef<ProgramOp> copy(program.clone());
    if (!deferWait(findTransfers(*copy)[number]))
      continue;
    if (isRefuted(*copy)) {
      keepsWaits = true;
      continue;
    }
    replaceBody(program, *copy);
    ++numDeferred;
  }
  return numDeferred;
}

/// With earlier phases first in a round, the rank waits for what others sent in the round before while what it sends
/// itself travels. Where a phase waits between its moves, it does so for data of its own round, which would be delayed.
void Inference::reorderPhases(ProgramOp program) {
  OwningOpRef<ProgramOp> copy(program.clone());
  if (putEarlierPhasesFirst(*copy) && !isRefuted(*copy))
    replaceBody(program, *copy);
}

/// Nothing where the budget is too small for the smallest mesh.
std::optional<Attempt> infer(ProgramOp program, const CheckOptions &options) {
  Inference inference(program, options);
  Attempt attempt = inference.run();
  return inference.hasFollowed() ? std::optional(std::move(attempt)) : std::nullopt;
}

/// The same, unless it is remembered.
std::optional<Attempt> infer(ProgramOp program, const CheckOptions &options, InferenceMemory &memory) {
  std::string text = std::to_string(options.maxBytes) + "\n";
  llvm::raw_string_ostream stream(text);
  program.print(stream, OpPrintingFlags().enableDebugInfo().useLocalScope());
  if (std::optional<ProgramOp> known = memory.find(text))
    return *known ? std::optional(Attempt{known->clone(), std::nullopt}) : std::nullopt;
  std::optional<Attempt> attempt = infer(program, options);
  if (!attempt || attempt->isProved())
    memory.add(text, attempt ? attempt->program->clone() : ProgramOp());
  return attempt;
}

/// With so many slices of a pipeline.
std::optional<Attempt> inferWithSlices(int64_t slices, ProgramOp program, const CheckOptions &options,
                                       InferenceMemory *memory) {
  std::optional<int64_t> all = numSlices(program);
  if (all)
    setNumSlices(program, slices);
  std::optional<Attempt> attempt = memory ? infer(program, options, *memory) : infer(program, options);
  if (all)
    setNumSlices(program, *all);
  if (all && attempt)
    setNumSlices(*attempt->program, *all);
  return attempt;
}

/// Infers what the rounds of a pipeline need from few of them: from the same number for most depths, which then share
/// what is remembered.
Attempt inferWithFewSlices(ProgramOp program, const CheckOptions &quick, const CheckOptions &larger,
                           InferenceMemory *memory) {
  int64_t slices = numSlices(program).value_or(1);
  if (numSlices(program) && 2 * slices > fewSlices(program))
    slices = fewSlices(program);
  std::optional<Attempt> attempt = inferWithSlices(slices, program, quick, memory);
  if (!attempt)
    attempt = inferWithSlices(slices, program, larger, memory);
  if (attempt && (!attempt->isProved() || isProvedOnItsMeshes(*attempt->program, larger)))
    return std::move(*attempt);
  return Inference(program, larger).run();
}

struct InferSynchronisation : impl::InferSynchronisationBase<InferSynchronisation> {
  using InferSynchronisationBase::InferSynchronisationBase;
  InferSynchronisation(const InferSynchronisationOptions &options, InferenceMemory *memory)
      : InferSynchronisationBase(options), memory(memory) {}

  void runOnOperation() override {
    ProgramOp program = getOperation();
    if (!program.getNeedsHandshake())
      return;
    program.setNeedsHandshake(false);
    CheckOptions larger;
    setBudget(larger, std::min<int64_t>(budget * 4, 1 << 18)); // measured in another way than the final check
    larger.wantSteps = false;
    larger.followsCodecs = false;
    larger.prefersSmallMeshes = true;
    CheckOptions quick = larger;
    setBudget(quick, std::min<int64_t>(budget, 1 << 13));
    Attempt attempt = inferWithFewSlices(program, quick, larger, memory);
    // What is refuted with the strongest credits is reported by CheckProgram, at the end of the pipeline.
    replaceBody(program, *attempt.program);
    removePipelinePhases(program);
  }

  InferenceMemory *memory = nullptr;
};

} // namespace

std::unique_ptr<Pass> createInferSynchronisation(const InferSynchronisationOptions &options, InferenceMemory *memory) {
  return std::make_unique<InferSynchronisation>(options, memory);
}

} // namespace kolo
