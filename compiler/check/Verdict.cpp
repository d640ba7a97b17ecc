// Decides about a program on one mesh: every root, calls in place, and calls back to back.
#include "compiler/check/Verdict.h"
#include "compiler/check/Interleaving.h"
#include "compiler/check/MeshChoice.h"
#include "compiler/model/Unfold.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

using namespace mlir;

namespace kolo {

std::string shortName(Property property) { return "V" + std::to_string(int(property) + 1); }

StringRef title(Property property) {
  switch (property) {
  case Property::Result:
    return "right result";
  case Property::Race:
    return "no data race";
  case Property::PutOrder:
    return "puts arrive before their signals";
  case Property::Deadlock:
    return "no deadlock";
  case Property::Balance:
    return "signals and waits balance";
  case Property::Bounds:
    return "in bounds";
  case Property::Invocations:
    return "safe back to back";
  case Property::Resources:
    return "within resources";
  case Property::Order:
    return "fixed reduction order";
  case Property::Timeout:
    return "every wait can time out";
  case Property::SameBits:
    return "same bits";
  }
  llvm_unreachable("every property is handled");
}

std::optional<Transport> parseTransport(StringRef text) {
  if (text == "shared" || text == "peer")
    return Transport{text.str(), true, "stores are ordered by release and acquire"};
  if (text == "network" || text == "network:nics=1")
    return Transport{text.str(), true, "a lane's puts and signals to a peer take one NIC"};
  unsigned nics = 0;
  if (text.consume_front("network:nics=") && !text.getAsInteger(10, nics) && nics > 1)
    return Transport{("network:nics=" + Twine(nics)).str(), false,
                     "a put is striped over " + std::to_string(nics) + " NICs, a signal takes one"};
  return std::nullopt;
}

void setBudget(CheckOptions &options, int64_t numBytes) {
  const CheckOptions defaults;
  options.maxBytes = numBytes;
  options.maxWork =
      std::max<int64_t>(int64_t(double(defaults.maxWork) / double(defaults.maxBytes) * double(numBytes)), 1);
}

int64_t SyncCounts::waits() const {
  int64_t result = dataWaits;
  for (const auto &[kind, number] : creditWaits)
    result += number;
  return result;
}

namespace {

constexpr size_t maxStepsShown = 16;

std::string nameOf(Value buffer) { return buffer.getDefiningOp<BufferOp>().getName().str(); }

/// One run: one mesh, one root, in place or not.
class ProgramCheck {
public:
  ProgramCheck(Code &code, ArrayRef<int64_t> mesh, int64_t root, bool isInPlace, const CheckOptions &options)
      : tracer(code, mesh, root, isInPlace), options(options), isInPlace(isInPlace) {}

  void run(Verdict &verdict);

private:
  bool isTooLarge(Verdict &verdict);
  bool checkBalance(const TracedGroup &traced);
  void follow(const TracedGroup &traced, Verdict &verdict);
  std::string needsMoreSteps() const;
  std::string needsMoreMemory() const;
  std::string describe(const EndedEarly &ended, const TracedGroup &traced) const;
  void explain(const TracedGroup &traced, const VectorClockResult &result);
  void explainConflict(const TracedGroup &traced, const std::vector<Conflict> &conflicts);
  void explainDeadlock(const TracedGroup &traced, const std::vector<Blocked> &blocked);
  void explainOutput(const WrongOutput &wrong);
  void explainBits(const TracedGroup &traced, const OtherBits &bits);
  std::string describeChunk(int64_t owner, uint32_t buffer, int64_t chunk) const;
  Refutation &refute(Property property, std::string message, Operation *op);

