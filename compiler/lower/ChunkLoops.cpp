// From slices of chunks to contiguous ranges of elements, as loops in IR.
#include "compiler/lower/ChunkLoops.h"

#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace kolo {

/// Number of chunks that a block of a buffer without slots is cut into.
static Value createChunksPerBlock(OpBuilder &builder, Location loc, const BufferShape &buffer) {
  Value product = createConstant(builder, loc, 1);
  for (Value extent : llvm::drop_begin(buffer.grid, buffer.numBlockDims))
    product = createMul(builder, loc, product, extent);
  return product;
}

namespace {

/// One slice, dimension by dimension, while the loops around it are being built.
struct Cursor {
  const SliceValues &slice;
  size_t numDims;              // dimensions that are not merged into runs of whole rows
  SmallVector<Value> position; // current index per dimension, wrapped; null while its loop is not open
};

bool isFull(const SliceValues &slice, size_t dim) {
  bool startsAtZero = getConstantIntValue(slice.offsets[dim]) == 0;
  std::optional<int64_t> size = getConstantIntValue(slice.sizes[dim]),
                         extent = getConstantIntValue(slice.buffer.grid[dim]);
  return startsAtZero && (slice.sizes[dim] == slice.buffer.grid[dim] || (size && size == extent));
}

class RangeLoops {
public:
  RangeLoops(OpBuilder &builder, Location loc, const CallValues &call, const SliceValues &source,
             const SliceValues &destination, const PartValues &part, const Measure &measure, RangeBuilder build)
      : builder(builder), loc(loc), call(call), source{source, source.buffer.grid.size(), {}},
        destination{destination, destination.buffer.grid.size(), {}}, part(part), build(build),
        measured(isCutBySource(source, measure) ? this->source : this->destination), table(measure.table) {}

  void run();

private:
  /// What a note says, it says of a chunk in a slot, too, which lies in the chunks of the other side.
  static bool isCutBySource(const SliceValues &source, const Measure &measure) {
    return measure.table ? measure.side == MoveSide::Source : !source.buffer.cut;
  }
  void mergeRows();
  void openLoops();
  SmallVector<size_t> rangedDims(const Cursor &cursor);
  void wrapFixedDims(Cursor &cursor);
  Value wrap(const Cursor &cursor, size_t dim, Value step);
  void buildRuns(size_t sourceDim, size_t destinationDim);
  void buildRows(Value numRows);
  void buildRange(Value sourceChunk, Value destinationChunk, Value numChunks);
  Value firstChunk(const Cursor &cursor);
  NumbersPlace notesOf(const Cursor &cursor, Value chunk);
  void note(Value sourceChunk, Value destinationChunk, Value numChunks);
  Value countOf(Value sourceChunk, Value destinationChunk);
  Value blockBegin(const Cursor &cursor, Value block);
  Value boundary(const BufferShape &buffer, Value chunk, Value count);
  Value beginOf(const Cursor &cursor, Value chunk, Value count);
  Value positionIn(const Cursor &cursor, Value element, Value chunk);
  Value cut(Value index, Value parts, Value total);

  Value constant(int64_t value) { return createConstant(builder, loc, value); }
  Value add(Value a, Value b) { return createAdd(builder, loc, a, b); }
  Value sub(Value a, Value b) { return createSub(builder, loc, a, b); }
  Value mul(Value a, Value b) { return createMul(builder, loc, a, b); }
  /// A constant, if it is one: so that one chunk is known to be one.
  Value product(Value a, Value b) { return builder.createOrFold<arith::MulIOp>(loc, a, b); }
  Value div(Value a, Value b) { return arith::DivUIOp::create(builder, loc, a, b); }
  Value rem(Value a, Value b) { return arith::RemUIOp::create(builder, loc, a, b); }
  Value min(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }
  Value isEqual(Value a, Value b) { return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b); }
  Value select(Value condition, Value a, Value b) { return arith::SelectOp::create(builder, loc, condition, a, b); }

  OpBuilder &builder;
  Location loc;
  const CallValues &call;
  Cursor source, destination;
  const PartValues &part;
  RangeBuilder build;
  const Cursor &measured;                // the slice of the buffer that says how long chunks are; no slots
  const std::optional<BufferRole> table; // that says so in a call with tables; nothing: notes do
  Value rowChunks;                       // chunks in a row: the product of the merged dimensions
};

