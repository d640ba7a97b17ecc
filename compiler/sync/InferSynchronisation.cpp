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
// For speed, the search runs on meshes that are as small as the checker allows, and with few slices of a pipeline. What
// it finds is a guess. CheckProgram proves the meshes themselves, with all slices, at the end; where that refutes the
// guess, the option in-full lets the pass search on larger and larger meshes until the meshes themselves confirm what
// it found. What the checker cannot decide is not proved: synchronisation stays. Requires channel form as
// VerifyProjected states it. Leaves programs alone that their author wrote in channel form.
#include "compiler/InferenceMemory.h"
#include "compiler/Passes.h"
#include "compiler/sync/PipelinePhases.h"
#include "compiler/sync/Settling.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Parser/Parser.h"

#include <map>

using namespace mlir;

namespace kolo {
#define GEN_PASS_DEF_INFERSYNCHRONISATION
#include "compiler/Passes.h.inc"

namespace {

using Choices = SmallVector<size_t, 8>; // by transfer: which of its possible credits

/// A program, and why it is not proved, if it is not.
struct Attempt {
  OwningOpRef<ProgramOp> program;
  std::optional<Verdict> unproved;
  bool isProved() const { return !unproved; }
  const Refutation *refutation() const { return unproved && unproved->refutation ? &*unproved->refutation : nullptr; }
};

class Inference {
public:
  Inference(ProgramOp base, const CheckOptions &options) : base(base), checks(base, options) {
    for (const ProjectedTransfer &transfer : findTransfers(base))
      possible.push_back(possibleCredits(transfer));
  }

  /// The synchronised program, or, if not even the strongest credits will do, that one with its refutation. Nothing
  /// where the limits leave open what is missing.
  std::optional<Attempt> run();
  /// With the strongest credits, which are sound for every program that Project makes.
  OwningOpRef<ProgramOp> buildStrongest();
  /// Whether the limits sufficed for all checks.
  bool hasFollowed() const { return checks.hasFollowed(); }

private:
  OwningOpRef<ProgramOp> build(const Choices &choices);
  enum class Answer { Explained, Soon };
  Attempt attempt(const Choices &choices, Answer wanted);
  bool isProvedWith(const Choices &choices);
  std::optional<Attempt> strengthen(Choices &choices, const Attempt &refuted);
  void weaken(Choices &choices);
  Choices withEntryCredits(const Choices &choices) const;

