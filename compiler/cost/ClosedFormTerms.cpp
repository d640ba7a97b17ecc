// Walks a choreography once, and finds what each of its statements costs for each byte of the call.
#include "compiler/cost/ClosedFormTerms.h"
#include "compiler/model/Unfold.h"
#include "compiler/project/Relations.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <map>
#include <numeric>

using namespace mlir;

namespace kolo::cost {

static const void *keyOf(Operation *op) { return op->getLoc().getAsOpaquePointer(); }

ProgramFacts ProgramFacts::of(ProgramOp program) {
  ProgramFacts facts;
  program.walk([&](Operation *op) {
    if (isa<EnterOp>(op))
      facts.entersTogether = true;
    if (isa<WaitOp>(op) && creditOf(op) == CreditKind::Entry)
      facts.waitsAtEntry.insert(keyOf(op));
    if (auto fuse = dyn_cast<FuseOp>(op)) {
      Fused &fused = facts.fused.emplace_back();
      for (MoveInterface move : fuse.getMoves())
        (fuse.isInto(move) ? fused.into : fused.outOf).insert(keyOf(move));
    }
  });
  return facts;
}

Protocol protocolOf(const ResolvedSchedule &schedule) {
  return schedule.usesLL128()         ? Protocol::LL128
         : schedule.usesPackets()     ? Protocol::LL
         : schedule.publishesInputs() ? Protocol::Published
                                      : Protocol::Bulk;
}

namespace {

/// Goes through a choreography once, and adds up what its statements cost.
class Calculator {
public:
  Calculator(ChoreographyOp choreography, const ResolvedSchedule &schedule, const Machine &machine,
             const Placement &placement, const ProgramFacts *facts)
      : choreography(choreography), schedule(schedule), machine(machine), placement(placement), facts(facts) {}

  LogicalResult run(const Speeds &speeds, ClosedForm::Terms &into);
  /// Of one rank's buffers, as a share of the call's bytes. Once the terms are known.
  double workingSet();

private:
  /// Statements that run at the same time, or as one.
  struct Group {
    enum class Kind { Single, Stripe, Fused } kind = Kind::Single;
    SmallVector<Operation *, 4> members;
    const ProgramFacts::Fused *fused = nullptr;
  };
  struct Member {
    double latency = 0;
    Bottleneck own;
  };
  struct Result {
    double latency = 0, perByte = 0;
    bool isPutLast = false;
    SmallVector<Member, 4> members;
    Loads total;
  };

  LogicalResult prepare(const Speeds &speeds);
  double blocksOfLarger();
  LogicalResult walkBlock(Block &block, double times);
  LogicalResult walkLoop(scf::ForOp loop, double times);
  LogicalResult walkTrips(scf::ForOp loop, int64_t first, int64_t trips, double times);
  bool varies(scf::ForOp loop);
  bool isAlike(scf::ForOp loop, int64_t first, int64_t trips);
  Group groupFrom(Operation *first);
  LogicalResult addGroup(const Group &group, double times);
  FailureOr<SmallVector<Moves, 4>> movesOf(const Group &group);
  Result evaluate(const Group &group, ArrayRef<Moves> moves);
  void combine(const Group &group, Result &result, const std::vector<Loads> &loads);
  std::vector<int64_t> indexKey(const Group &group);
  std::vector<int64_t> valueKey(const Group &group, ArrayRef<Moves> moves);
  MoveCost costOf(Operation *op, const Group &group);
  void commit(const Group &group, const Result &result, double times);
  size_t rowOf(Operation *op);
  Part &partOf(Operation *op);
  bool isPut(Operation *op);
  void finish();

