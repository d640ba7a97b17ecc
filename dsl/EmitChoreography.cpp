// From a recorded choreography to the choreography phase of the dialect: one op per statement, nothing decided here.
#include "dsl/EmitChoreography.h"

#include "codec/Codec.h"

#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace kolo::dsl {

using Kind = Expression::Kind;
using arith::CmpIPredicate;

namespace {

class Emitter {
public:
  Emitter(MLIRContext &context, const Recording &recording) : builder(&context), recording(recording) {
    context.loadDialect<KoloDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect>();
  }

  OwningOpRef<ModuleOp> emit(ArrayRef<std::vector<int64_t>> meshes);

private:
  // The coordinates that a statement's body takes.
  struct BodyArguments {
    ValueRange sender, receiver;
  };

  mlir::Location locationOf(const std::source_location &location) {
    return FileLineColLoc::get(builder.getStringAttr(location.file_name()), location.line(), location.column());
  }
  mlir::Location locationOf(const Origin &origin) {
    SmallVector<mlir::Location> frames;
    for (const std::source_location &caller : origin.callers)
      frames.push_back(locationOf(caller));
    mlir::Location location = locationOf(origin.location);
    return frames.empty() ? location : CallSiteLoc::get(location, frames);
  }
  Value constant(int64_t value) { return createConstant(builder, loc, value); }

  void emitItems(const std::vector<RecordedItem> &items);
  void emitLoop(const RecordedLoop &recorded);
  void emitStatement(const RecordedStatement &statement);
  void emitTransfer(const RecordedStatement &statement, Value source, Value destination);
  void emitBody(const RecordedStatement &statement, Region &region);
  void emitBuffer(const RecordedBuffer &buffer);
  void emitSlice(const RecordedSlice &slice, int variant, SmallVectorImpl<Value> &offsets,
                 SmallVectorImpl<Value> &sizes);
  void markVariant(Operation *op, int variant);
  Value emitProduct(ArrayRef<ExpressionRef> factors);
  Value emitExpression(const ExpressionRef &expression);
  Value emitNode(const Expression &expression, llvm::DenseMap<const Expression *, Value> &emitted);
  Value emitLeaf(const Expression &expression);
  Value emitOperation(Kind kind, ArrayRef<Value> operands);
  Value emitLog2(Value value);