void RangeLoops::run() {
  OpBuilder::InsertionGuard guard(builder);
  mergeRows();
  wrapFixedDims(source);
  wrapFixedDims(destination);
  openLoops();
}

/// Trailing dimensions of which both slices take everything are contiguous in both.
void RangeLoops::mergeRows() {
  rowChunks = constant(1);
  while (source.numDims > 0 && destination.numDims > 0 && isFull(source.slice, source.numDims - 1) &&
         isFull(destination.slice, destination.numDims - 1))
    rowChunks = product(rowChunks, source.slice.buffer.grid[--source.numDims]), --destination.numDims;
}

SmallVector<size_t> RangeLoops::rangedDims(const Cursor &cursor) {
  SmallVector<size_t> dims;
  for (size_t dim = 0; dim < cursor.numDims; ++dim)
    if (isRanged(cursor.slice.sizes[dim]))
      dims.push_back(dim);
  return dims;
}

Value RangeLoops::wrap(const Cursor &cursor, size_t dim, Value step) {
  return createModulo(builder, loc, add(cursor.slice.offsets[dim], step), cursor.slice.buffer.grid[dim]);
}

void RangeLoops::wrapFixedDims(Cursor &cursor) {
  for (size_t dim = 0; dim < cursor.numDims; ++dim)
    cursor.position.push_back(isRanged(cursor.slice.sizes[dim]) ? Value() : wrap(cursor, dim, constant(0)));
}

/// One loop per pair of ranged dimensions; the innermost advances by runs where its steps are contiguous in both
/// buffers.
void RangeLoops::openLoops() {
  SmallVector<size_t> sourceDims = rangedDims(source), destinationDims = rangedDims(destination);
  for (auto [i, sourceDim, destinationDim] : llvm::enumerate(sourceDims, destinationDims)) {
    bool isInnermost = i + 1 == sourceDims.size();
    if (isInnermost && sourceDim + 1 == source.numDims && destinationDim + 1 == destination.numDims)
      return buildRuns(sourceDim, destinationDim);
    auto loop = scf::ForOp::create(builder, loc, constant(0), source.slice.sizes[sourceDim], constant(1));
    builder.setInsertionPointToStart(loop.getBody());
    source.position[sourceDim] = wrap(source, sourceDim, loop.getInductionVar());
    destination.position[destinationDim] = wrap(destination, destinationDim, loop.getInductionVar());
  }
  buildRows(constant(1));
}

/// while (done < size) { run = steps until the end or until one side wraps; move it; done += run }
void RangeLoops::buildRuns(size_t sourceDim, size_t destinationDim) {
  Value size = source.slice.sizes[sourceDim];
  auto loop = scf::WhileOp::create(builder, loc, builder.getIndexType(), ValueRange{constant(0)});
  Block *before = builder.createBlock(&loop.getBefore(), {}, builder.getIndexType(), loc);
  Value done = before->getArgument(0);
  Value more = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, done, size);
  scf::ConditionOp::create(builder, loc, more, ValueRange{done});
  Block *body = builder.createBlock(&loop.getAfter(), {}, builder.getIndexType(), loc);
  done = body->getArgument(0);
  Value &from = source.position[sourceDim] = wrap(source, sourceDim, done);
  Value &to = destination.position[destinationDim] = wrap(destination, destinationDim, done);
  Value run = min(sub(size, done), min(sub(source.slice.buffer.grid[sourceDim], from),
                                       sub(destination.slice.buffer.grid[destinationDim], to)));
  Value next = add(done, run);
  buildRows(run);
  builder.setInsertionPointToEnd(body);
  scf::YieldOp::create(builder, loc, next);
}

Value RangeLoops::firstChunk(const Cursor &cursor) {
  ArrayRef<Value> grid(cursor.slice.buffer.grid);
  return mul(createLinear(builder, loc, cursor.position, grid.take_front(cursor.numDims)), rowChunks);
}

