// A choreography's transfers on one concrete mesh.
#include "compiler/model/Unfold.h"
#include "compiler/model/LoopCount.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;

namespace kolo {

static bool overlaps(const GridRange &a, const GridRange &b) {
  if (a.size <= 0 || b.size <= 0)
    return false;
  return llvm::mod<int64_t>(b.offset - a.offset, a.extent) < a.size ||
         llvm::mod<int64_t>(a.offset - b.offset, a.extent) < b.size;
}

bool overlaps(const GridBox &a, const GridBox &b) {
  return llvm::all_of(llvm::zip_equal(a, b), [](auto pair) { return overlaps(std::get<0>(pair), std::get<1>(pair)); });
}

int64_t maxRanksInFull(CollectiveKind kind) { return hasRoot(kind) ? 32 : 64; }

int64_t countRoots(CollectiveAttr collective, ArrayRef<int64_t> mesh) {
  int64_t groupSize = 1;
  for (int64_t dim : collective.getGroupDims())
    groupSize *= mesh[size_t(dim)];
  return hasRoot(collective.getKind()) ? groupSize : 1;
}

std::string describeIndices(ArrayRef<int64_t> grid, int64_t chunk) {
  std::string text;
  for (int64_t extent : llvm::reverse(grid)) {
    text = std::to_string(chunk % extent) + (text.empty() ? "" : ", ") + text;
    chunk /= extent;
  }
  return "[" + text + "]";
}

std::string describeChunk(ArrayRef<int64_t> grid, int64_t chunk, StringRef buffer) {
  return (grid.empty() ? "all" : "chunk " + describeIndices(grid, chunk)) + " of '" + buffer.str() + "'";
}

std::string describeMesh(ChoreographyOp choreography, ArrayRef<int64_t> mesh) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::interleave(
      llvm::zip(choreography.getMesh().getAsRange<StringAttr>(), mesh), out,
      [&](auto pair) { out << std::get<0>(pair).getValue() << "=" << std::get<1>(pair); }, ",");
  return text;
}

bool shrinkMesh(MutableArrayRef<int64_t> mesh, ArrayRef<bool> mayShrink) {
  int64_t largest = -1;
  for (size_t dim = 0; dim < mesh.size(); ++dim)
    if (mayShrink[dim] && mesh[dim] > 2 && (largest < 0 || mesh[dim] > mesh[size_t(largest)]))
      largest = int64_t(dim);
  if (largest < 0)
    return false;
  int64_t &size = mesh[size_t(largest)];
  // Half of a power of two is one; half of another size is made odd, and so none.
  size = llvm::isPowerOf2_64(uint64_t(size)) ? size / 2 : size > 7 ? (size / 2) | 1 : size == 3 ? 2 : size - 1;
  return true;
}

/// Marks the dimensions that a value's definition mentions; other values that it depends on are added to `used`.
static void addDimsOf(Value value, CollectiveAttr collective, SmallVectorImpl<bool> &dims,
                      llvm::SetVector<Value> &used) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()))
      used.insert(loop->operand_begin(), loop->operand_end());
    else // of a statement's body: the sender's coordinates, then the receiver's
      dims[argument.getArgNumber() % dims.size()] = true;
    return;
  }
  Operation *definition = value.getDefiningOp();
  if (auto size = dyn_cast<DimSizeOp>(definition))
    dims[size_t(size.getDim())] = true;
  else if (auto coordinate = dyn_cast<CoordOp>(definition))
    dims[size_t(coordinate.getDim())] = true;
  else if (isa<RootOp>(definition))
    for (int64_t dim : collective.getGroupDims())
      dims[size_t(dim)] = true;
  used.insert(definition->operand_begin(), definition->operand_end());
}

SmallVector<bool> findTabledDims(Operation *program, CollectiveAttr collective, size_t numDims) {
  SmallVector<bool> dims(numDims, false);
  llvm::SetVector<Value> used;
  program->walk([&](LookupOp lookup) { used.insert(lookup.getIndex()); });
  for (size_t i = 0; i < used.size(); ++i)
    addDimsOf(used[i], collective, dims, used);
  return dims;
}

SmallVector<int64_t> representativeMesh(ChoreographyOp choreography, ArrayRef<int64_t> mesh, int64_t maxRanks) {
  SmallVector<int64_t> result(mesh);
  SmallVector<bool> mayShrink = findTabledDims(choreography, choreography.getCollective(), mesh.size());
  for (bool &may : mayShrink)
    may = !may;
  choreography.walk([&](TransferOp transfer) {
    for (auto [dim, step] : llvm::enumerate(transfer.getSteps().getAsRange<StepAttr>()))
      mayShrink[dim] = mayShrink[dim] && step.getKind() != StepKind::Mapped;
  });
  auto numRanks = [&] { return std::accumulate(result.begin(), result.end(), int64_t(1), std::multiplies<>()); };
  while (numRanks() > maxRanks && shrinkMesh(result, mayShrink))
    ;
  return result;
}

