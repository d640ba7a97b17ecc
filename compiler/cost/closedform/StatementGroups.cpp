// What statements that run at the same time cost together, once and over all rounds of a loop.
#include "compiler/cost/Encoding.h"
#include "compiler/cost/closedform/Calculator.h"
#include "compiler/project/Relations.h"

using namespace mlir;

namespace kolo::cost {

/// The statements from this one on that run at the same time as it does.
Calculator::Group Calculator::groupFrom(Operation *first) {
  Group group{Group::Kind::Single, {first}};
  auto isFused = [&](const ProgramFacts::Fused &fused, Operation *op) {
    return fused.into.contains(statementKey(op)) || fused.outOf.contains(statementKey(op));
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

bool Calculator::isPut(Operation *op) {
  auto transfer = dyn_cast<TransferOp>(op);
  return transfer && !isPulled(transfer, schedule.transfers());
}

double Calculator::stored(Value buffer) const {
  return storedBytes(cast<BufferOp>(buffer.getDefiningOp()), elementBytes);
}

/// See README.md, "What is counted".
MoveCost Calculator::costOf(Operation *op, const Group &group) {
  auto statement = cast<StatementInterface>(op);
  double stretch = 1 / machine.payloadShare(protocol);
  double source = stored(statement.getSource()), destination = stored(statement.getDestination());
  double read = source * (arePackets(statement.getSource()) ? stretch : 1),
         written = destination * (arePackets(statement.getDestination()) ? stretch : 1);
  MoveCost cost;
  cost.payload = isPut(op) ? destination : source; // who moves it converts it
  cost.wire = isa<TransferOp>(op) ? cost.payload * stretch : 0;
  cost.senderMemory = read;
  cost.receiverMemory = written + (statement.isReducing() ? destination : 0);
  cost.receiverWrites = written;
  bool isSummed =
      group.fused && group.fused->into.contains(statementKey(op)); // in registers, with what the others read
  double lane = statement.isReducing() || isSummed ? model->laneReduction() : model->laneMove();
  if (arePackets(statement.getSource()) || arePackets(statement.getDestination()))
    lane = std::max(lane, model->laneMove() / of(machine.device().laneShare, protocol));
  (isPut(op) ? cost.senderLanes : cost.receiverLanes) = lane * std::max(source, destination);
  if (!group.fused)
    return cost;
  if (isSummed) {
    // The destination is written once, and read once if nothing overwrites it first.
    auto isInto = [&](Operation *member) { return group.fused->into.contains(statementKey(member)); };
    bool isFirst = op == *llvm::find_if(group.members, isInto);
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
    Loads messages = model->messagesOf(of);
    result.members.push_back(
        {waits ? loads.back().latency : 0, model->bottleneckOf(loads.back()), model->messageTimeOf(messages)});
    result.messages.add(messages);
    if (facts && facts->waitsAtEntry.contains(statementKey(op)))
      entryLatency = std::max(entryLatency, loads.back().latency);
  }
  combine(group, result, loads);
  return result;
}

void Calculator::combine(const Group &group, Result &result, const std::vector<Loads> &loads) {
  double inTurn = 0, messagesInTurn = 0; // of what a rank does itself, one after the other
  for (auto [op, member, load] : llvm::zip_equal(group.members, result.members, loads)) {
    result.total.add(load);
    bool addsUp = group.kind == Group::Kind::Fused;
    result.latency = addsUp ? result.latency + member.latency : std::max(result.latency, member.latency);
    if (isPut(op) || addsUp)
      continue;
    inTurn += member.own.seconds;
    messagesInTurn += member.messages.seconds;
  }
  result.perByte = std::max(group.members.size() == 1 ? result.members.front().own.seconds
                                                      : model->bottleneckOf(result.total).seconds,
                            inTurn);
  result.messageSeconds = std::max(model->messageTimeOf(result.messages).seconds, messagesInTurn);
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
      settle(group, known->second, times);
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
  if (isTold && mayOverlap(group)) {
    const Moves &of = moves->front();
    FailureOr<Accesses> accesses = statements[group.members.front()]->accesses(*evaluator, placement, of);
    if (failed(accesses))
      return failure();
    result.accesses = std::move(*accesses);
    result.told = chainedMoves(of, result.latency);
  }
  settle(group, result, times);
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

/// Whether executions of a statement may be under way at once: of puts, and of what ranks move themselves. In a
/// pipeline, ranks wait for what a phase brings only in its next phase; else in every round, but for their own peers.
bool Calculator::mayOverlap(const Group &group) {
  Operation *op = group.members.front();
  return isInRounds && group.kind == Group::Kind::Single && (isPut(op) || !isa<TransferOp>(op)) &&
         statements[op]->staysInNode(*model);
}

/// Adds an execution to the rounds that are under way, after they end if it needs what they bring.
void Calculator::settle(const Group &group, const Result &result, double times) {
  if (!result.total.moves)
    return;
  if (result.told.empty()) {
    endRounds();
    return commit(group, result, times);
  }
  bool arePuts = result.isPutLast, needsLast = overlap(result.accesses.read, rounds.written);
  if (isPipelined() && (arePuts != rounds.arePuts || (arePuts && needsLast)))
    endRounds();
  else if (!arePuts || !rounds.arePuts || needsLast) // a rank moves itself what it moves, one after the other
    endRound();
  if (!isPipelined())
    rounds.chains.put(result.told);
  rounds.arePuts = arePuts;
  rounds.times = times;
  llvm::append_range(rounds.written, result.accesses.written);
  rounds.groups.emplace_back(group, result);
}

/// Of one move alone, for each byte of the call that it moves.
std::vector<ChainedMove::Use> Calculator::usesOf(const Moves &moves, const EnumeratedMoves &one) {
  auto find = [&] {
    Moves alone = moves;
    alone.enumerated = {{one.from, one.to, 1}};
    std::vector<double> loads = model->largest(model->loadsOf(alone));
    std::vector<ChainedMove::Use> uses;
    for (size_t resource = 0; resource < loads.size(); ++resource)
      if (double bandwidth = model->bandwidthOf(resource); loads[resource] > 0 && bandwidth > 0)
        uses.push_back({resource, loads[resource] / bandwidth});
    return uses;
  };
  for (auto [step, isEnumerated] : llvm::zip_equal(moves.steps, model->enumerated()))
    if (!isEnumerated && step.along != DimStep::Along::Keep)
      return find();
  auto known = llvm::find_if(knownUses, [&](const KnownUses &uses) { return uses.cost == moves.cost; });
  if (known == knownUses.end()) {
    knownUses.emplace_back().cost = moves.cost;
    known = std::prev(knownUses.end());
  }
  auto [uses, isNew] = known->byEnds.try_emplace({one.from, one.to});
  if (isNew)
    uses->second = find();
  return uses->second;
}

std::vector<ChainedMove> Calculator::chainedMoves(const Moves &moves, double latency) {
  std::vector<ChainedMove> result;
  for (const EnumeratedMoves &move : moves.enumerated) {
    result.push_back({move.from, move.to, latency, usesOf(moves, move)});
    for (ChainedMove::Use &use : result.back().uses)
      use.seconds *= move.share;
  }
  return result;
}

/// Without a pipeline, ranks wait for what this round brings them.
void Calculator::endRound() {
  if (isPipelined())
    return;
  rounds.chains.wait();
  rounds.written.clear();
}

/// In a pipeline, together they take the worst latency, and as long as the resource that all of them load most. Else as
/// long as the longest chain of ranks that wait for each other.
void Calculator::endRounds() {
  endRound();
  Rounds ended = std::exchange(rounds, Rounds());
  if (ended.groups.empty())
    return;
  Loads together, messages;
  double latency = 0, sumOfLatencies = 0, sumPerByte = 0, sumOfMessages = 0;
  for (const auto &[group, result] : ended.groups) {
    together.add(result.total);
    messages.add(result.messages);
    latency = std::max(latency, result.latency);
    sumOfLatencies += result.latency;
    sumPerByte += result.perByte;
    sumOfMessages += result.messageSeconds;
  }
  double perByte = model->bottleneckOf(together).seconds, messageSeconds = model->messageTimeOf(messages).seconds;
  if (!isPipelined()) {
    latency = ended.chains.latency();
    perByte = ended.chains.perByte();
  }
  bool waitsInside = terms->phases.back().waitsInside || (terms->phases.back().hasTransfer && ended.arePuts);
  for (auto &[group, result] : ended.groups) {
    result.latency *= sumOfLatencies > 0 ? latency / sumOfLatencies : 0;
    result.perByte *= sumPerByte > 0 ? perByte / sumPerByte : 0;
    result.messageSeconds *= sumOfMessages > 0 ? messageSeconds / sumOfMessages : 0;
    commit(group, result, ended.times);
  }
  Phase &phase = terms->phases.back();
  phase.waitsInside = waitsInside;
  phase.lastLatency = latency + (ended.arePuts ? messageSeconds : 0);
  phase.lastPerByte = ended.arePuts ? perByte : 0;
}

void Calculator::commit(const Group &group, const Result &result, double times) {
  Phase &phase = terms->phases.back();
  if (result.total.moves && llvm::any_of(group.members, [](Operation *op) { return isa<TransferOp>(op); })) {
    phase.waitsInside |= times > 1 || phase.hasTransfer;
    phase.hasTransfer = true;
  }
  phase.latency += (result.latency + result.messageSeconds) * times;
  phase.perByte += result.perByte * times;
  phase.lastLatency = result.latency + (result.isPutLast ? result.messageSeconds : 0);
  phase.lastPerByte = result.isPutLast ? result.perByte : 0;
  total.add(result.total, times);
  totalMessages.add(result.messages, times);
  double sum = 0, latencies = 0, messages = 0;
  for (const Member &member : result.members) {
    sum += member.own.seconds;
    latencies += member.latency;
    messages += member.messages.seconds;
  }
  for (auto [op, member] : llvm::zip_equal(group.members, result.members)) {
    Part &part = partOf(op);
    auto timeAt = [&part](size_t resource) -> Part::Time & {
      auto known = llvm::find_if(part.times, [&](const Part::Time &time) { return time.resource == resource; });
      return known == part.times.end() ? part.times.emplace_back(Part::Time{resource}) : *known;
    };
    part.executions += times;
    part.latency += latencies > 0 ? result.latency * member.latency / latencies * times : 0;
    part.share += member.own.share * times;
    if (sum > 0) {
      double perByte = result.perByte * member.own.seconds / sum * times;
      part.perByte += perByte;
      timeAt(member.own.resource).perByte += perByte;
    }
    if (messages > 0) {
      double seconds = result.messageSeconds * member.messages.seconds / messages * times;
      part.messageSeconds += seconds;
      timeAt(member.messages.resource).messageSeconds += seconds;
    }
  }
}

} // namespace kolo::cost
