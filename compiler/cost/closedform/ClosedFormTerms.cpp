// Walks a choreography once, and finds what each of its statements costs for each byte of the call.
#include "compiler/cost/closedform/Calculator.h"
#include "compiler/model/LoopCount.h"
#include "compiler/project/Relations.h"
#include "ir/Members.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace kolo::cost {

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
  uint64_t numRounds = countRounds(lower, upper, step);
  if (numRounds > uint64_t(INT64_MAX))
    return loop.emitError() << "a loop of " << numRounds << " rounds, which are more than can be counted";
  auto trips = int64_t(numRounds);
  if (varies(loop))
    return walkTrips(loop, lower, trips, times);
  if (trips < 1)
    return success();
  evaluator->set(loop.getInductionVar(), lower);
  llvm::SaveAndRestore once(isInRounds, isInRounds && trips == 1);
  return walkBlock(*loop.getBody(), times * double(trips));
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
  llvm::SaveAndRestore inRounds(isInRounds, true);
  for (int64_t alike = trips; trips > 0; trips -= alike, alike *= 2) {
    if (++numUnlike > mostUnlike)
      return loop.emitError() << "the rounds of this loop differ from each other: the closed form looks at "
                              << mostUnlike << " of them at most, and " << trips << " are left";
    alike = std::min(alike, trips);
    while (alike > 1 && !isAlike(loop, first, alike))
      alike = alike == trips ? trips - 1 : alike / 2;
    evaluator->set(loop.getInductionVar(), first);
    if (failed(walkBlock(*loop.getBody(), times * double(alike))))
      return failure();
    endRound();
    first += alike * evaluator->get(loop.getStep());
  }
  if (!inRounds.get())
    endRounds();
  return success();
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

void Calculator::finish() {
  terms->phases.pop_back(); // none begins after the last
  std::vector<double> most = model->largest(total), messages = model->largest(totalMessages);
  for (size_t resource = 0; resource < model->numResources(); ++resource) {
    terms->resourceNames.push_back(model->nameOf(resource));
    double share = most[resource], bandwidth = model->bandwidthOf(resource);
    if (share <= 0 || model->isTraffic(resource))
      continue;
    const Resource *inNode = model->nodeResource(resource);
    auto vertex = [&](int number) { return number < 0 ? "network" : machine.vertices()[size_t(number)].name; };
    bool isLink = inNode && inNode->kind == Resource::Kind::Link;
    terms->loads.push_back({inNode ? inNode->name : model->nameOf(resource), isLink ? vertex(inNode->from) : "",
                            isLink ? vertex(inNode->to) : "", share, bandwidth,
                            model->messageSeconds(resource, messages[resource])});
  }
  terms->traffic = model->trafficOf(most);
  terms->steadyPerByte = model->bottleneckOf(most).seconds;
  terms->steadyMessages = model->messageTimeOf(totalMessages).seconds;
  // As PlacePipeline decides; the division that ends an average is a phase too.
  size_t numPhases = terms->phases.size() + (mayAverage(choreography.getCollective().getKind()) ? 1 : 0);
  terms->depth = numPhases > 1 ? schedule.pipelineDepth() : 1;
  choreography.walk([&](TransferOp transfer) { terms->hasPulls |= !isPut(transfer); });
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
    all += stored(buffer) * elements / chunksPerBlock / blocks / (isPackets ? machine.payloadShare(protocol) : 1);
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

FailureOr<FoundTerms> findTerms(ChoreographyOp choreography, const ResolvedSchedule &schedule, const Machine &machine,
                                const Placement &placement, const ProgramFacts *facts, int64_t elementBytes,
                                const Speeds &speeds) {
  FoundTerms found{std::make_unique<ClosedForm::Terms>()};
  Calculator calculator(choreography, schedule, machine, placement, facts, elementBytes);
  if (failed(calculator.run(speeds, *found.terms)))
    return failure();
  found.workingSet = calculator.workingSet();
  return found;
}

} // namespace kolo::cost