LogicalResult Unfold::forEachExecution(ChoreographyOp choreography, Visitor visit) {
  return walkBlock(choreography.getBody().front(), visit);
}

LogicalResult Unfold::walkBlock(Block &block, Visitor visit) {
  for (Operation &op : block)
    if (failed(walkOp(op, visit)))
      return failure();
  return success();
}

LogicalResult Unfold::walkOp(Operation &op, Visitor visit) {
  if (auto statement = dyn_cast<StatementInterface>(op))
    return visit(statement);
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    int64_t upper = evaluator.get(loop.getUpperBound()), step = evaluator.get(loop.getStep());
    if (step < 1)
      return loop.emitError() << "a loop with a step of " << step;
    int64_t lower = evaluator.get(loop.getLowerBound());
    uint64_t numRounds = countRounds(lower, upper, step);
    for (uint64_t round = 0; round < numRounds; ++round) {
      evaluator.set(loop.getInductionVar(), lower + int64_t(round) * step);
      if (failed(walkBlock(*loop.getBody(), visit)))
        return failure();
    }
    return success();
  }
  if (isa<scf::YieldOp, BufferOp>(op))
    return success();
  if (op.getNumRegions() != 0)
    return op.emitError() << "'" << op.getName() << "' is not part of the choreography phase";
  return evaluator.execute(&op);
}

LogicalResult Unfold::forEachMoveFrom(StatementInterface statement, int64_t sender, MoveVisitor visit) {
  return forEachMove(statement, sender, /*backwards=*/false, visit);
}

LogicalResult Unfold::forEachMoveInto(StatementInterface statement, int64_t receiver, MoveVisitor visit) {
  return forEachMove(statement, receiver, /*backwards=*/true, visit);
}

/// The position of a step's operand among the relation's amounts.
static Value amountOf(TransferOp transfer, size_t dim) {
  size_t position = 0;
  for (size_t i = 0; i < dim; ++i) {
    StepKind kind = cast<StepAttr>(transfer.getSteps()[i]).getKind();
    position += kind == StepKind::Next || kind == StepKind::Flip || kind == StepKind::At;
  }
  return transfer.getAmounts()[position];
}

static StringRef nameOf(TransferOp transfer, size_t dim) {
  return cast<StringAttr>(enclosingProgram(transfer).mesh[dim]).getValue();
}

FailureOr<Unfold::Coordinates> Unfold::reach(TransferOp transfer, size_t dim, int64_t coordinate, bool backwards) {
  auto step = cast<StepAttr>(transfer.getSteps()[dim]);
  int64_t size = evaluator.mesh()[dim];
  switch (step.getKind()) {
  case StepKind::Keep:
    return Coordinates{coordinate};
  case StepKind::Next: {
    int64_t distance = evaluator.get(amountOf(transfer, dim));
    return Coordinates{llvm::mod<int64_t>(backwards ? coordinate - distance : coordinate + distance, size)};
  }
  case StepKind::Flip: {
    int64_t other = coordinate ^ evaluator.get(amountOf(transfer, dim));
    bool isSender = backwards && (other < 0 || other >= size);
    return isSender ? Coordinates{} : Coordinates{other};
  }
  case StepKind::Others: {
    Coordinates others;
    for (int64_t i = 1; i < size; ++i)
      others.push_back(llvm::mod<int64_t>(coordinate + (backwards ? -i : i), size));
    return others;
  }
  case StepKind::At: {
    int64_t fixed = evaluator.get(amountOf(transfer, dim));
    if (!backwards)
      return Coordinates{fixed};
    return coordinate == fixed ? llvm::to_vector<4>(llvm::seq<int64_t>(0, size)) : Coordinates{};
  }
  case StepKind::Mapped: {
    ArrayRef<int64_t> table = step.getTable();
    if (int64_t(table.size()) != size)
      return transfer.emitError() << "the table mapped along " << nameOf(transfer, dim) << " has " << table.size()
                                  << " entries, but " << nameOf(transfer, dim) << " has " << size << " ranks";
    return Coordinates{backwards ? int64_t(llvm::find(table, coordinate) - table.begin()) : table[size_t(coordinate)]};
  }
  }
  llvm_unreachable("every kind of step is handled");
}