  ProgramOp base;
  MeshChecks checks;
  std::vector<SmallVector<CreditChoice>> possible;
  std::map<Choices, bool> attempted; // whether the program with these was proved
  std::vector<Choices> disordered;   // with which two accesses have no order
};

OwningOpRef<ProgramOp> Inference::build(const Choices &choices) {
  OwningOpRef<ProgramOp> program(base.clone());
  uint64_t semaphores = base.getSemaphores();
  for (auto [number, transfer] : llvm::enumerate(findTransfers(*program)))
    if (const CreditChoice &choice = possible[number][choices[number]]; choice.kind)
      placeCredit(transfer, choice, semaphores++);
  program->setSemaphores(semaphores);
  return program;
}

Attempt Inference::attempt(const Choices &choices, Answer wanted) {
  OwningOpRef<ProgramOp> program = build(choices);
  std::optional<Verdict> unproved = wanted == Answer::Soon ? checks.findAny(*program) : checks.explain(*program);
  Attempt made{std::move(program), std::move(unproved)};
  attempted[choices] = made.isProved();
  if (const Refutation *refutation = made.refutation();
      refutation && (refutation->property == Property::Race || refutation->property == Property::Invocations ||
                     refutation->property == Property::PutOrder))
    disordered.push_back(choices);
  return made;
}

OwningOpRef<ProgramOp> Inference::buildStrongest() {
  return build(llvm::map_to_vector<8>(possible, [](ArrayRef<CreditChoice> credits) { return credits.size() - 1; }));
}

/// Without some credits, accesses that had no order with them have none either.
bool Inference::isProvedWith(const Choices &choices) {
  auto known = attempted.find(choices);
  if (known != attempted.end())
    return known->second;
  auto hasMore = [&](const Choices &other) {
    return llvm::all_of(llvm::zip_equal(choices, other),
                        [](auto pair) { return std::get<0>(pair) == 0 || std::get<0>(pair) == std::get<1>(pair); });
  };
  return llvm::none_of(disordered, hasMore) && attempt(choices, Answer::Soon).isProved();
}

/// Gives a transfer that the refutation names the next stronger credit: first puts that come too early, then reads that
/// come too late, then any transfer. Nothing when all have their strongest.
std::optional<Attempt> Inference::strengthen(Choices &choices, const Attempt &refuted) {
  auto isStrongest = [&](size_t number) { return choices[number] + 1 == possible[number].size(); };
  SmallVector<size_t, 4> candidates;
  for (bool wantsPull : {false, true})
    for (auto [number, transfer] : llvm::enumerate(findTransfers(refuted.program.get())))
      if ((transfer.move == refuted.refutation()->op || transfer.move == refuted.refutation()->otherOp) &&
          transfer.isPull() == wantsPull && !isStrongest(number))
        candidates.push_back(number);
  // A stronger credit that leads to the same refutation does not help by itself: try the others first.
  for (size_t number : candidates) {
    Choices stronger = choices;
    while (++stronger[number] < possible[number].size()) {
      Attempt next = attempt(stronger, Answer::Explained);
      const Refutation *refutation = next.refutation();
      bool isSame = refutation && refutation->message == refuted.refutation()->message;
      bool isDeadlock = refutation && refutation->property == Property::Deadlock;
      if (isSame || isDeadlock)
        continue;
      choices = stronger;
      return next;
    }
  }
  if (candidates.empty())
    for (size_t number = 0; number < choices.size(); ++number)
      if (!isStrongest(number))
        candidates.push_back(number);
  for (size_t number : candidates)
    choices[number] = possible[number].size() - 1;
  return candidates.empty() ? std::nullopt : std::optional(attempt(choices, Answer::Explained));
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

std::optional<Attempt> Inference::run() {
  Choices choices(possible.size(), 0);
  Attempt current = attempt(choices, Answer::Explained);
  while (!current.isProved()) {
    if (!current.refutation())
      return std::nullopt;
    std::optional<Attempt> next = strengthen(choices, current);
    if (!next)
      return current;
    current = std::move(*next);
  }
  weaken(choices);
  current = {build(choices), std::nullopt};
  Settling settling(*current.program, checks);
  settling.run(WaitsMove::Last);
  bool hasMovedAll = numSlices(base) && !settling.keepsWaits;
  if (Choices more = withEntryCredits(choices); more != choices && !hasMovedAll && isProvedWith(more)) {
    Attempt then{build(more), std::nullopt};
    Settling settlingThen(*then.program, checks);
    settlingThen.run(WaitsMove::First);
    if (settlingThen.numMoved > settling.numMoved)
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

/// With the entry credits of transfers that stand beside others and have no credit.
Choices Inference::withEntryCredits(const Choices &choices) const {
  Choices more = choices;
  bool isPipeline = numSlices(base).has_value();
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

/// Of which the parser makes the same program, locations included.
std::string textOf(ProgramOp program) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  program.print(stream, OpPrintingFlags().enableDebugInfo().useLocalScope());
  return text;
}

/// Nothing where the limits do not suffice for all checks.
std::optional<Attempt> infer(ProgramOp program, const CheckOptions &options) {
  Inference inference(program, options);
  std::optional<Attempt> attempt = inference.run();
  return inference.hasFollowed() ? std::move(attempt) : std::nullopt;
}

/// The same, unless it is remembered.
std::optional<Attempt> infer(ProgramOp program, const CheckOptions &options, InferenceMemory *memory) {
  if (!memory)
    return infer(program, options);
  std::string key = std::to_string(options.maxBytes) + "\n" + textOf(program);
  if (std::optional<std::string> known = memory->find(key)) {
    if (known->empty())
      return std::nullopt;
    ParserConfig config(program.getContext(), /*verifyAfterParse=*/false);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(*known, config);
    assert(module && "what was printed can be parsed");
    OwningOpRef<ProgramOp> found(*module->getOps<ProgramOp>().begin());
    found->getOperation()->remove();
    return Attempt{std::move(found), std::nullopt};
  }
  std::optional<Attempt> attempt = infer(program, options);
  if (!attempt || attempt->isProved())
    memory->add(std::move(key), attempt ? textOf(*attempt->program) : "");
  return attempt;
}

/// From few slices of a pipeline what all of its rounds need: from the same number for most depths, which then share
/// what is remembered.
std::optional<Attempt> inferFromFewSlices(ProgramOp program, const CheckOptions &options, InferenceMemory *memory) {
  std::optional<int64_t> all = numSlices(program);
  if (!all || 2 * *all <= fewSlices(program))
    return infer(program, options, memory);
  setNumSlices(program, fewSlices(program));
  std::optional<Attempt> attempt = infer(program, options, memory);
  setNumSlices(program, *all);
  if (attempt)
    setNumSlices(*attempt->program, *all);
  return attempt;
}

/// What a loop that the search runs through in few iterations has of its own.
constexpr llvm::StringLiteral wholeAttrName = "iterations";

/// Lets loops of a fixed, large number of iterations end after few. False if there are none.
bool shortenLoops(ProgramOp program) {
  constexpr int64_t mostIterations = 256, fewIterations = 8;
  bool isShorter = false;
  program.walk([&](scf::ForOp loop) {
    std::optional<int64_t> lower = getConstantIntValue(loop.getLowerBound()),
                           upper = getConstantIntValue(loop.getUpperBound()),
                           step = getConstantIntValue(loop.getStep());
    if (!lower || !upper || step != 1 || *upper - *lower <= mostIterations)
      return;
    OpBuilder builder(loop);
    loop->setAttr(wholeAttrName, builder.getIndexAttr(*upper));
    loop.setUpperBound(arith::ConstantIndexOp::create(builder, loop.getLoc(), *lower + fewIterations));
    isShorter = true;
  });
  return isShorter;
}

void restoreLoops(ProgramOp program) {
  program.walk([&](scf::ForOp loop) {
    auto whole = loop->getAttrOfType<IntegerAttr>(wholeAttrName);
    if (!whole)
      return;
    OpBuilder builder(loop);
    loop.setUpperBound(arith::ConstantIndexOp::create(builder, loop.getLoc(), whole.getInt()));
    loop->removeAttr(wholeAttrName);
  });
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
    OwningOpRef<ProgramOp> synchronised = climb(program);
    replaceBody(program, *synchronised);
    removePipelinePhases(program);
  }

private:
  OwningOpRef<ProgramOp> climb(ProgramOp program);
  CheckOptions limitsInFull(ProgramOp program) const {
    return optionsInFull(program, {budget, represented, standInBudget});
  }
  std::optional<Attempt> guess(ProgramOp program, int64_t &numBytes);
  std::optional<Attempt> guessFromFewIterations(ProgramOp program);
  bool isConfirmed(ProgramOp program) const;

  /// What a guess on all slices of a pipeline takes.
  int64_t wholeGuessBudget() const { return guessBudget * 32; }
  InferenceMemory *memory = nullptr;
};

/// A guess that small meshes do not refute with all slices is left to the proof of the meshes themselves.
bool InferSynchronisation::isConfirmed(ProgramOp program) const {
  if (inFull)
    return isProvedOnItsMeshes(program, limitsInFull(program));
  CheckOptions soon = optionsOfGuess(program, wholeGuessBudget());
  soon.endsAtRefutation = true;
  return llvm::none_of(program.getMeshes().getAsRange<DenseI64ArrayAttr>(), [&](DenseI64ArrayAttr mesh) {
    return checkProgram(program, mesh.asArrayRef(), soon).refutation.has_value();
  });
}

/// With the least budget that suffices for a mesh of the program, since every step of the inference checks that mesh
/// anew. `numBytes`: twice that budget.
std::optional<Attempt> InferSynchronisation::guess(ProgramOp program, int64_t &numBytes) {
  std::optional<Attempt> attempt;
  for (numBytes = guessBudget; !attempt && numBytes < budget; numBytes *= 2)
    attempt = inferFromFewSlices(program, optionsOfGuess(program, numBytes), memory);
  return attempt;
}

/// Nothing where there are no long loops, or where few iterations do not do what the program does.
std::optional<Attempt> InferSynchronisation::guessFromFewIterations(ProgramOp program) {
  OwningOpRef<ProgramOp> shorter(program.clone());
  if (!shortenLoops(*shorter))
    return std::nullopt;
  int64_t numBytes;
  std::optional<Attempt> attempt = guess(*shorter, numBytes);
  if (!attempt || !attempt->isProved())
    return std::nullopt;
  restoreLoops(*attempt->program);
  return attempt;
}

/// What is refuted with the strongest credits is reported by CheckProgram, at the end of the pipeline.
OwningOpRef<ProgramOp> InferSynchronisation::climb(ProgramOp program) {
  if (std::optional<Attempt> attempt = guessFromFewIterations(program); attempt && isConfirmed(*attempt->program))
    return std::move(attempt->program);
  int64_t numBytes;
  std::optional<Attempt> attempt = guess(program, numBytes);
  if (attempt && (attempt->isProved() ? isConfirmed(*attempt->program) : !inFull))
    return std::move(attempt->program);
  for (numBytes = std::max(numBytes, wholeGuessBudget()); numBytes < budget; numBytes *= 8) {
    attempt = infer(program, optionsOfGuess(program, numBytes));
    if (attempt && (!inFull || (attempt->isProved() && isConfirmed(*attempt->program))))
      return std::move(attempt->program);
  }
  CheckOptions last = limitsInFull(program);
  Inference inference(program, last);
  attempt = inference.run();
  return attempt ? std::move(attempt->program) : inference.buildStrongest();
}

} // namespace

std::unique_ptr<Pass> createInferSynchronisation(const InferSynchronisationOptions &options, InferenceMemory *memory) {
  return std::make_unique<InferSynchronisation>(options, memory);
}

} // namespace kolo