/// Rows that follow each other are one range, or, where parts cut every chunk or one side is slots or encoded, one
/// range per chunk.
void RangeLoops::buildRows(Value numRows) {
  Value sourceChunk = firstChunk(source), destinationChunk = firstChunk(destination),
        numChunks = product(numRows, rowChunks);
  note(sourceChunk, destinationChunk, numChunks);
  auto isApart = [](const BufferShape &buffer) { return buffer.packets || buffer.cut || !codec::isNone(buffer.codec); };
  bool hasSlots = isApart(source.slice.buffer) || isApart(destination.slice.buffer);
  if ((!part.parts && !call.isDense && !hasSlots) || getConstantIntValue(numChunks) == 1)
    return buildRange(sourceChunk, destinationChunk, numChunks);
  Value one = constant(1), numRanges = numChunks, chunksPerRange = one;
  if (!hasSlots) {
    Value isWhole = part.parts ? isEqual(part.parts, one) : call.isDense;
    if (part.parts && call.isDense)
      isWhole = createAnd(builder, loc, isWhole, call.isDense);
    numRanges = select(isWhole, one, numChunks), chunksPerRange = select(isWhole, numChunks, one);
  }
  auto loop = scf::ForOp::create(builder, loc, constant(0), numRanges, one);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value offset = loop.getInductionVar();
  buildRange(add(sourceChunk, offset), add(destinationChunk, offset), chunksPerRange);
}

void RangeLoops::buildRange(Value sourceChunk, Value destinationChunk, Value numChunks) {
  const BufferShape &buffer = measured.slice.buffer;
  Value measuredChunk = &measured == &source ? sourceChunk : destinationChunk;
  Value count = countOf(sourceChunk, destinationChunk);
  Value sourceBegin = beginOf(source, sourceChunk, count);
  Value destinationBegin = beginOf(destination, destinationChunk, count);
  Value length = sub(boundary(buffer, add(measuredChunk, numChunks), count), boundary(buffer, measuredChunk, count));
  if (!part.parts)
    return build(builder, positionIn(source, sourceBegin, sourceChunk),
                 positionIn(destination, destinationBegin, destinationChunk), length);
  // Where parts lie depends on the size of slots for such chunks, of the longest block: see kolo.buffer. Several chunks
  // come in one part only.
  Value total = mul(createSlotSize(builder, loc, call, createChunksPerBlock(builder, loc, buffer)), numChunks);
  Value begin = min(cut(part.part, part.parts, total), length);
  Value end = min(cut(add(part.part, constant(1)), part.parts, total), length);
  build(builder, positionIn(source, add(sourceBegin, begin), sourceChunk),
        positionIn(destination, add(destinationBegin, begin), destinationChunk), sub(end, begin));
}

/// Of the part at hand, of a chunk, that begins with this element: the element, or its first packet. One that is empty
/// may begin where 16 bytes do not, behind the last one that is not.
Value RangeLoops::positionIn(const Cursor &cursor, Value element, Value chunk) {
  const BufferShape &buffer = cursor.slice.buffer;
  if (!buffer.packets)
    return element;
  Value partsBefore = part.parts ? add(mul(chunk, part.parts), part.part) : chunk;
  return add(createFilledPackets(builder, loc, call, buffer, element), partsBefore);
}

/// Of the part at hand of a chunk: [part][chunk], behind the buffer.
NumbersPlace RangeLoops::notesOf(const Cursor &cursor, Value chunk) {
  const BufferShape &buffer = cursor.slice.buffer;
  Value number = add(mul(part.part, createNumChunks(builder, loc, buffer)), chunk);
  return {cursor.slice.role, cursor.slice.rank, add(buffer.notes, mul(number, constant(8)))};
}

/// The lengths of chunks that follow each other, in one go where the source has them so.
void RangeLoops::note(Value sourceChunk, Value destinationChunk, Value numChunks) {
  if (!call.tables || !destination.slice.buffer.notes)
    return;
  OpBuilder::InsertionGuard guard(builder);
  auto isGiven = scf::IfOp::create(builder, loc, call.tables->isGiven(builder, loc));
  builder.setInsertionPointToStart(isGiven.thenBlock());
  const BufferShape &buffer = source.slice.buffer;
  const bool isOneByOne = table && buffer.numBlockDims != buffer.grid.size();
  if (isOneByOne) {
    auto loop = scf::ForOp::create(builder, loc, constant(0), numChunks, constant(1));
    builder.setInsertionPointToStart(loop.getBody());
    Value offset = loop.getInductionVar();
    sourceChunk = add(sourceChunk, offset), destinationChunk = add(destinationChunk, offset), numChunks = constant(1);
  }
  Value block = isOneByOne ? div(sourceChunk, createChunksPerBlock(builder, loc, buffer)) : sourceChunk;
  call.tables->note(builder, loc, table ? NumbersPlace{*table, {}, block} : notesOf(source, sourceChunk),
                    notesOf(destination, destinationChunk), numChunks);
}