LogicalResult Unfold::forEachMove(StatementInterface statement, int64_t rank, bool backwards, MoveVisitor visit) {
  Coordinates mine = coordinatesOf(rank);
  auto transfer = dyn_cast<TransferOp>(statement.getOperation());
  if (!transfer)
    return evaluateMove(statement, mine, mine, visit);
  SmallVector<Coordinates, 4> reached;
  for (size_t dim = 0; dim < mine.size(); ++dim) {
    FailureOr<Coordinates> along = reach(transfer, dim, mine[dim], backwards);
    if (failed(along))
      return failure();
    if (along->empty())
      return success();
    reached.push_back(*along);
  }
  // All combinations of the coordinates reached along every dimension, the last one fastest.
  SmallVector<size_t, 4> position(mine.size(), 0);
  while (true) {
    Coordinates peer;
    for (size_t dim = 0; dim < mine.size(); ++dim)
      peer.push_back(reached[dim][position[dim]]);
    if (failed(backwards ? evaluateMove(statement, peer, mine, visit) : evaluateMove(statement, mine, peer, visit)))
      return failure();
    size_t dim = mine.size();
    while (dim > 0 && ++position[dim - 1] == reached[dim - 1].size())
      position[--dim] = 0;
    if (dim == 0)
      return success();
  }
}

LogicalResult Unfold::evaluateMove(StatementInterface statement, const Coordinates &sender, const Coordinates &receiver,
                                   MoveVisitor visit) {
  const StatementCode &code = codeOf(statement);
  size_t numDims = sender.size();
  for (auto [i, argument] : llvm::enumerate(code.arguments))
    evaluator.valueIn(argument) = i < numDims ? sender[i] : receiver[i - numDims];
  if (failed(evaluator.execute(statement.getBody().front())))
    return failure();
  if (code.condition && !evaluator.valueIn(*code.condition))
    return success();
  if (failed(checkReceiver(statement, sender, receiver)))
    return failure();
  return visit({rankOf(sender), rankOf(receiver), valueOf(code.source), valueOf(code.destination)});
}

/// Of a sender that takes part: others need no receiver.
LogicalResult Unfold::checkReceiver(StatementInterface statement, const Coordinates &sender,
                                    const Coordinates &receiver) {
  for (size_t dim = 0; dim < receiver.size(); ++dim) {
    int64_t size = evaluator.mesh()[dim];
    if (receiver[dim] >= 0 && receiver[dim] < size)
      continue;
    auto transfer = cast<TransferOp>(statement.getOperation());
    StringRef name = nameOf(transfer, dim);
    if (cast<StepAttr>(transfer.getSteps()[dim]).getKind() == StepKind::At)
      return transfer.emitError() << "at(" << name << ", " << receiver[dim] << "), but " << name << " has " << size
                                  << " ranks";
    return transfer.emitError() << "flip(" << name << ", " << (sender[dim] ^ receiver[dim])
                                << ") leads from coordinate " << sender[dim] << " to " << receiver[dim] << ", but "
                                << name << " has " << size << " ranks; the size must be a power of two";
  }
  return success();
}

const Unfold::StatementCode &Unfold::codeOf(StatementInterface statement) {
  std::unique_ptr<StatementCode> &code = codes[statement];
  if (code)
    return *code;
  code = std::make_unique<StatementCode>();
  for (BlockArgument argument : statement.getBody().front().getArguments())
    code->arguments.push_back(evaluator.registerNumber(argument));
  SlicesOp slices = slicesOf(statement);
  if (slices.getCondition())
    code->condition = evaluator.registerNumber(slices.getCondition());
  code->source = registersOf(statement.getSource(), slices.getSourceOffsets(), slices.getSourceSizes());
  code->destination =
      registersOf(statement.getDestination(), slices.getDestinationOffsets(), slices.getDestinationSizes());
  return *code;
}

Unfold::BoxRegisters Unfold::registersOf(Value buffer, OperandRange offsets, OperandRange sizes) const {
  BoxRegisters result;
  auto grid = buffer.getDefiningOp<BufferOp>().getGrid();
  for (auto [offset, size, extent] : llvm::zip_equal(offsets, sizes, grid)) {
    result.offsets.push_back(evaluator.registerNumber(offset));
    result.sizes.push_back(evaluator.registerNumber(size));
    result.extents.push_back(evaluator.registerNumber(extent));
  }
  return result;
}

GridBox Unfold::valueOf(const BoxRegisters &registers) const {
  GridBox result;
  for (auto [offset, size, extent] : llvm::zip_equal(registers.offsets, registers.sizes, registers.extents))
    result.push_back({evaluator.valueIn(offset), evaluator.valueIn(size), evaluator.valueIn(extent)});
  return result;
}

Unfold::Coordinates Unfold::coordinatesOf(int64_t rank) const {
  Coordinates result(evaluator.mesh().size());
  for (size_t dim = result.size(); dim-- > 0;) {
    result[dim] = rank % evaluator.mesh()[dim];
    rank /= evaluator.mesh()[dim];
  }
  return result;
}

int64_t Unfold::rankOf(const Coordinates &coordinates) const {
  int64_t result = 0;
  for (auto [coordinate, size] : llvm::zip_equal(coordinates, evaluator.mesh()))
    result = result * size + coordinate;
  return result;
}

} // namespace kolo