  OpBuilder builder;
  const Recording &recording;
  mlir::Location loc = builder.getUnknownLoc();
  SmallVector<Value> dimSizes;
  SmallVector<Value> buffers;
  SmallVector<SmallVector<Value>> grids; // per buffer; with stripes, their parts are the last dimension
  DenseMap<int64_t, Value> loopIndices;
  BodyArguments arguments;
};

static BufferRole roleOf(RecordedBuffer::Role role) {
  switch (role) {
  case RecordedBuffer::Role::Input:
    return BufferRole::Input;
  case RecordedBuffer::Role::Output:
    return BufferRole::Output;
  case RecordedBuffer::Role::Scratch:
    return BufferRole::Scratch;
  }
  llvm_unreachable("every role is handled");
}

static StepKind kindOf(Step::Kind kind) {
  switch (kind) {
  case Step::Kind::Keep:
    return StepKind::Keep;
  case Step::Kind::Next:
    return StepKind::Next;
  case Step::Kind::Flip:
    return StepKind::Flip;
  case Step::Kind::Others:
    return StepKind::Others;
  case Step::Kind::At:
    return StepKind::At;
  case Step::Kind::Mapped:
    return StepKind::Mapped;
  }
  llvm_unreachable("every step is handled");
}

OwningOpRef<ModuleOp> Emitter::emit(ArrayRef<std::vector<int64_t>> meshes) {
  const Definition &definition = recording.definition;
  loc = locationOf(definition.location);
  OwningOpRef<ModuleOp> module(ModuleOp::create(builder, loc));
  builder.setInsertionPointToStart(module->getBody());
  if (recording.buffers.empty()) // the definition itself is mistaken, and its body was not run
    return module;

  SmallVector<StringRef> names(definition.mesh.dims.begin(), definition.mesh.dims.end());
  SmallVector<Attribute> sizes;
  for (const std::vector<int64_t> &mesh : meshes)
    sizes.push_back(builder.getDenseI64ArrayAttr(mesh));
  SmallVector<int64_t> groupDims(recording.groupDims.begin(), recording.groupDims.end());
  auto kind = kolo::CollectiveKind(int(definition.collective.kind)); // tools/compile/Kinds.cpp ties them
  auto choreography = ChoreographyOp::create(
      builder, loc, builder.getStringAttr(definition.name), CollectiveAttr::get(builder.getContext(), kind, groupDims),
      builder.getStrArrayAttr(names), builder.getArrayAttr(sizes), InPlace::CopyInput,
      /*checked=*/nullptr);
  builder.setInsertionPointToStart(&choreography.getBody().emplaceBlock());

  for (size_t dim = 0; dim < names.size(); ++dim)
    dimSizes.push_back(DimSizeOp::create(builder, loc, int64_t(dim)));
  for (const RecordedBuffer &buffer : recording.buffers)
    emitBuffer(buffer);
  emitItems(recording.body);
  return module;
}

void Emitter::emitBuffer(const RecordedBuffer &buffer) {
  SmallVector<Value> &grid = grids.emplace_back();
  if (buffer.isMistaken) {
    buffers.emplace_back(); // no statement that uses it is emitted
    return;
  }
  for (const ExpressionRef &extent : buffer.grid)
    grid.push_back(emitExpression(extent));
  if (recording.numVariants > 0)
    grid.push_back(constant(recording.numVariants));
  bool isSlots = buffer.slotsFor >= 0;
  size_t blocks = isSlots ? grid.size() : numBlockDims(recording, buffer);
  Value cut = isSlots ? emitProduct(buffer.slotCut) : Value();
  if (isSlots && recording.numVariants > 0)
    cut = createMul(builder, loc, cut, constant(recording.numVariants));
  bool hasCodec = buffer.codec != none(), isOfAuthor = buffer.origin.location.line() > 0;
  mlir::Location where = hasCodec ? locationOf(buffer.codecOrigin) : isOfAuthor ? locationOf(buffer.origin) : loc;
  CodecAttr codec = hasCodec ? CodecAttr::get(builder.getContext(), codec::textOf(buffer.codec)) : CodecAttr();
  buffers.push_back(BufferOp::create(builder, where, BufferType::get(builder.getContext(), unsigned(grid.size())),
                                     roleOf(buffer.role), buffer.name, grid, blocks, cut, codec));
}

Value Emitter::emitProduct(ArrayRef<ExpressionRef> factors) {
  if (factors.empty())
    return constant(1);
  Value product = emitExpression(factors.front());
  for (const ExpressionRef &factor : factors.drop_front())
    product = createMul(builder, loc, product, emitExpression(factor));
  return product;
}

void Emitter::emitItems(const std::vector<RecordedItem> &items) {
  for (const RecordedItem &item : items) {
    if (const size_t *statement = std::get_if<size_t>(&item))
      emitStatement(recording.statements[*statement]);
    else
      emitLoop(*std::get<std::unique_ptr<RecordedLoop>>(item));
  }
}

void Emitter::emitLoop(const RecordedLoop &recorded) {
  if (recorded.isMistaken)
    return;
  loc = locationOf(recorded.origin);
  auto loop = scf::ForOp::create(builder, loc, constant(0), emitExpression(recorded.count), constant(1));
  markVariant(loop, recorded.variant);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  loopIndices[recorded.number] = loop.getInductionVar();
  emitItems(recorded.body);
}

void Emitter::emitStatement(const RecordedStatement &statement) {
  if (statement.isMistaken)
    return;
  loc = locationOf(statement.origin);
  Value source = buffers[statement.source.buffer], destination = buffers[statement.destination.buffer];
  switch (statement.kind) {
  case RecordedStatement::Kind::Copy:
    return emitBody(statement, CopyOp::create(builder, loc, source, destination).getBody());
  case RecordedStatement::Kind::Reduce:
    return emitBody(statement, ReduceOp::create(builder, loc, source, destination).getBody());
  case RecordedStatement::Kind::Transfer:
    return emitTransfer(statement, source, destination);
  }
}

void Emitter::emitTransfer(const RecordedStatement &statement, Value source, Value destination) {
  SmallVector<Attribute> steps;
  SmallVector<Value> amounts;
  for (const Step &step : statement.relation->steps) {
    steps.push_back(StepAttr::get(builder.getContext(), kindOf(step.kind), step.table));
    if (step.amount)
      amounts.push_back(emitExpression(step.amount));
  }
  auto transfer =
      TransferOp::create(builder, loc, statement.isReducing, source, destination, builder.getArrayAttr(steps), amounts);
  emitBody(statement, transfer.getBody());
}

void Emitter::emitBody(const RecordedStatement &statement, Region &region) {
  markVariant(region.getParentOp(), statement.variant);
  OpBuilder::InsertionGuard guard(builder);
  Block &block = region.emplaceBlock();
  size_t numDims = dimSizes.size(), numArguments = numDims * (statement.relation ? 2 : 1);
  for (size_t i = 0; i < numArguments; ++i)
    block.addArgument(builder.getIndexType(), loc);
  arguments = {block.getArguments().take_front(numDims), block.getArguments().drop_front(numDims)};
  builder.setInsertionPointToStart(&block);

  SmallVector<Value> sourceOffsets, sourceSizes, destinationOffsets, destinationSizes;
  emitSlice(statement.source, statement.variant, sourceOffsets, sourceSizes);
  emitSlice(statement.destination, statement.variant, destinationOffsets, destinationSizes);
  Value condition = statement.condition ? emitExpression(statement.condition) : Value();
  SlicesOp::create(builder, loc, sourceOffsets, sourceSizes, destinationOffsets, destinationSizes, condition);
}

void Emitter::emitSlice(const RecordedSlice &slice, int variant, SmallVectorImpl<Value> &offsets,
                        SmallVectorImpl<Value> &sizes) {
  ArrayRef<Value> grid = grids[slice.buffer];
  size_t numDims = recording.buffers[slice.buffer].grid.size(); // those that the author knows
  for (size_t i = 0; i < numDims; ++i) {
    bool isAll = slice.isWhole || !slice.axes[i].start;
    offsets.push_back(isAll ? constant(0) : emitExpression(slice.axes[i].start));
    sizes.push_back(isAll ? grid[i] : emitExpression(slice.axes[i].length));
  }
  if (recording.numVariants > 0) {
    offsets.push_back(constant(std::max(variant, 0)));
    sizes.push_back(variant < 0 ? grid.back() : constant(1));
  }
}

void Emitter::markVariant(Operation *op, int variant) {
  if (variant >= 0)
    KoloDialect::StripeAttrHelper(builder.getContext()).setAttr(op, builder.getI64IntegerAttr(variant));
}

/// Here and now: each part of it once, however often it stands in the expression.
Value Emitter::emitExpression(const ExpressionRef &expression) {
  llvm::DenseMap<const Expression *, Value> emitted;
  return emitNode(*expression, emitted);
}

Value Emitter::emitNode(const Expression &expression, llvm::DenseMap<const Expression *, Value> &emitted) {
  if (expression.operands.empty())
    return emitLeaf(expression);
  if (Value known = emitted.lookup(&expression))
    return known;
  SmallVector<Value> operands;
  for (const ExpressionRef &operand : expression.operands)
    operands.push_back(emitNode(*operand, emitted));
  bool isLookup = expression.kind == Kind::Lookup;
  return emitted[&expression] = isLookup ? LookupOp::create(builder, loc, operands.front(), *expression.table)
                                         : emitOperation(expression.kind, operands);
}

Value Emitter::emitLeaf(const Expression &expression) {
  switch (expression.kind) {
  case Kind::Constant:
    return constant(expression.value);
  case Kind::DimSize:
    return dimSizes[expression.value];
  case Kind::Coordinate:
    return arguments.sender[expression.value];
  case Kind::PeerCoordinate:
    return arguments.receiver[expression.value];
  case Kind::Root:
    return RootOp::create(builder, loc);
  case Kind::LoopIndex:
    return loopIndices.at(expression.value);
  default:
    llvm_unreachable("an operation has operands");
  }
}

static CmpIPredicate predicateOf(Kind kind) {
  switch (kind) {
  case Kind::Equal:
    return CmpIPredicate::eq;
  case Kind::NotEqual:
    return CmpIPredicate::ne;
  case Kind::Less:
    return CmpIPredicate::slt;
  default:
    return CmpIPredicate::sle;
  }
}

Value Emitter::emitOperation(Kind kind, ArrayRef<Value> operands) {
  Value a = operands.front(), b = operands.back();
  switch (kind) {
  case Kind::Add:
    return arith::AddIOp::create(builder, loc, a, b);
  case Kind::Sub:
    return arith::SubIOp::create(builder, loc, a, b);
  case Kind::Mul:
    return arith::MulIOp::create(builder, loc, a, b);
  case Kind::FloorDiv:
    return arith::FloorDivSIOp::create(builder, loc, a, b);
  case Kind::Mod:
    return createModulo(builder, loc, a, b);
  case Kind::Xor:
    return arith::XOrIOp::create(builder, loc, a, b);
  case Kind::Min:
    return arith::MinSIOp::create(builder, loc, a, b);
  case Kind::Max:
    return arith::MaxSIOp::create(builder, loc, a, b);
  case Kind::Pow2:
    return arith::ShLIOp::create(builder, loc, constant(1), a);
  case Kind::Log2:
    return emitLog2(a);
  case Kind::And:
    return arith::AndIOp::create(builder, loc, a, b);
  case Kind::Or:
    return arith::OrIOp::create(builder, loc, a, b);
  case Kind::Not:
    return arith::XOrIOp::create(builder, loc, a, arith::ConstantIntOp::create(builder, loc, 1, 1));
  default:
    return arith::CmpIOp::create(builder, loc, predicateOf(kind), a, b);
  }
}

Value Emitter::emitLog2(Value value) {
  Value wide = arith::IndexCastOp::create(builder, loc, builder.getI64Type(), value);
  Value zeros = math::CountLeadingZerosOp::create(builder, loc, wide);
  Value index = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), zeros);
  return arith::SubIOp::create(builder, loc, constant(63), index);
}

} // namespace

OwningOpRef<ModuleOp> emitChoreography(MLIRContext &context, const Recording &recording,
                                       ArrayRef<std::vector<int64_t>> meshes) {
  return Emitter(context, recording).emit(meshes);
}

} // namespace kolo::dsl
