// One run of the checker. See ProgramCheck.h.
#include "compiler/check/ProgramCheck.h"
#include "compiler/check/Interleaving.h"
#include "compiler/model/Unfold.h"

#include "llvm/ADT/BitVector.h"

#include <map>

using namespace mlir;

namespace kolo {

static constexpr size_t maxStepsShown = 16;

static std::string nameOf(Value buffer) { return buffer.getDefiningOp<BufferOp>().getName().str(); }

Refutation &ProgramCheck::refute(Property property, std::string message, Operation *op) {
  Refutation result{property, std::move(message), op ? op->getLoc() : Location(tracer.program().program.getLoc()), {}};
  result.op = op;
  result.mesh.assign(tracer.mesh().begin(), tracer.mesh().end());
  result.root = tracer.rootNumber();
  result.isInPlace = isInPlace;
  return refutation.emplace(std::move(result));
}

std::string ProgramCheck::describeChunk(int64_t owner, uint32_t buffer, int64_t chunk) const {
  SmallVector<int64_t> grid(tracer.grids()[buffer].extents.begin(), tracer.grids()[buffer].extents.end());
  return kolo::describeChunk(grid, chunk, tracer.program().buffers[buffer].name) + " on rank " + std::to_string(owner);
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
  tracer.maxLines = options.maxWork / tracer.numRanks();
  tracer.run(0, trace);
  tracer.maxLines = options.maxWork;
  if (tracer.isTooLong || tracer.isMoreThanAllowed(double(tracer.numLinesRun) * double(tracer.numRanks() - 1)))
    verdict.tooLarge = needsMoreSteps();
  tracer.maxLines = INT64_MAX;
  return verdict.tooLarge.has_value();
}

bool ProgramCheck::checkBalance() {
  const RankGroup &group = traced->group;
  struct Ends {
    int64_t numSignals = 0, numWaits = 0;
    Operation *op = nullptr;
    int64_t from = 0, to = 0;
  };
  std::map<Channel, Ends> channels;
  for (auto [orbit, trace] : llvm::enumerate(traced->traces)) {
    int64_t rank = group.representatives()[orbit];
    for (const Event &event : trace.events) {
      if (event.kind != EventKind::Signal && event.kind != EventKind::Wait)
        continue;
      bool isSignal = event.kind == EventKind::Signal;
      int64_t sender = isSignal ? rank : event.peer, receiver = isSignal ? event.peer : rank;
      Ends &ends = channels[group.channelOf(rank, event)];
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

void ProgramCheck::explainConflict(const std::vector<Conflict> &conflicts) {
  Interleaving interleaving(tracer, *traced);
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

void ProgramCheck::explainDeadlock(const std::vector<Blocked> &blocked) {
  Interleaving interleaving(tracer, *traced);
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
static Operation *writerOf(const Tracer &tracer, const TracedGroup &traced, const OtherOrder &written) {
  Operation *op = Interleaving(tracer, traced).opAt(written.write);
  if (!isa_and_nonnull<DivideOp>(op))
    return op;
  uint32_t output = *tracer.bufferOf(BufferRole::Output);
  int64_t chunk = traced.group.moveChunkBack(written.rank, output, written.chunk);
  const Trace &trace = traced.traces[traced.group.orbitOf(written.rank)];
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
void ProgramCheck::explainBits(const OtherBits &bits) {
  Interleaving interleaving(tracer, *traced);
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
  Refutation &refuted =
      refute(Property::SameBits, std::move(message), writerOf(tracer, *traced, {bits.rank, bits.chunk, bits.write}));
  refuted.otherOp = other;
  if (other)
    refuted.other = other->getLoc();
  refuted.ranks = {bits.rank, bits.other};
  refuted.chunk = chunk;
}

void ProgramCheck::explainOrder(const VectorClockResult &result) {
  const std::optional<OtherOrder> &other = result.otherOrder;
  Refutation &refuted =
      refute(Property::OneOrder, result.order.text, other ? writerOf(tracer, *traced, *other) : nullptr);
  if (!other)
    return;
  refuted.ranks = {other->rank};
  refuted.chunk = describeChunk(other->rank, *tracer.bufferOf(BufferRole::Output), other->chunk);
}

void ProgramCheck::explain(const VectorClockResult &result) {
  if (options.endsAtRefutation)
    return name(result);
  if (!result.blocked.empty())
    return explainDeadlock(result.blocked);
  if (!result.conflicts.empty())
    return explainConflict(result.conflicts);
  if (result.wrongOutput)
    return explainOutput(*result.wrongOutput);
  // Of an exact program, only roundings of sums differ, and of integers there are none.
  if (result.otherBits && options.followsCodecs && findCoded(tracer.program().program))
    explainBits(*result.otherBits);
  else if (options.needsOneOrder && result.order.isFixed == false)
    explainOrder(result);
}

/// For a caller who asks only whether there is a refutation: to find the words takes as long as the run.
void ProgramCheck::name(const VectorClockResult &result) {
  if (!result.blocked.empty())
    refute(Property::Deadlock, "a rank waits for ever", nullptr);
  else if (!result.conflicts.empty())
    refute(Property::Race, "nothing orders two accesses", nullptr);
  else if (result.wrongOutput)
    refute(Property::Result, "an output is wrong", nullptr);
}

void ProgramCheck::run(Verdict &verdict) {
  if (!tracer.mistake && isTooLarge(verdict))
    return;
  if (!tracer.mistake)
    if (std::optional<TracedGroup> found = traceAll(tracer, options.maxChunkBytes(), /*mayReorder=*/true))
      traced.emplace(std::move(*found));
  if (tracer.mistake) {
    Refutation &refuted =
        refute(Property::Bounds, tracer.mistake->message,
               tracer.mistake->op == UINT32_MAX ? nullptr : tracer.program().ops[tracer.mistake->op].op);
    refuted.loc = tracer.mistake->loc;
    refuted.ranks = {tracer.mistake->rank};
  } else if (!traced) {
    verdict.tooLarge = tracer.end ? describe(*tracer.end) : needsMoreSteps();
    return;
  } else if (few && !few->areSlicesAlike(tracer, *traced)) {
    verdict.slicesDiffer = true;
  } else if (checkBalance()) {
    follow(verdict);
  }
  verdict.refutation = std::move(refutation);
}

/// Follows one rank of every orbit through its calls.
void ProgramCheck::follow(Verdict &verdict) {
  if (options.prefersSmallMeshes && VectorClockRun::isTooLarge(tracer, *traced, options)) {
    verdict.tooLarge = needsMoreMemory();
    return;
  }
  VectorClockResult result = VectorClockRun(tracer, *traced, options).run();
  verdict.share = std::max({verdict.share, result.share, double(tracer.numLinesRun) / double(options.maxWork)});
  if (result.ended) {
    verdict.tooLarge = describe(*result.ended);
    result.wrongOutput.reset(); // what chunks hold was lost
  }
  if (result.needsFullTerms)
    followTerms(result, verdict);
  explain(result);
  if (refutation) // which holds, however the run would have gone on
    verdict.tooLarge.reset();
  verdict.addBits(result.ranksAgreeBitwise);
  verdict.addOrder(result.order, tracer.rootNumber());
  verdict.addTables(result.whyNoBlockTables);
  verdict.add(result.losses, result.numEncodings);
}

/// Where the origins of outputs differ. An exact program is proved even if nothing is known of its bits.
void ProgramCheck::followTerms(VectorClockResult &result, Verdict &verdict) {
  const bool mustAgree = findCoded(tracer.program().program) != nullptr;
  if (!mustAgree && tracer.numRanks() > mostRanksOfExactTerms)
    return;
  VectorClockResult inFull = VectorClockRun(tracer, *traced, options, /*mostRanksInFull=*/INT64_MAX).run();
  if (!inFull.ended)
    result = std::move(inFull);
  else if (mustAgree)
    verdict.tooLarge = "of whether ranks get the same bits (V11): " + describe(*inFull.ended);
}

bool ProgramCheck::isRefutedWithout(const llvm::SmallPtrSetImpl<Operation *> &ops) {
  llvm::BitVector isGone(unsigned(tracer.program().ops.size()));
  for (auto [number, info] : llvm::enumerate(tracer.program().ops))
    isGone[unsigned(number)] = ops.contains(info.op);
  if (!fewer)
    fewer.emplace(*traced);
  for (auto [all, left] : llvm::zip_equal(traced->traces, fewer->traces)) {
    left.events.clear();
    llvm::copy_if(all.events, std::back_inserter(left.events), [&](const Event &event) { return !isGone[event.op]; });
  }
  VectorClockResult result = VectorClockRun(tracer, *fewer, options).run();
  return result.ended || !result.blocked.empty() || !result.conflicts.empty() || result.wrongOutput;
}

/// The budget of which all steps take so many times what is allowed, with some room.
static std::string budgetFor(double share, const CheckOptions &options, bool isBound = false) {
  return (isBound ? "all steps would take at most about --budget " : "all steps would take about --budget ") +
         std::to_string(int64_t(std::min(share * double(options.maxBytes) * 1.1, double(largestBudget))));
}

std::string ProgramCheck::needsMoreSteps() const {
  double needed = std::max(tracer.numLinesNeeded, double(tracer.numLinesRun));
  return "needs " + std::to_string(int64_t(std::min(needed, 1e18))) + " steps to be followed on all ranks, " +
         std::to_string(options.maxWork) + " are allowed; " + budgetFor(needed / double(options.maxWork), options);
}

static StringRef verbOf(EventKind kind) {
  switch (kind) {
  case EventKind::Copy:
    return "copies";
  case EventKind::Reduce:
    return "reduces";
  case EventKind::Put:
    return "puts";
  case EventKind::Divide:
    return "divides";
  case EventKind::Signal:
    return "signals";
  case EventKind::Wait:
    return "waits";
  case EventKind::Flush:
    return "flushes";
  case EventKind::Enter:
    return "enters";
  }
  llvm_unreachable("every kind is handled");
}

std::string ProgramCheck::describe(const Tracer::End &end) const {
  std::string rank = "rank " + std::to_string(end.rank);
  if (end.idleLines > 0)
    return "has a loop in which " + rank + rootOf() + " runs " + std::to_string(end.idleLines) +
           " lines of the program without a step";
  std::string text = "took all of its budget to list the steps of its ranks, ";
  text += end.op ? "and ended where " + rank + " " + verbOf(tracer.program().ops[*end.op].kind).str()
                 : "and ended after " + rank;
  return text + rootOf() + "; " + budgetFor(end.share, options, end.isBound);
}

/// Of a program that is not alike for all roots: which one.
std::string ProgramCheck::rootOf() const {
  return tracer.rootNumber() == 0 ? "" : " in a call with root " + std::to_string(tracer.rootNumber());
}

std::string ProgramCheck::needsMoreMemory() const {
  return "needs more than " + std::to_string(options.maxBytes) + " bytes of clocks and chunks; --budget raises that";
}

std::string ProgramCheck::describe(const EndedEarly &ended) const {
  Interleaving interleaving(tracer, *traced);
  constexpr StringLiteral application = "its application ";
  std::string step = interleaving.describe(ended.moment), rank = "rank " + std::to_string(ended.moment.rank);
  if (interleaving.opAt(ended.moment))
    step = rank + " " + step + " (" + ordinal(interleaving.callOf(ended.moment)) + " call)";
  else // says at which call itself
    step = "the application of " + rank + " " + step.substr(application.size());
  return "took all of its budget for " + std::to_string(ended.numSteps) + " of " + std::to_string(ended.numInAll) +
         " steps, and ended where " + step + rootOf() + "; " + budgetFor(ended.share, options);
}

} // namespace kolo
