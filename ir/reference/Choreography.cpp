// The sequential meaning of a choreography.
#include "ir/reference/Conversion.h"
#include "ir/reference/Interpreter.h"
#include "ir/reference/Memory.h"
#include "ir/reference/Walker.h"

#include <algorithm>
#include <tuple>

using namespace mlir;

namespace kolo::reference {

static constexpr int64_t maxBodies = int64_t(1) << 23;

namespace {
/// What one rank sends to one other in one statement, as read before anything was written.
struct Message {
  int64_t sender, receiver;
  std::vector<PartPair> pieces;
  std::vector<Bytes> data; // of every piece, as its source stores it
};

class ChoreographyRun {
public:
  ChoreographyRun(ChoreographyOp choreography, SimulatedCall &simulated)
      : choreography(choreography), simulated(simulated), memory(simulated, choreography), scope(simulated) {}
  llvm::Error run();

private:
  llvm::Error runStatement(StatementInterface statement);
  llvm::Error readMessage(StatementInterface statement, int64_t sender, llvm::ArrayRef<int64_t> receiver);
  llvm::Error writeMessages(StatementInterface statement);
  llvm::Error refuseOverlaps(StatementInterface statement);
  void divideAverage();

  ChoreographyOp choreography;
  SimulatedCall &simulated;
  Memory memory;
  Scope scope;
  std::vector<Message> messages;
  int64_t numBodies = 0; // run so far
};
} // namespace

/// Coordinates along one dimension that a step leads to from coordinate `from`; perhaps outside the mesh.
static std::vector<int64_t> stepFrom(StepAttr step, int64_t amount, int64_t from, int64_t size) {
  std::vector<int64_t> others;
  switch (step.getKind()) {
  case StepKind::Keep:
    return {from};
  case StepKind::Next:
    return {((from + amount % size) % size + size) % size};
  case StepKind::Flip:
    return {from ^ amount};
  case StepKind::At:
    return {amount};
  case StepKind::Mapped:
    return {from < int64_t(step.getTable().size()) ? step.getTable()[from] : -1};
  case StepKind::Others:
    for (int64_t distance = 1; distance < size; ++distance)
      others.push_back((from + distance) % size);
    return others;
  }
  llvm_unreachable("a step");
}

/// Coordinates of all ranks that the statement's sender sends to: its own for a local statement.
static std::vector<std::vector<int64_t>> receiversOf(StatementInterface statement, const Scope &scope,
                                                     const SimulatedCall &simulated, llvm::ArrayRef<int64_t> sender) {
  auto transfer = dyn_cast<TransferOp>(statement.getOperation());
  if (!transfer)
    return {sender.vec()};
  std::vector<std::vector<int64_t>> receivers = {{}};
  auto amount = transfer.getAmounts().begin();
  for (auto [dim, step] : llvm::enumerate(transfer.getSteps().getAsRange<StepAttr>())) {
    bool takesAmount = llvm::is_contained({StepKind::Next, StepKind::Flip, StepKind::At}, step.getKind());
    int64_t value = takesAmount ? scope[*amount++] : 0;
    std::vector<std::vector<int64_t>> longer;
    for (const std::vector<int64_t> &prefix : receivers)
      for (int64_t coordinate : stepFrom(step, value, sender[dim], simulated.meshSizes[dim])) {
        longer.push_back(prefix);
        longer.back().push_back(coordinate);
      }
    receivers = std::move(longer);
  }
  return receivers;
}

llvm::Error ChoreographyRun::readMessage(StatementInterface statement, int64_t sender,
                                         llvm::ArrayRef<int64_t> receiver) {
  if (++numBodies > maxBodies)
    return scope.fail(statement, "the program seems to loop for ever");
  std::vector<int64_t> coordinates = coordinatesOf(simulated, sender);
  coordinates.insert(coordinates.end(), receiver.begin(), receiver.end());
  Block &body = statement.getBody().front();
  for (auto [argument, coordinate] : llvm::zip_first(body.getArguments(), coordinates))
    scope.bind(argument, coordinate);
  llvm::Expected<Operation *> end = Walker(body, scope).next();
  if (!end)
    return end.takeError();
  auto slices = dyn_cast<SlicesOp>(*end);
  if (!slices)
    return scope.fail(*end, "cannot be interpreted in a statement's body");
  if (slices.getCondition() && !scope[slices.getCondition()])
    return llvm::Error::success();
  for (auto [coordinate, size] : llvm::zip_equal(receiver, simulated.meshSizes))
    if (coordinate < 0 || coordinate >= size)
      return scope.fail(statement,
                        "sends to coordinate " + Twine(coordinate) + " in a mesh dimension of " + Twine(size));
  llvm::Expected<std::vector<PartPair>> pairs = memory.pairs(
      slices, scope,
      {{statement.getSource(), slices.getSourceOffsets(), slices.getSourceSizes()},
       {statement.getDestination(), slices.getDestinationOffsets(), slices.getDestinationSizes()}},
      [&](const ChunkPart &source, const ChunkPart &) { return memory.lengthHeld(slices, scope, source, sender, 0); });
  if (!pairs)
    return pairs.takeError();
  Message message{sender, rankAt(simulated, receiver), *pairs, {}};
  for (const PartPair &pair : *pairs) {
    auto source = memory.at(statement, scope, pair.source, sender, 0, Access::Read);
    if (!source)
      return source.takeError();
    message.data.emplace_back(source->begin(), source->end());
  }
  messages.push_back(std::move(message));
  return llvm::Error::success();
}

llvm::Error ChoreographyRun::writeMessages(StatementInterface statement) {
  for (const Message &message : messages)
    for (auto [piece, data] : llvm::zip_equal(message.pieces, message.data)) {
      auto destination = memory.at(statement, scope, piece.destination, message.receiver, 0,
                                   statement.isReducing() ? Access::Combine : Access::Write);
      if (!destination)
        return destination.takeError();
      memory.move(piece, data, *destination, statement.isReducing(), message.sender, 0);
    }
  return llvm::Error::success();
}

llvm::Error ChoreographyRun::refuseOverlaps(StatementInterface statement) {
  struct Write {
    int64_t receiver, begin, end, sender;
  };
  std::vector<Write> writes;
  for (const Message &message : messages)
    for (const PartPair &pair : message.pieces)
      if (const Range &elements = pair.destination.elements; elements.size > 0)
        writes.push_back({message.receiver, elements.begin, elements.begin + elements.size, message.sender});
  llvm::sort(writes, [](const Write &a, const Write &b) {
    return std::tie(a.receiver, a.begin, a.sender) < std::tie(b.receiver, b.begin, b.sender);
  });
  for (size_t i = 1; i < writes.size(); ++i)
    if (writes[i].receiver == writes[i - 1].receiver && writes[i].begin < writes[i - 1].end)
      return scope.fail(statement, "ranks " + Twine(writes[i - 1].sender) + " and " + Twine(writes[i].sender) +
                                       " write the same elements of rank " + Twine(writes[i].receiver));
  return llvm::Error::success();
}

llvm::Error ChoreographyRun::runStatement(StatementInterface statement) {
  messages.clear(); // filled in increasing order of senders
  for (int64_t sender = 0; sender < numRanks(simulated); ++sender)
    for (const std::vector<int64_t> &receiver :
         receiversOf(statement, scope, simulated, coordinatesOf(simulated, sender)))
      if (llvm::Error error = readMessage(statement, sender, receiver))
        return llvm::createStringError(llvm::toString(std::move(error)) + ", at sender " + Twine(sender));
  if (!statement.isReducing())
    if (llvm::Error error = refuseOverlaps(statement))
      return error;
  return writeMessages(statement);
}

void ChoreographyRun::divideAverage() {
  CollectiveKind kind = simulated.collective.getKind();
  if (simulated.reduction != Reduction::Average ||
      !llvm::is_contained({CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::Reduce}, kind))
    return;
  for (int64_t rank = 0; rank < numRanks(simulated); ++rank)
    if (exists(simulated, BufferRole::Output, rank))
      divide(simulated.type, simulated.outputs[rank], groupSize(simulated));
}

llvm::Error ChoreographyRun::run() {
  Walker walker(choreography.getBody().front(), scope);
  while (true) {
    llvm::Expected<Operation *> op = walker.next();
    if (!op)
      return op.takeError();
    if (!*op)
      break;
    auto statement = dyn_cast<StatementInterface>(*op);
    auto buffer = dyn_cast<BufferOp>(*op);
    if (!statement && !buffer)
      return scope.fail(*op, "cannot be interpreted in a choreography");
    if (llvm::Error error = statement ? runStatement(statement) : memory.add(buffer, scope))
      return error;
  }
  divideAverage();
  return llvm::Error::success();
}

llvm::Error interpretChoreography(ChoreographyOp choreography, SimulatedCall &simulated) {
  if (llvm::Error error = validate(simulated, enclosingProgram(choreography)))
    return error;
  if (llvm::Error error = validateCodecs(simulated, choreography))
    return error;
  return ChoreographyRun(choreography, simulated).run();
}

llvm::Error interpretAsCalled(ChoreographyOp choreography, SimulatedCall &simulated) {
  if (!isReduction(simulated.collective.getKind()) || !isWidened(simulated.type, simulated.reduction))
    return interpretChoreography(choreography, simulated);
  SimulatedCall wide = simulated;
  wide.type = ElementType::F32;
  for (Bytes &input : wide.inputs)
    input = widened(simulated.type, input);
  for (Bytes &output : wide.outputs)
    output.assign(output.size() * 2, poison);
  if (llvm::Error error = interpretChoreography(choreography, wide))
    return error;
  for (size_t rank = 0; rank < wide.outputs.size(); ++rank)
    if (exists(simulated, BufferRole::Output, int64_t(rank)))
      narrow(simulated.type, wide.outputs[rank], simulated.outputs[rank]);
  return llvm::Error::success();
}

} // namespace kolo::reference