/// Elements of the block that a pair of chunks belongs to.
Value RangeLoops::countOf(Value sourceChunk, Value destinationChunk) {
  if (!call.tables)
    return call.count;
  const BufferShape &buffer = measured.slice.buffer;
  auto choice = scf::IfOp::create(builder, loc, builder.getIndexType(), call.tables->isGiven(builder, loc),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(choice.thenBlock());
  Value count;
  if (table) {
    Value chunk = &measured == &source ? sourceChunk : destinationChunk;
    Value block =
        buffer.numBlockDims == buffer.grid.size() ? chunk : div(chunk, createChunksPerBlock(builder, loc, buffer));
    count = call.tables->count(builder, loc, *table, block);
  } else { // of a peer's chunk, what was read from there
    NumbersPlace place = source.slice.rank ? notesOf(destination, destinationChunk) : notesOf(source, sourceChunk);
    count = call.tables->noted(builder, loc, place);
  }
  scf::YieldOp::create(builder, loc, count);
  builder.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(builder, loc, call.count);
  return choice.getResult(0);
}

/// First element of a block that lies in the buffer as the call says.
Value RangeLoops::blockBegin(const Cursor &cursor, Value block) {
  const BufferShape &buffer = cursor.slice.buffer;
  Value stride = buffer.stride ? buffer.stride : call.count;
  if (!call.tables || !isOfCaller(cursor.slice.role))
    return mul(block, stride);
  auto choice = scf::IfOp::create(builder, loc, builder.getIndexType(), call.tables->isGiven(builder, loc),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(builder, loc, call.tables->place(builder, loc, cursor.slice.role, cursor.slice.rank, block));
  builder.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(builder, loc, mul(block, stride));
  return choice.getResult(0);
}

/// First element of a chunk, whose block has so many: see kolo.buffer.
Value RangeLoops::beginOf(const Cursor &cursor, Value chunk, Value count) {
  const BufferShape &buffer = cursor.slice.buffer;
  if (buffer.cut)
    return mul(chunk, createSlotSize(builder, loc, call, buffer.cut));
  if (buffer.numBlockDims == buffer.grid.size())
    return blockBegin(cursor, chunk);
  Value chunksPerBlock = createChunksPerBlock(builder, loc, buffer);
  Value block = div(chunk, chunksPerBlock), index = rem(chunk, chunksPerBlock);
  return add(blockBegin(cursor, block), cut(index, chunksPerBlock, count));
}

/// The same where blocks of so many elements follow each other.
Value RangeLoops::boundary(const BufferShape &buffer, Value chunk, Value count) {
  if (buffer.numBlockDims == buffer.grid.size())
    return mul(chunk, count);
  Value chunksPerBlock = createChunksPerBlock(builder, loc, buffer);
  Value block = div(chunk, chunksPerBlock), index = rem(chunk, chunksPerBlock);
  return add(mul(block, count), cut(index, chunksPerBlock, count));
}

/// index * total / parts without overflow, rounded down to the alignment, except at the end.
Value RangeLoops::cut(Value index, Value parts, Value total) {
  Value exact = add(mul(index, div(total, parts)), div(mul(index, rem(total, parts)), parts));
  return select(isEqual(index, parts), total, createRoundDown(builder, loc, exact, call.alignment));
}

} // namespace

void buildRangeLoops(OpBuilder &builder, Location loc, const CallValues &call, const SliceValues &source,
                     const SliceValues &destination, const PartValues &part, const Measure &measure,
                     RangeBuilder build) {
  RangeLoops(builder, loc, call, source, destination, part, measure, build).run();
}

} // namespace kolo