  Tracer tracer;
  const CheckOptions &options;
  bool isInPlace;
  std::optional<Refutation> refutation;
};

Refutation &ProgramCheck::refute(Property property, std::string message, Operation *op) {
  Refutation result{property, std::move(message), op ? op->getLoc() : Location(tracer.program().program.getLoc()), {}};
  result.op = op;
  result.mesh.assign(tracer.mesh().begin(), tracer.mesh().end());
  result.root = tracer.rootNumber();
  result.isInPlace = isInPlace;
  return refutation.emplace(std::move(result));
}

std::string ProgramCheck::describeChunk(int64_t owner, uint32_t buffer, int64_t chunk) const {
  std::string text;
  for (int32_t extent : llvm::reverse(tracer.grids()[buffer].extents)) {
    text = std::to_string(chunk % extent) + (text.empty() ? "" : ", ") + text;
    chunk /= extent;
  }
  return "chunk [" + text + "] of '" + tracer.program().buffers[buffer].name + "' on rank " + std::to_string(owner);
}

bool ProgramCheck::isTooLarge(Verdict &verdict) {
  if (tracer.bufferOfTooManyChunks) {
    verdict.tooLarge = "has too many chunks of '" + *tracer.bufferOfTooManyChunks + "' to number them in 31 bits";
    return true;
  }
  tracer.maxLines = options.maxWork;
  tracer.maxEvents = std::max<int64_t>(options.prefersSmallMeshes ? options.maxWork / tracer.numRanks()
                                                                  : options.maxChunkBytes() / int64_t(sizeof(Event)),
                                       1);
  if (!options.prefersSmallMeshes)
    return false;
  // An estimate, from one rank's trace.
  Trace trace;
  tracer.run(0, trace);
  if (tracer.isTooLong || tracer.isMoreThanAllowed(double(tracer.numLinesRun) * double(tracer.numRanks() - 1)))
    verdict.tooLarge = needsMoreSteps();
  tracer.maxLines = INT64_MAX;
  return verdict.tooLarge.has_value();
}

bool ProgramCheck::checkBalance(const TracedGroup &traced) {
  const RankGroup &group = traced.group;
  struct Ends {
    int64_t numSignals = 0, numWaits = 0;
    Operation *op = nullptr;
    int64_t from = 0, to = 0;
  };
  std::map<std::tuple<int32_t, int64_t, int64_t>, Ends>
      channels; // semaphore, sender, receiver, moved to a representative
  for (auto [orbit, trace] : llvm::enumerate(traced.traces)) {
    int64_t rank = group.representatives()[orbit];
    for (const Event &event : trace.events) {
      if (event.kind != EventKind::Signal && event.kind != EventKind::Wait)
        continue;
      bool isSignal = event.kind == EventKind::Signal;
      int64_t sender = isSignal ? rank : event.peer, receiver = isSignal ? event.peer : rank;
      Ends &ends =
          channels[{event.semaphore, group.representatives()[group.orbitOf(sender)], group.moveBack(sender, receiver)}];
      ++(isSignal ? ends.numSignals : ends.numWaits);
      ends.op = tracer.program().ops[event.op].op;
      ends.from = sender;
      ends.to = receiver;
    }
  }
  for (const auto &[key, ends] : channels)
    if (ends.numSignals != ends.numWaits) {
      Refutation &unbalanced =
          refute(Property::Balance,
                 "rank " + std::to_string(ends.from) + " signals semaphore " + std::to_string(std::get<0>(key)) +
                     " of rank " + std::to_string(ends.to) + " " + std::to_string(ends.numSignals) +
                     " times in a call, which waits " + std::to_string(ends.numWaits) + " times",
                 ends.op);
      unbalanced.ranks = {ends.from, ends.to};
      return false;
    }
  return true;
}

void ProgramCheck::explainConflict(const TracedGroup &traced, const std::vector<Conflict> &conflicts) {
  Interleaving interleaving(tracer, traced);
  const Conflict *shortest = nullptr;
  uint64_t size = UINT64_MAX;
  for (const Conflict &conflict : ArrayRef(conflicts).take_front(options.wantSteps ? 64 : 1)) {
    std::optional<uint64_t> past = options.wantSteps ? interleaving.pastSize(conflict.earlier, conflict.later) : 0;
    if (shortest && past.value_or(UINT64_MAX) >= size)
      continue;
    size = past.value_or(UINT64_MAX);
    shortest = &conflict;
    if (!past) // so are the others, in such a program
      break;
  }
  const Moment &a = shortest->earlier, &b = shortest->later;
  Operation *opA = interleaving.opAt(a), *opB = interleaving.opAt(b);
  bool isAcrossCalls = !opA || !opB || interleaving.callOf(a) != interleaving.callOf(b);
  Property property = shortest->isOrderedByPuts ? Property::PutOrder
                      : isAcrossCalls           ? Property::Invocations
                                                : Property::Race;
  auto describe = [&](const Moment &moment, bool isWrite) {
    Operation *op = interleaving.opAt(moment);
    std::string text =
        op ? "rank " + std::to_string(moment.rank) + " " + interleaving.describe(moment)
           : "the application of rank " + std::to_string(moment.rank) + (isWrite ? " writes it" : " reads it");
    if (op)
      text += isWrite ? ", which writes it" : ", which reads it";
    return text + " (" + ordinal(interleaving.callOf(moment)) + " call)";
  };
  std::string chunk = describeChunk(shortest->owner, shortest->buffer, shortest->chunk);
  std::string message = "nothing orders two accesses to " + chunk + ": " + describe(a, shortest->isEarlierWrite) +
                        "; " + describe(b, shortest->isLaterWrite);
  if (shortest->isOrderedByPuts)
    message += "; " + options.transport.reason;
  Refutation &refuted = refute(property, std::move(message), opB ? opB : opA);
  refuted.otherOp = opB ? opA : nullptr;
  if (refuted.otherOp)
    refuted.other = refuted.otherOp->getLoc();
  refuted.ranks = {a.rank, b.rank};
  refuted.chunk = chunk;
  if (!options.wantSteps)
    return;
  std::optional<std::vector<Step>> past = interleaving.past(a, b, maxStepsShown);
  refuted.steps = past.value_or(std::vector<Step>());
  std::string before =
      past ? "" : "(after more than " + std::to_string(Interleaving::mostSteps) + " steps, which are left out) ";
  for (const auto &[moment, isWrite] : {std::pair(a, shortest->isEarlierWrite), std::pair(b, shortest->isLaterWrite)}) {
    Operation *op = interleaving.opAt(moment);
    refuted.steps.push_back({moment.rank, interleaving.callOf(moment),
                             std::exchange(before, "") + interleaving.describe(moment) +
                                 (op ? isWrite ? ", writing " + chunk : ", reading " + chunk : ""),
                             op ? op->getLoc() : refuted.loc});
  }
}

void ProgramCheck::explainDeadlock(const TracedGroup &traced, const std::vector<Blocked> &blocked) {
  Interleaving interleaving(tracer, traced);
  const Blocked &first = blocked.front();
  Operation *op = interleaving.opAt(first.moment);
  Refutation &refuted = refute(
      Property::Deadlock,
      "rank " + std::to_string(first.moment.rank) + " waits for ever: it " + interleaving.describe(first.moment) +
          (!first.numSignals ? ", of which nobody puts some"
                             : ", which sends " + std::to_string(*first.numSignals) +
                                   (*first.numSignals == 1 ? " signal" : " signals") + " until it waits itself"),
      op);
  for (const Blocked &each : ArrayRef(blocked).take_front(maxStepsShown)) {
    refuted.ranks.push_back(each.moment.rank);
    refuted.steps.push_back({each.moment.rank, interleaving.callOf(each.moment),
                             "waits for ever: " + interleaving.describe(each.moment),
                             interleaving.opAt(each.moment)->getLoc()});
  }
}

void ProgramCheck::explainOutput(const WrongOutput &wrong) {
  uint32_t output = *tracer.bufferOf(BufferRole::Output);
  std::string chunk = describeChunk(wrong.rank, output, wrong.chunk);
  Refutation &refuted =
      refute(Property::Result, chunk + " ends as " + wrong.held + " instead of " + wrong.wanted, wrong.op);
  refuted.ranks = {wrong.rank};
  refuted.chunk = chunk;
}

/// The op of a rank's last write of an output chunk. A division is none of the author's statements: then of its last
/// move there before, if it made one.
static Operation *writerOf(const Tracer &tracer, const TracedGroup &traced, const OtherBits &bits) {
  Operation *op = Interleaving(tracer, traced).opAt(bits.write);
  if (!isa_and_nonnull<DivideOp>(op))
    return op;
  uint32_t output = *tracer.bufferOf(BufferRole::Output);
  int64_t chunk = traced.group.moveChunkBack(bits.rank, output, bits.chunk);
  const Trace &trace = traced.traces[traced.group.orbitOf(bits.rank)];
  std::vector<int32_t> chunks;
  for (const Event &event : llvm::reverse(trace.events)) {
    const OpInfo &info = tracer.program().ops[event.op];
    if (!info.isMove() || event.kind == EventKind::Put || event.destination.buffer != output)
      continue;
    expandBox(trace, event.destination, tracer.grids()[output], chunks);
    if (llvm::is_contained(chunks, chunk))
      return info.op;
  }
  return op;
}

/// Names what the rank that lost less wrote, and the statement that encodes what the other rank has.
void ProgramCheck::explainBits(const TracedGroup &traced, const OtherBits &bits) {
  Interleaving interleaving(tracer, traced);
  std::string chunk = describeChunk(bits.rank, *tracer.bufferOf(BufferRole::Output), bits.chunk);
  std::string message = chunk + " has other bits than on rank " + std::to_string(bits.other);
  Operation *other = bits.encoding;
  if (auto encoding = dyn_cast_or_null<MoveInterface>(bits.encoding)) {
    std::string from = nameOf(encoding.getSource()), to = nameOf(encoding.getDestination());
    message += ", which decodes '" + to + "': ";
    if (hasSlots(encoding.getDestination()) && bits.isEncodedOnMost)
      message += "encode '" + from + "' into scratch memory first, send that, and ";
    message += bits.isEncodedOnMost
                   ? "copy what was sent, '" + to + "', not what it was made from, '" + from + "'"
                   : "copy what it was made from, '" + from + "', there too, which is what most ranks have";
  } else {
    message += ": the two combine in different orders";
    other = interleaving.opAt(bits.otherWrite);
  }
  Refutation &refuted = refute(Property::SameBits, std::move(message), writerOf(tracer, traced, bits));
  refuted.otherOp = other;
  if (other)
    refuted.other = other->getLoc();
  refuted.ranks = {bits.rank, bits.other};
  refuted.chunk = chunk;
}

void ProgramCheck::explain(const TracedGroup &traced, const VectorClockResult &result) {
  if (!result.blocked.empty())
    return explainDeadlock(traced, result.blocked);
  if (!result.conflicts.empty())
    return explainConflict(traced, result.conflicts);
  if (result.wrongOutput)
    return explainOutput(*result.wrongOutput);
  // Of an exact program, only roundings of sums differ, and of integers there are none.
  if (result.otherBits && options.followsCodecs && findCoded(tracer.program().program))
    explainBits(traced, *result.otherBits);
}

void ProgramCheck::run(Verdict &verdict) {
  if (!tracer.mistake && isTooLarge(verdict))
    return;
  std::optional<TracedGroup> traced =
      tracer.mistake ? std::nullopt : traceAll(tracer, options.maxChunkBytes(), /*mayReorder=*/true);
  if (tracer.mistake) {
    Refutation &refuted =
        refute(Property::Bounds, tracer.mistake->message,
               tracer.mistake->op == UINT32_MAX ? nullptr : tracer.program().ops[tracer.mistake->op].op);
    refuted.loc = tracer.mistake->loc;
    refuted.ranks = {tracer.mistake->rank};
  } else if (!traced) {
    verdict.tooLarge = tracer.isTooLong ? needsMoreSteps() : needsMoreMemory();
    return;
  } else if (checkBalance(*traced)) {
    follow(*traced, verdict);
  }
  verdict.refutation = std::move(refutation);
}

/// Follows one rank of every orbit through its calls.
void ProgramCheck::follow(const TracedGroup &traced, Verdict &verdict) {
  if (options.prefersSmallMeshes && VectorClockRun::isTooLarge(tracer, traced, options)) {
    verdict.tooLarge = needsMoreMemory();
    return;
  }
  VectorClockResult result = VectorClockRun(tracer, traced, options).run();
  verdict.share = std::max({verdict.share, result.share, double(tracer.numLinesRun) / double(options.maxWork)});
  if (result.ended) {
    verdict.tooLarge = describe(*result.ended, traced);
    result.wrongOutput.reset(); // what chunks hold was lost
  }
  explain(traced, result);
  if (result.ranksAgreeBitwise) {
    verdict.ranksAgreeBitwise = verdict.ranksAgreeBitwise.value_or(true) && *result.ranksAgreeBitwise;
    verdict.bitsCheckedOn.assign(tracer.mesh().begin(), tracer.mesh().end());
  }
  verdict.add(result.losses, result.numEncodings);
}

std::string ProgramCheck::needsMoreSteps() const {
  bool isEstimate = tracer.numLinesNeeded > double(options.maxWork);
  auto needed = int64_t(std::min(isEstimate ? tracer.numLinesNeeded : double(tracer.numLinesRun), 1e18));
  return "needs " + std::to_string(needed) + (isEstimate ? " steps" : " steps or more") +
         " to be followed on all ranks, " + std::to_string(options.maxWork) + " are allowed; --budget raises that";
}

std::string ProgramCheck::needsMoreMemory() const {
  return "needs more than " + std::to_string(options.maxBytes) + " bytes of clocks and chunks; --budget raises that";
}

std::string ProgramCheck::describe(const EndedEarly &ended, const TracedGroup &traced) const {
  Interleaving interleaving(tracer, traced);
  auto wanted = int64_t(std::min(ended.share * double(options.maxBytes) * 1.1, double(largestBudget)));
  return "took all of its budget for " + std::to_string(ended.numSteps) + " of " + std::to_string(ended.numInAll) +
         " steps, and ended where rank " + std::to_string(ended.moment.rank) + " " +
         interleaving.describe(ended.moment) + " (" + ordinal(interleaving.callOf(ended.moment)) +
         " call); all steps would take about --budget " + std::to_string(wanted);
}

/// What holds on all meshes alike.
std::optional<Refutation> checkResources(ProgramOp program, ArrayRef<int64_t> mesh, const CheckOptions &options) {
  if (int64_t(program.getSemaphores()) <= options.maxSemaphores)
    return std::nullopt;
  Refutation result{Property::Resources,
                    "uses " + std::to_string(program.getSemaphores()) + " semaphores, of which there are " +
                        std::to_string(options.maxSemaphores),
                    program.getLoc(),
                    {}};
  result.mesh.assign(mesh.begin(), mesh.end());
  return result;
}

CheckOptions withPart(const CheckOptions &options, double part) {
  CheckOptions result = options;
  auto scale = [&](int64_t limit) { return int64_t(std::clamp(double(limit) * part, 1.0, 0x1p62)); };
  result.maxBytes = scale(options.maxBytes);
  result.maxWork = scale(options.maxWork);
  return result;
}

/// All roots, and calls in place, on one mesh.
void checkMesh(Code &code, ArrayRef<int64_t> mesh, const CheckOptions &options, Verdict &verdict) {
  ProgramOp program = code.program;
  int64_t numVariants = program.getInPlace() == InPlace::Direct ? 2 : 1;
  int64_t numRoots = countRoots(program.getCollective(), mesh);
  CheckOptions first = options, each = options;
  each.maxWork = std::max<int64_t>(options.maxWork / (numRoots * numVariants), 1);
  // Most programs are alike for all roots, which then take no more than one.
  first.maxWork = options.prefersSmallMeshes ? each.maxWork : std::max<int64_t>(options.maxWork / numVariants, 1);
  for (int64_t variant = 0; variant < numVariants; ++variant)
    for (int64_t root = 0; root < numRoots; ++root) {
      if (root == 1 && rootsAreAlike(code, mesh, variant == 1, options.maxWork))
        break;
      ProgramCheck(code, mesh, root, variant == 1, root == 0 ? first : each).run(verdict);
      if (!verdict.isProved())
        return;
    }
}

/// On a smaller mesh, where the one that was checked has too many ranks to follow the order of combinations.
void checkBits(Code &code, ArrayRef<bool> mayShrink, const CheckOptions &options, Verdict &verdict) {
  bool isWanted = options.followsCodecs && verdict.isProved() && !verdict.ranksAgreeBitwise &&
                  givesAllTheSame(code.program.getCollective().getKind());
  SmallVector<int64_t> smaller(verdict.checkedOn.begin(), verdict.checkedOn.end());
  auto isTooLarge = [&] {
    return std::accumulate(smaller.begin(), smaller.end(), int64_t(1), std::multiplies<>()) > maxRanksForOrder;
  };
  while (isWanted && isTooLarge())
    isWanted = shrinkMesh(smaller, mayShrink);
  if (!isWanted)
    return;
  Verdict onSmaller;
  checkMesh(code, smaller, options, onSmaller);
  verdict.refutation = std::move(onSmaller.refutation);
  verdict.ranksAgreeBitwise = onSmaller.ranksAgreeBitwise;
  verdict.bitsCheckedOn = std::move(onSmaller.bitsCheckedOn);
}

} // namespace

/// The largest of each codec.
void Verdict::add(ArrayRef<OutputLoss> more, int64_t encodings) {
  numEncodings = std::max(numEncodings, encodings);
  for (const OutputLoss &loss : more) {
    auto known = llvm::find_if(losses, [&](const OutputLoss &each) { return each.codec == loss.codec; });
    if (known == losses.end())
      losses.push_back(loss);
    else
      known->factor = std::max(known->factor, loss.factor);
  }
}

Verdict checkProgram(ProgramOp program, ArrayRef<int64_t> mesh, const CheckOptions &options) {
  Verdict verdict;
  verdict.mesh.assign(mesh.begin(), mesh.end());
  verdict.checkedOn = verdict.mesh;
  std::variant<Code, CodeMistake> made = Code::create(program);
  if (auto *mistake = std::get_if<CodeMistake>(&made)) {
    verdict.refutation = Refutation{Property::Bounds, mistake->message, mistake->loc, {}};
    verdict.refutation->mesh = verdict.mesh;
    return verdict;
  }
  verdict.refutation = checkResources(program, mesh, options);
  if (verdict.refutation)
    return verdict;
  SmallVector<bool> mayShrink = findTabledDims(program, program.getCollective(), mesh.size());
  for (bool &may : mayShrink)
    may = !may;
  auto checkOn = [&](ArrayRef<int64_t> checkedOn, double part) {
    Verdict result;
    result.mesh = verdict.mesh;
    result.checkedOn.assign(checkedOn.begin(), checkedOn.end());
    checkMesh(std::get<Code>(made), checkedOn, withPart(options, part), result);
    return result;
  };
  if (!options.mayReplaceMesh)
    verdict = checkOn(mesh, 1);
  else if (!options.prefersSmallMeshes)
    verdict = MeshChoice(mesh, mayShrink, options, checkOn).run();
  else
    do
      verdict = checkOn(verdict.checkedOn, 1);
    while (verdict.tooLarge && shrinkMesh(verdict.checkedOn, mayShrink));
  checkBits(std::get<Code>(made), mayShrink, options, verdict);
  return verdict;
}

std::optional<SyncCounts> countSynchronisation(ProgramOp program, ArrayRef<int64_t> mesh) {
  std::variant<Code, CodeMistake> made = Code::create(program);
  Code *code = std::get_if<Code>(&made);
  if (!code)
    return std::nullopt;
  Tracer tracer(*code, mesh, 0, false);
  std::optional<SyncCounts> most;
  std::optional<TracedGroup> traced = traceAll(tracer, INT64_MAX, /*mayReorder=*/true);
  if (!traced)
    return std::nullopt;
  for (const Trace &trace : traced->traces) {
    SyncCounts counts;
    std::map<std::string, int64_t> credits;
    for (const Event &event : trace.events) {
      std::optional<CreditKind> kind = creditOf(code->ops[event.op].op);
      counts.flushes += event.kind == EventKind::Flush;
      counts.dataSignals += event.kind == EventKind::Signal && !kind;
      counts.dataWaits += event.kind == EventKind::Wait && !kind;
      if (event.kind == EventKind::Wait && kind)
        ++credits[stringifyCreditKind(*kind).str()];
    }
    counts.enters = llvm::any_of(trace.events, [](const Event &event) { return event.kind == EventKind::Enter; });
    counts.creditWaits.assign(credits.begin(), credits.end());
    if (!most || counts.waits() > most->waits())
      most = std::move(counts);
  }
  return most;
}

bool isProvedOnItsMeshes(ProgramOp program, const CheckOptions &options) {
  return llvm::all_of(program.getMeshes().getAsRange<DenseI64ArrayAttr>(), [&](DenseI64ArrayAttr mesh) {
    return !checkProgram(program, mesh.asArrayRef(), options).refutation;
  });
}

} // namespace kolo
