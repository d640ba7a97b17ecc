// What the targets share when they lower a channel program.
#include "targets/ChannelLowering.h"

#include "compiler/project/Relations.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kolo {

/// A statement's own line: a statement of a building block is one, whoever calls it.
static Location statementOf(Location location) {
  auto line = location->findInstanceOf<FileLineColLoc>();
  return line ? Location(line) : location;
}

int64_t StatementTable::numberOf(Location location) const {
  return llvm::find(locations, statementOf(location)) - locations.begin();
}

/// A lane that puts or signals over a staged network may wait until its requests are taken.
static bool mayWait(Operation *op, bool isStaged) {
  if (auto move = dyn_cast<MoveInterface>(op))
    return arePackets(move.getSource()) || (isStaged && isPutToInbox(move));
  return isa<WaitOp>(op) || (isStaged && isa<SignalOp>(op));
}

StatementTable collectStatements(ProgramOp program) {
  StatementTable table;
  const bool isStaged = usesStagedNetwork(program);
  program.walk([&](Operation *op) {
    const bool isWaiting = mayWait(op, isStaged);
    if (Location statement = statementOf(op->getLoc()); isWaiting && !llvm::is_contained(table.locations, statement))
      table.locations.push_back(statement);
  });
  return table;
}

ChannelLowering::ChannelLowering(ProgramOp program, unsigned tableSpace)
    : program(program), module(program->getParentOfType<ModuleOp>()), builder(program.getContext()),
      loc(program.getLoc()), statements(collectStatements(program)), tableSpace(tableSpace) {}

void ChannelLowering::lowerBlock(Block &block) {
  for (Operation &op : block)
    lowerOp(op);
}

void ChannelLowering::lowerOp(Operation &op) {
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](DimSizeOp size) { frame.mapping.map(size.getResult(), frame.dimSizes[size.getDim()]); })
      .Case([&](LookupOp lookup) { lowerLookup(lookup); })
      .Default([&](Operation *other) {
        if (isa_and_nonnull<KoloDialect>(other->getDialect()))
          lowerOwn(*other);
        else if (other->getNumRegions() != 0)
          lowerRegions(*other);
        else
          builder.clone(*other, frame.mapping);
      });
}

void ChannelLowering::lowerRegions(Operation &op) {
  OpBuilder::InsertionGuard guard(builder);
  Operation *shell = builder.cloneWithoutRegions(op, frame.mapping);
  for (auto [from, to] : llvm::zip_equal(op.getRegions(), shell->getRegions())) {
    if (from.empty())
      continue;
    Block &block = to.emplaceBlock();
    for (BlockArgument argument : from.getArguments())
      frame.mapping.map(argument, block.addArgument(argument.getType(), argument.getLoc()));
    builder.setInsertionPointToEnd(&block);
    meetPaths();
    lowerBlock(from.front());
  }
  meetPaths();
}

void ChannelLowering::placeBuffer(BufferOp buffer) {
  frame.buffers[buffer] = frame.layout.place(builder, loc, frame.call, buffer, frame.mapping);
}

SliceValues ChannelLowering::sliceOf(Value buffer, OperandRange offsets, OperandRange sizes, Value rank) {
  auto map = [&](Value value) { return mapped(value); };
  const PlacedBuffer &placed = bufferOf(buffer);
  return {placed.shape, llvm::map_to_vector<6>(offsets, map), llvm::map_to_vector<6>(sizes, map), placed.role,
          mapped(rank)};
}

/// Without tables, any side but slots, of which a chunk may fill a part only.
Measure ChannelLowering::measureOf(MoveInterface move) {
  if (frame.call.tables)
    return *kolo::measureOf(program.getCollective().getKind(), move);
  return {bufferOf(move.getSource()).shape.cut ? MoveSide::Destination : MoveSide::Source, BufferRole::Input};
}

void ChannelLowering::buildRanges(MoveInterface move, RangeBuilder build) {
  SliceValues source = sliceOf(move.getSource(), move.getSourceOffsets(), move.getSourceSizes(), move.getSourceRank());
  SliceValues destination = sliceOf(move.getDestination(), move.getDestinationOffsets(), move.getDestinationSizes(),
                                    move.getDestinationRank());
  buildRangeLoops(builder, loc, frame.call, source, destination, {mapped(move.getPart()), mapped(move.getParts())},
                  measureOf(move), build);
}

Value ChannelLowering::elementNumber(const PlacedBuffer &buffer, Value begin) {
  BlockPosition at = createBlockPosition(builder, loc, frame.call, buffer.shape, begin);
  return createAdd(builder, loc, createMul(builder, loc, at.block, frame.call.count), at.element);
}

Value ChannelLowering::elementNumber(MoveInterface move, Value sourceBegin, Value destinationBegin) {
  const PlacedBuffer &source = bufferOf(move.getSource());
  return source.shape.cut ? elementNumber(bufferOf(move.getDestination()), destinationBegin)
                          : elementNumber(source, sourceBegin);
}

Value ChannelLowering::groupSize() {
  Value numRanks = constant(1);
  for (int64_t dim : program.getCollective().getGroupDims())
    numRanks = createMul(builder, loc, numRanks, frame.dimSizes[size_t(dim)]);
  return numRanks;
}

/// A table that many lookups use is one global.
const std::string &ChannelLowering::globalOf(DenseI64ArrayAttr table) {
  auto [entry, isNew] = tables.try_emplace(table);
  if (isNew) {
    entry->second = ("table." + program.getSymName() + "." + Twine(tables.size() - 1)).str();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    Type type = LLVM::LLVMArrayType::get(builder.getI64Type(), unsigned(table.size()));
    LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal, entry->second,
                           builder.getI64TensorAttr(table.asArrayRef()), /*alignment=*/8, tableSpace);
  }
  return entry->second;
}

void ChannelLowering::lowerLookup(LookupOp lookup) {
  Type i64 = builder.getI64Type(), pointer = LLVM::LLVMPointerType::get(builder.getContext(), tableSpace);
  Value base = LLVM::AddressOfOp::create(builder, loc, pointer, globalOf(lookup.getTableAttr()));
  Value address =
      LLVM::GEPOp::create(builder, loc, pointer, i64, base, ArrayRef<LLVM::GEPArg>{integer(mapped(lookup.getIndex()))});
  frame.mapping.map(lookup.getResult(), toIndex(builder, loc, LLVM::LoadOp::create(builder, loc, i64, address, 8)));
}

} // namespace kolo
