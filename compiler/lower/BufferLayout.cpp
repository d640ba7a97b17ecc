// Where the buffers of a program lie in memory, as values in IR.
#include "compiler/lower/BufferLayout.h"

#include "ir/BlockTables.h"
#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;

namespace kolo {

/// The position of every buffer in its role's memory is a multiple of this. Published memory takes as few cache lines
/// as possible.
static int64_t alignmentBytesOf(BufferRole role, const BufferShape &shape) {
  int64_t leastBytes = role == BufferRole::Published ? 8 : 64;
  return shape.packets ? std::max(leastBytes, shape.packets->bytes) : leastBytes;
}

/// Sizes are far from what an index can count. So the sum does not wrap, and less code says it than arith.ceildivui
/// does.
static Value ceilDiv(OpBuilder &builder, Location loc, Value value, Value divisor) {
  Value most = createSub(builder, loc, divisor, createConstant(builder, loc, 1));
  return arith::DivUIOp::create(builder, loc, createAdd(builder, loc, value, most), divisor);
}

/// To a multiple of a power of two.
static Value roundUp(OpBuilder &builder, Location loc, Value value, Value multiple) {
  Value most = createSub(builder, loc, multiple, createConstant(builder, loc, 1));
  return createRoundDown(builder, loc, createAdd(builder, loc, value, most), multiple);
}

std::optional<PacketFormat> packetFormatOf(BufferOp buffer) {
  if (buffer.getRole() != BufferRole::Packets)
    return std::nullopt;
  return buffer.getLl128() ? ll128Packets : llPackets;
}

std::optional<PacketFormat> packetFormatOf(ProgramOp program) {
  for (auto buffer : program.getBody().getOps<BufferOp>())
    if (std::optional<PacketFormat> format = packetFormatOf(buffer))
      return format;
  return std::nullopt;
}

Value createPacketStride(OpBuilder &builder, Location loc, const CallValues &call) {
  return roundUp(builder, loc, call.count, call.alignment);
}

Value createSlotSize(OpBuilder &builder, Location loc, const CallValues &call, Value chunksPerBlock) {
  Value one = createConstant(builder, loc, 1);
  Value quotient = ceilDiv(builder, loc, call.count, arith::MaxSIOp::create(builder, loc, chunksPerBlock, one));
  Value padded = createAdd(builder, loc, quotient, createSub(builder, loc, call.alignment, one));
  return roundUp(builder, loc, padded, call.alignment);
}

/// Elements from one block, or slot, to the next.
static Value createBlockElements(OpBuilder &builder, Location loc, const CallValues &call, const BufferShape &buffer) {
  if (buffer.cut)
    return createSlotSize(builder, loc, call, buffer.cut);
  return buffer.stride ? buffer.stride : call.count;
}

/// `each` for every block.
static Value createForAllBlocks(OpBuilder &builder, Location loc, const BufferShape &buffer, Value each) {
  for (Value extent : ArrayRef(buffer.grid).take_front(buffer.numBlockDims))
    each = createMul(builder, loc, each, extent);
  return each;
}

Value createNumElements(OpBuilder &builder, Location loc, const CallValues &call, const BufferShape &buffer) {
  return createForAllBlocks(builder, loc, buffer, createBlockElements(builder, loc, call, buffer));
}

Value createNumChunks(OpBuilder &builder, Location loc, const BufferShape &buffer) {
  Value number = createConstant(builder, loc, 1);
  for (Value extent : buffer.grid)
    number = createMul(builder, loc, number, extent);
  return number;
}

/// Of so many whole granules.
static Value createGranuleBytes(OpBuilder &builder, Location loc, const codec::Codec &codec, Value numElements) {
  Value granules = arith::DivUIOp::create(builder, loc, numElements, createConstant(builder, loc, codec::granule));
  return createMul(builder, loc, granules, createConstant(builder, loc, codec::bytes(codec, codec::granule)));
}

Value createEncodedBytes(OpBuilder &builder, Location loc, const codec::Codec &codec, Value numElements) {
  auto constant = [&](int64_t value) { return createConstant(builder, loc, value); };
  auto wholeUnits = [&](Value number, int64_t perUnit) {
    return createMul(builder, loc, ceilDiv(builder, loc, number, constant(perUnit)), constant(16));
  };
  Value whole = createGranuleBytes(builder, loc, codec, numElements);
  Value rest = arith::RemUIOp::create(builder, loc, numElements, constant(codec::granule));
  Value tail = wholeUnits(createMul(builder, loc, rest, constant(codec::bitsOf(codec.element()))), 128);
  if (codec::isScaled(codec))
    tail = createAdd(builder, loc, tail, wholeUnits(rest, codec.block() * 16 / codec::bytesOf(codec.scale())));
  if (codec.scale() == codec::Scale::E4M3) // one unit if there is an element
    tail = createAdd(builder, loc, tail, wholeUnits(rest, codec::granule));
  return createAdd(builder, loc, whole, tail);
}

Value createChunkBytes(OpBuilder &builder, Location loc, const CallValues &call, const BufferShape &buffer,
                       Value numElements) {
  return codec::isNone(buffer.codec) ? createMul(builder, loc, numElements, call.elementBytes)
                                     : createEncodedBytes(builder, loc, buffer.codec, numElements);
}

BlockPosition createBlockPosition(OpBuilder &builder, Location loc, const CallValues &call, const BufferShape &buffer,
                                  Value number) {
  Value each = createBlockElements(builder, loc, call, buffer);
  each = arith::MaxSIOp::create(builder, loc, each, createConstant(builder, loc, 1));
  return {arith::DivUIOp::create(builder, loc, number, each), arith::RemUIOp::create(builder, loc, number, each)};
}

/// Of the data, also where it lies in packets. Ranges begin where granules do, but for empty ones, which packets have.
static Value createDataBytesTo(OpBuilder &builder, Location loc, const CallValues &call, const BufferShape &buffer,
                               Value element) {
  if (codec::isNone(buffer.codec))
    return createMul(builder, loc, element, call.elementBytes);
  if (buffer.packets) // whose blocks are whole granules
    return createEncodedBytes(builder, loc, buffer.codec, element);
  if (buffer.numBlockDims == 0 || buffer.cut) // likewise slots; or there is one block
    return createGranuleBytes(builder, loc, buffer.codec, element);
  BlockPosition at = createBlockPosition(builder, loc, call, buffer, element);
  Value each = createEncodedBytes(builder, loc, buffer.codec, createBlockElements(builder, loc, call, buffer));
  return createAdd(builder, loc, createMul(builder, loc, at.block, each),
                   createGranuleBytes(builder, loc, buffer.codec, at.element));
}

Value createFilledPackets(OpBuilder &builder, Location loc, const CallValues &call, const BufferShape &buffer,
                          Value element) {
  constexpr int64_t unitBytes = 16;
  Value bytes = createDataBytesTo(builder, loc, call, buffer, element);
  Value units = ceilDiv(builder, loc, bytes, createConstant(builder, loc, unitBytes));
  int64_t dataBytes = buffer.packets->dataBytes, common = std::gcd(unitBytes, dataBytes), divisor = dataBytes / common;
  Value product = createMul(builder, loc, units, createConstant(builder, loc, unitBytes / common));
  return divisor == 1 ? product : arith::DivUIOp::create(builder, loc, product, createConstant(builder, loc, divisor));
}

Value createNumPackets(OpBuilder &builder, Location loc, const CallValues &call, const BufferShape &buffer,
                       Value parts) {
  Value elements = createNumElements(builder, loc, call, buffer);
  Value numParts = createMul(builder, loc, createNumChunks(builder, loc, buffer), parts);
  return createAdd(builder, loc, createFilledPackets(builder, loc, call, buffer, elements), numParts);
}

Value createBytesTo(OpBuilder &builder, Location loc, const CallValues &call, const BufferShape &buffer, Value number) {
  return buffer.packets ? createMul(builder, loc, number, createConstant(builder, loc, buffer.packets->bytes))
                        : createDataBytesTo(builder, loc, call, buffer, number);
}

/// Bytes of one buffer, rounded up so that the next one begins aligned.
static Value createPaddedBytes(OpBuilder &builder, Location loc, const CallValues &call, BufferRole role,
                               const BufferShape &shape) {
  Value bytes;
  if (shape.packets) {
    bytes = createBytesTo(builder, loc, call, shape, createNumPackets(builder, loc, call, shape, call.numLanes));
  } else {
    Value blockElements = createBlockElements(builder, loc, call, shape);
    bytes = createForAllBlocks(builder, loc, shape, createChunkBytes(builder, loc, call, shape, blockElements));
  }
  return roundUp(builder, loc, bytes, createConstant(builder, loc, alignmentBytesOf(role, shape)));
}

PlacedBuffer BufferLayout::place(OpBuilder &builder, Location loc, const CallValues &call, BufferOp buffer,
                                 const IRMapping &mapping) {
  BufferRole role = hasInboxes ? buffer.getRole() : memoryOf(buffer.getRole());
  BufferShape shape{llvm::map_to_vector<6>(buffer.getGrid(), [&](Value extent) { return mapping.lookup(extent); }),
                    unsigned(buffer.getBlocks()),
                    mapping.lookupOrNull(buffer.getCut()),
                    Value(),
                    packetFormatOf(buffer),
                    codecOf(buffer)};
  if (isOfCaller(role)) {
    shape.stride = call.blockElements[size_t(role)];
    return {role, std::move(shape), createConstant(builder, loc, 0)};
  }
  if (shape.packets)
    shape.stride = call.packetStride;
  Value offset = end(builder, loc, role);
  Value &end = ends[size_t(role)] = createAdd(builder, loc, offset, createPaddedBytes(builder, loc, call, role, shape));
  if (std::optional<int64_t> number = call.hasNotes ? notesPerLane(buffer) : std::nullopt) {
    shape.notes = end;
    Value perChunk = createMul(builder, loc, call.numLanes, createConstant(builder, loc, 8 * *number));
    Value bytes = createMul(builder, loc, createNumChunks(builder, loc, shape), perChunk);
    end = createAdd(builder, loc, end,
                    roundUp(builder, loc, bytes, createConstant(builder, loc, alignmentBytesOf(role, shape))));
  }
  return {role, std::move(shape), offset};
}

Value BufferLayout::end(OpBuilder &builder, Location loc, BufferRole role) const {
  Value end = ends[size_t(role)];
  return end ? end : createConstant(builder, loc, 0);
}

} // namespace kolo