  ChoreographyOp choreography;
  const ResolvedSchedule &schedule;
  const Machine &machine;
  const Placement &placement;
  const ProgramFacts *facts;
  ClosedForm::Terms *terms = nullptr;
  Protocol protocol = Protocol::Bulk;
  std::optional<IndexEvaluator> evaluator;
  std::optional<LoadModel> model;
  llvm::DenseMap<Operation *, std::unique_ptr<StatementMoves>> statements;
  llvm::DenseMap<Operation *, bool> variesWithIndex;
  llvm::DenseMap<Operation *, size_t> parts; // of this phase
  std::map<std::vector<int64_t>, Result> memo;
  double blocks = 0, entryLatency = 0;
  int64_t budget = ClosedForm::mostMoves;
  Loads total;
};

LogicalResult Calculator::prepare(const Speeds &speeds) {
  FailureOr<IndexEvaluator> created = IndexEvaluator::create(choreography);
  if (failed(created))
    return failure();
  evaluator.emplace(std::move(*created));
  evaluator->setMesh(placement.mesh().sizes, /*rootNumber=*/0);
  size_t numDims = placement.mesh().sizes.size();
  protocol = protocolOf(schedule);
  std::vector<bool> asked(numDims, false);
  LoadModel plain(machine, placement, speeds, protocol, asked);
  choreography.walk([&](StatementInterface statement) {
    auto moves = std::make_unique<StatementMoves>(statement, numDims);
    for (size_t dim = 0; dim < numDims; ++dim)
      if (moves->dependsOn(dim) || plain.mustEnumerate(dim, moves->steps()[dim]))
        asked[dim] = true;
    statements[statement] = std::move(moves);
  });
  model.emplace(machine, placement, speeds, protocol, asked);
  return success();
}

/// Blocks of the larger one of the caller's buffers: see LowerBound about bytes.
double Calculator::blocksOfLarger() {
  double most = 1;
  for (auto buffer : choreography.getBody().getOps<BufferOp>()) {
    double number = 1;
    for (Value extent : buffer.getGrid().take_front(size_t(buffer.getBlocks())))
      number *= double(evaluator->get(extent));
    if (isOfCaller(buffer.getRole()))
      most = std::max(most, number);
  }
  return most;
}

/// Whether executions of the loop's body differ in more than where their chunks lie.
bool Calculator::varies(scf::ForOp loop) {
  if (auto known = variesWithIndex.find(loop); known != variesWithIndex.end())
    return known->second;
  llvm::SetVector<Value> used;
  loop.getBody()->walk([&](Operation *op) {
    if (auto found = statements.find(op); found != statements.end())
      used.insert(found->second->indices().begin(), found->second->indices().end());
    if (auto inner = dyn_cast<scf::ForOp>(op))
      for (Value bound : {inner.getLowerBound(), inner.getUpperBound(), inner.getStep()})
        collectArguments(bound, used);
  });
  return variesWithIndex[loop] = used.contains(loop.getInductionVar());
}

LogicalResult Calculator::walkLoop(scf::ForOp loop, double times) {
  int64_t lower = evaluator->get(loop.getLowerBound()), upper = evaluator->get(loop.getUpperBound()),
          step = evaluator->get(loop.getStep());
  if (step < 1)
    return loop.emitError() << "a loop with a step of " << step;
  int64_t trips = upper > lower ? (upper - lower + step - 1) / step : 0;
  if (varies(loop))
    return walkTrips(loop, lower, trips, times);
  evaluator->set(loop.getInductionVar(), lower);
  return trips > 0 ? walkBlock(*loop.getBody(), times * double(trips)) : success();
}

/// Whether the loop's statements move the same in all these trips. False also where that would be hard to say.
bool Calculator::isAlike(scf::ForOp loop, int64_t first, int64_t trips) {
  int64_t step = evaluator->get(loop.getStep());
  IndexRanges ranges(*evaluator, loop.getInductionVar(), {first, first + (trips - 1) * step});
  return llvm::all_of(*loop.getBody(), [&](Operation &op) {
    ranges.execute(&op);
    if (auto found = statements.find(&op); found != statements.end())
      return !found->second->isEnumerated(*model) && found->second->isAlike(ranges);
    return op.getNumRegions() == 0;
  });
}

/// The last trip often differs from the others; else one half may differ from the other.
LogicalResult Calculator::walkTrips(scf::ForOp loop, int64_t first, int64_t trips, double times) {
  for (int64_t alike = trips; trips > 0; trips -= alike, alike *= 2) {
    alike = std::min(alike, trips);
    while (alike > 1 && !isAlike(loop, first, alike))
      alike = alike == trips ? trips - 1 : alike / 2;
    evaluator->set(loop.getInductionVar(), first);
    if (failed(walkBlock(*loop.getBody(), times * double(alike))))
      return failure();
    first += alike * evaluator->get(loop.getStep());
  }
  return success();
}

/// The statements from this one on that run at the same time as it does.
Calculator::Group Calculator::groupFrom(Operation *first) {
  Group group{Group::Kind::Single, {first}};
  auto isFused = [&](const ProgramFacts::Fused &fused, Operation *op) {
    return fused.into.contains(keyOf(op)) || fused.outOf.contains(keyOf(op));
  };
  if (facts)
    for (const ProgramFacts::Fused &fused : facts->fused)
      if (!group.fused && isFused(fused, first))
        group.fused = &fused, group.kind = Group::Kind::Fused;
  KoloDialect::StripeAttrHelper mark(choreography.getContext());
  std::set<int64_t> variants;
  if (group.kind == Group::Kind::Single && mark.isAttrPresent(first)) {
    group.kind = Group::Kind::Stripe;
    variants.insert(mark.getAttr(first).getInt());
  }
  for (Operation *op = first->getNextNode(); op && group.kind != Group::Kind::Single; op = op->getNextNode()) {
    if (op->getNumRegions() == 0)
      continue;
    if (!isa<StatementInterface>(op))
      break;
    bool isIn = group.kind == Group::Kind::Fused
                    ? isFused(*group.fused, op)
                    : mark.isAttrPresent(op) && variants.insert(mark.getAttr(op).getInt()).second;
    if (!isIn)
      break;
    group.members.push_back(op);
  }
  return group;
}

LogicalResult Calculator::walkBlock(Block &block, double times) {
  bool isTop = &block == &choreography.getBody().front();
  for (auto it = block.begin(); it != block.end();) {
    Operation *op = &*it++;
    if (isa<StatementInterface>(op)) {
      Group group = groupFrom(op);
      it = std::next(group.members.back()->getIterator());
      for (Operation *between = op; between != group.members.back(); between = between->getNextNode())
        if (failed(evaluator->execute(between)))
          return failure();
      if (isTop && blocks == 0)
        blocks = blocksOfLarger();
      if (failed(addGroup(group, times)))
        return failure();
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (isTop && blocks == 0)
        blocks = blocksOfLarger();
      if (failed(walkLoop(loop, times)))
        return failure();
    } else if (!isa<scf::YieldOp, BufferOp>(op) && failed(evaluator->execute(op))) {
      return failure();
    }
    if (isTop && op->getNumRegions() != 0) {
      terms->phases.emplace_back();
      parts.clear();
    }
  }
  return success();
}

bool Calculator::isPut(Operation *op) {
  auto transfer = dyn_cast<TransferOp>(op);
  return transfer && !isPulled(transfer, schedule.transfers());
}

/// See README.md, "What is counted".
MoveCost Calculator::costOf(Operation *op, const Group &group) {
  auto statement = cast<StatementInterface>(op);
  auto isPackets = [](Value buffer) { return buffer.getDefiningOp<BufferOp>().getRole() == BufferRole::Packets; };
  double stretch = 1 / machine.payloadShare(protocol);
  double read = isPackets(statement.getSource()) ? stretch : 1,
         written = isPackets(statement.getDestination()) ? stretch : 1;
  MoveCost cost;
  cost.wire = isa<TransferOp>(op) ? stretch : 0;
  cost.senderMemory = read;
  cost.receiverMemory = written + (statement.isReducing() ? 1 : 0);
  cost.receiverWrites = written;
  bool isSummed = group.fused && group.fused->into.contains(keyOf(op)); // in registers, with what the others read
  double lane = statement.isReducing() || isSummed ? model->laneReduction() : model->laneMove();
  (isPut(op) ? cost.senderLanes : cost.receiverLanes) = lane;
  if (!group.fused)
    return cost;
  if (isSummed) {
    // The destination is written once, and read once if nothing overwrites it first.
    bool isFirst = op == group.members.front();
    cost.receiverMemoryOnce = isFirst ? cost.receiverMemory : 0;
    cost.receiverWritesOnce = isFirst ? written : 0;
    cost.receiverMemory = cost.receiverWrites = 0;
  } else {
    // Out of a source that is read once, or out of registers, into which the sources went through the lanes.
    bool isReadHere = group.fused->into.empty();
    cost.senderMemoryOnce = isReadHere ? read : 0;
    cost.senderMemory = 0;
    if (!isReadHere)
      cost.senderLanes = cost.receiverLanes = 0;
  }
  return cost;
}

FailureOr<SmallVector<Moves, 4>> Calculator::movesOf(const Group &group) {
  SmallVector<Moves, 4> result;
  for (Operation *op : group.members) {
    FailureOr<Moves> moves = statements[op]->evaluate(*evaluator, *model, placement, blocks, budget);
    if (failed(moves))
      return failure();
    moves->cost = costOf(op, group);
    result.push_back(std::move(*moves));
  }
  return result;
}

Calculator::Result Calculator::evaluate(const Group &group, ArrayRef<Moves> moves) {
  Result result;
  std::vector<Loads> loads;
  for (auto [op, of] : llvm::zip_equal(group.members, moves)) {
    loads.push_back(model->loadsOf(of));
    // What a rank published before it entered is there already.
    auto source = cast<StatementInterface>(op).getSource().getDefiningOp<BufferOp>();
    bool waits = isa<TransferOp>(op) && source.getRole() != BufferRole::Published;
    result.members.push_back({waits ? loads.back().latency : 0, model->bottleneckOf(loads.back())});
    if (facts && facts->waitsAtEntry.contains(keyOf(op)))
      entryLatency = std::max(entryLatency, loads.back().latency);
  }
  combine(group, result, loads);
  return result;
}

void Calculator::combine(const Group &group, Result &result, const std::vector<Loads> &loads) {
  double inTurn = 0; // of what a rank does itself, one after the other
  for (auto [op, member, load] : llvm::zip_equal(group.members, result.members, loads)) {
    result.total.add(load);
    bool addsUp = group.kind == Group::Kind::Fused;
    result.latency = addsUp ? result.latency + member.latency : std::max(result.latency, member.latency);
    inTurn += isPut(op) || addsUp ? 0 : member.own.seconds;
  }
  result.perByte = std::max(group.members.size() == 1 ? result.members.front().own.seconds
                                                      : model->bottleneckOf(result.total).seconds,
                            inTurn);
  result.isPutLast = isPut(group.members.back());
}

/// The loop indices that a group's result depends on: known before moves are enumerated.
std::vector<int64_t> Calculator::indexKey(const Group &group) {
  std::vector<int64_t> key = {int64_t(reinterpret_cast<intptr_t>(group.members.front()))};
  for (Operation *op : group.members)
    for (Value index : statements[op]->indices())
      key.push_back(evaluator->get(index));
  return key;
}

/// What moves that are counted differ in, from execution to execution.
std::vector<int64_t> Calculator::valueKey(const Group &group, ArrayRef<Moves> moves) {
  std::vector<int64_t> key = {int64_t(reinterpret_cast<intptr_t>(group.members.front()))};
  for (const Moves &of : moves) {
    for (const DimStep &step : of.steps)
      key.push_back(step.amount);
    key.push_back(of.isEnumerated ? -1 : llvm::bit_cast<int64_t>(of.share)); // enumerated: no moves at all
  }
  return key;
}

LogicalResult Calculator::addGroup(const Group &group, double times) {
  constexpr size_t mostRemembered = 256;
  auto commitKnown = [&](const std::vector<int64_t> &key) {
    auto known = memo.find(key);
    if (known != memo.end())
      commit(group, known->second, times);
    return known != memo.end();
  };
  bool isTold = llvm::any_of(group.members, [&](Operation *op) { return statements[op]->isEnumerated(*model); });
  std::vector<int64_t> key = indexKey(group);
  if (isTold && commitKnown(key))
    return success();
  FailureOr<SmallVector<Moves, 4>> moves = movesOf(group);
  if (failed(moves))
    return failure();
  if (!isTold) {
    key = valueKey(group, *moves);
    if (commitKnown(key))
      return success();
  }
  Result result = evaluate(group, *moves);
  commit(group, result, times);
  if (memo.size() < mostRemembered)
    memo.emplace(std::move(key), std::move(result));
  return success();
}

/// Of the author's line: where a building block is called, the outermost call.
size_t Calculator::rowOf(Operation *op) {
  std::vector<SourceLine> callers = callersOf(op->getLoc());
  Row row{callers.empty() ? sourceLineOf(op->getLoc()) : callers.back()};
  row.place.column = 0;
  auto found = llvm::find(terms->rows, row);
  if (found == terms->rows.end())
    found = terms->rows.insert(found, row);
  return size_t(found - terms->rows.begin());
}

Part &Calculator::partOf(Operation *op) {
  auto [known, isNew] = parts.try_emplace(op, terms->parts.size());
  if (isNew) {
    terms->parts.emplace_back();
    terms->parts.back().row = rowOf(op);
    terms->parts.back().phase = terms->phases.size() - 1;
  }
  return terms->parts[known->second];
}

void Calculator::commit(const Group &group, const Result &result, double times) {
  Phase &phase = terms->phases.back();
  phase.latency += result.latency * times;
  phase.perByte += result.perByte * times;
  phase.lastLatency = result.latency;
  phase.lastPerByte = result.isPutLast ? result.perByte : 0;
  total.add(result.total, times);
  double sum = 0, latencies = 0;
  for (const Member &member : result.members) {
    sum += member.own.seconds;
    latencies += member.latency;
  }
  for (auto [op, member] : llvm::zip_equal(group.members, result.members)) {
    Part &part = partOf(op);
    part.executions += times;
    part.latency += latencies > 0 ? result.latency * member.latency / latencies * times : 0;
    part.share += member.own.share * times;
    if (sum == 0)
      continue;
    double perByte = result.perByte * member.own.seconds / sum * times;
    part.perByte += perByte;
    auto known = llvm::find_if(part.perByteOf, [&](const auto &entry) { return entry.first == member.own.resource; });
    if (known == part.perByteOf.end())
      part.perByteOf.emplace_back(member.own.resource, perByte);
    else
      known->second += perByte;
  }
}

void Calculator::finish() {
  terms->phases.pop_back(); // none begins after the last
  std::vector<double> most = model->largest(total);
  for (size_t resource = 0; resource < model->numResources(); ++resource) {
    terms->resourceNames.push_back(model->nameOf(resource));
    double share = most[resource], bandwidth = model->bandwidthOf(resource);
    if (share <= 0 || model->isTraffic(resource))
      continue;
    const Resource *inNode = model->nodeResource(resource);
    auto vertex = [&](int number) { return number < 0 ? "network" : machine.vertices()[size_t(number)].name; };
    bool isLink = inNode && inNode->kind == Resource::Kind::Link;
    terms->loads.push_back({inNode ? inNode->name : model->nameOf(resource), isLink ? vertex(inNode->from) : "",
                            isLink ? vertex(inNode->to) : "", share, bandwidth});
  }
  terms->traffic = model->trafficOf(most);
  terms->steadyPerByte = model->bottleneckOf(total).seconds;
  // As PlacePipeline decides; the division that ends an average is a phase too.
  size_t numPhases = terms->phases.size() + (isReduction(choreography.getCollective().getKind()) ? 1 : 0);
  terms->depth = numPhases > 1 ? schedule.pipelineDepth() : 1;
  terms->launch = machine.device().launch;
  bool isTogether = schedule.entersTogether() || schedule.publishesInputs() || (facts && facts->entersTogether);
  if (isTogether || (facts && !facts->waitsAtEntry.empty()))
    terms->entry = isTogether ? model->worstLatency() : entryLatency;
}

double Calculator::workingSet() {
  double all = 0;
  for (auto buffer : choreography.getBody().getOps<BufferOp>()) {
    double elements = 1, chunksPerBlock = 1;
    for (auto [dim, extent] : llvm::enumerate(buffer.getGrid())) {
      elements *= double(evaluator->get(extent));
      chunksPerBlock *= dim < size_t(buffer.getBlocks()) ? 1 : double(evaluator->get(extent));
    }
    if (buffer.getCut())
      chunksPerBlock = double(std::max<int64_t>(1, evaluator->get(buffer.getCut())));
    bool isPackets = buffer.getRole() == BufferRole::Packets;
    all += elements / chunksPerBlock / blocks / (isPackets ? machine.payloadShare(protocol) : 1);
  }
  return all;
}

LogicalResult Calculator::run(const Speeds &speeds, ClosedForm::Terms &into) {
  terms = &into;
  if (failed(prepare(speeds)))
    return failure();
  terms->phases.emplace_back();
  if (failed(walkBlock(choreography.getBody().front(), 1)))
    return failure();
  finish();
  return success();
}

} // namespace

FailureOr<FoundTerms> findTerms(ChoreographyOp choreography, const ResolvedSchedule &schedule, const Machine &machine,
                                const Placement &placement, const ProgramFacts *facts, const Speeds &speeds) {
  FoundTerms found{std::make_unique<ClosedForm::Terms>()};
  Calculator calculator(choreography, schedule, machine, placement, facts);
  if (failed(calculator.run(speeds, *found.terms)))
    return failure();
  found.workingSet = calculator.workingSet();
  return found;
}

} // namespace kolo::cost
