// Buffers, slices and the pieces they consist of.
#include "ir/reference/Memory.h"
#include "ir/reference/Conversion.h"

using namespace mlir;

namespace kolo::reference {

/// Far more than a test ever asks for, and few enough that no product below overflows.
static constexpr int64_t maxChunks = int64_t(1) << 24;

static bool hasTooManyChunks(llvm::ArrayRef<int64_t> grid) {
  int64_t numChunks = 1;
  for (int64_t extent : grid)
    if (extent > 0 && (extent > maxChunks || (numChunks *= extent) > maxChunks))
      return true;
  return false;
}

/// How many of a buffer there are, for invocations to use in turn.
static int64_t numTurns(BufferRole role) {
  return role == BufferRole::Published || role == BufferRole::Packets ? 2 : 1;
}

llvm::Error Memory::add(BufferOp op, const Scope &scope) {
  Layout layout{scope[op.getGrid()], int64_t(op.getBlocks()), simulated.count, unit};
  if (op.getCut())
    layout.slotCut = scope[op.getCut()];
  if (llvm::any_of(layout.grid, [](int64_t extent) { return extent < 0; }) || hasTooManyChunks(layout.grid))
    return scope.fail(op, "a grid extent is negative, or there are more than " + Twine(maxChunks) + " chunks");
  if (isOfCaller(op.getRole()) && layout.numBlocks() != numBlocks(simulated, op.getRole()))
    return scope.fail(op, "buffer '" + op.getName() + "' has " + Twine(layout.numBlocks()) +
                              " blocks, the call's has " + Twine(numBlocks(simulated, op.getRole())));
  auto known = buffers.find(op);
  if (known != buffers.end())
    return known->second.layout == layout ? llvm::Error::success()
                                          : scope.fail(op, "the buffer is not the same on every rank");
  Buffer buffer{op.getRole(), layout, codecOf(op), {}};
  if (!isOfCaller(op.getRole()))
    buffer.lengths.resize(numRanks(simulated) * numTurns(op.getRole()));
  if (!isOfCaller(op.getRole()))
    buffer.scratch.assign(numRanks(simulated) * numTurns(op.getRole()),
                          Bytes(layout.numBlocks() * bytesOf(buffer, layout.blockSize()), poison));
  buffers.emplace(op, std::move(buffer));
  return llvm::Error::success();
}

llvm::Expected<std::vector<ChunkPart>> Memory::chunks(Operation *op, const Scope &scope, Slice slice) const {
  auto buffer = buffers.find(slice.buffer.getDefiningOp());
  if (buffer == buffers.end())
    return scope.fail(op, "a buffer must be named directly, not passed through control flow");
  const Layout &layout = buffer->second.layout;
  std::vector<int64_t> offsets = scope[slice.offsets], sizes = scope[slice.sizes];
  for (auto [size, extent] : llvm::zip_equal(sizes, layout.grid))
    if (size < 0 || size > extent)
      return scope.fail(op, "a slice of " + Twine(size) + " chunks in a grid dimension of " + Twine(extent));
  std::vector<ChunkPart> result;
  for (int64_t chunk : layout.chunksOf(offsets, sizes))
    result.push_back({slice.buffer, layout.chunk(chunk), chunk});
  return result;
}

llvm::Error Memory::matchSizes(Operation *op, const Scope &scope, ChunkPart &source, ChunkPart &destination) const {
  const Layout &from = layoutOf(source.buffer), &to = layoutOf(destination.buffer);
  if (from.slotCut || to.slotCut) {
    if (from.chunksPerBlock() != to.chunksPerBlock())
      return scope.fail(op, "a chunk of a block cut into " +
                                Twine(from.slotCut ? to.chunksPerBlock() : from.chunksPerBlock()) +
                                " is paired with a slot for chunks of blocks cut into " +
                                Twine(from.slotCut ? *from.slotCut : *to.slotCut));
    (from.slotCut ? source : destination).elements.size = (from.slotCut ? destination : source).elements.size;
  }
  if (source.elements.size != destination.elements.size)
    return scope.fail(op, "a chunk of " + Twine(source.elements.size) + " elements is paired with one of " +
                              Twine(destination.elements.size));
  return llvm::Error::success();
}

llvm::Expected<std::pair<int64_t, int64_t>> Memory::numbersOf(Operation *op, const Scope &scope, Part part) const {
  if (!part.parts)
    return std::pair<int64_t, int64_t>(0, 1);
  int64_t number = scope[part.part], numParts = scope[part.parts];
  if (number < 0 || number >= numParts)
    return scope.fail(op, "part " + Twine(number) + " of " + Twine(numParts));
  return std::pair(number, numParts);
}

Range Memory::cutPart(const ChunkPart &piece, std::pair<int64_t, int64_t> part) const {
  return partOf(piece.elements, layoutOf(piece.buffer).slotSize(), part.first, part.second, unit);
}

llvm::Expected<std::vector<ChunkPart>> Memory::pieces(Operation *op, const Scope &scope, Slice slice, Part part,
                                                      LengthOfPiece lengthOf) const {
  llvm::Expected<std::vector<ChunkPart>> result = chunks(op, scope, slice);
  if (!result)
    return result.takeError();
  auto numbers = numbersOf(op, scope, part);
  if (!numbers)
    return numbers.takeError();
  for (ChunkPart &piece : *result) {
    piece.part = numbers->first;
    llvm::Expected<int64_t> length = hasTables(simulated) ? lengthOf(piece) : simulated.count;
    if (!length)
      return length.takeError();
    setLength(piece, *length);
    piece.elements = cutPart(piece, *numbers);
  }
  return result;
}

/// Sizes of the ranged dimensions, which are paired in order.
static std::vector<int64_t> rangedSizes(const Scope &scope, ValueRange sizes) {
  return scope[ValueRange(llvm::to_vector(llvm::make_filter_range(sizes, isRanged)))];
}

void Memory::setLength(ChunkPart &piece, int64_t length) const {
  piece.blockLength = length;
  piece.elements = layoutOf(piece.buffer).chunk(piece.chunk, length);
}

int64_t Memory::lengthByTable(BufferRole table, const ChunkPart &piece, int64_t rank) const {
  return blockRange(simulated, table, rank, layoutOf(piece.buffer).blockOf(piece.chunk)).size;
}

llvm::Expected<int64_t> Memory::lengthHeld(Operation *op, const Scope &scope, const ChunkPart &piece, int64_t rank,
                                           int64_t invocation) const {
  const Buffer &buffer = buffers.at(piece.buffer.getDefiningOp());
  if (isOfCaller(buffer.role))
    return lengthByTable(buffer.role, piece, rank);
  const int64_t turns = numTurns(buffer.role);
  const auto &lengths = buffer.lengths[rank * turns + invocation % turns];
  auto found = lengths.find({piece.chunk, piece.part});
  if (found == lengths.end())
    return scope.fail(op, "no block lies whole in chunk " + Twine(piece.chunk) + " of memory of rank " + Twine(rank));
  return found->second;
}

llvm::Error Memory::touchLength(Operation *op, const Scope &scope, const ChunkPart &piece, int64_t rank,
                                int64_t invocation, Access access) {
  Buffer &buffer = buffers.at(piece.buffer.getDefiningOp());
  if (isOfCaller(buffer.role) || access != Access::Write) {
    llvm::Expected<int64_t> held = lengthHeld(op, scope, piece, rank, invocation);
    if (!held)
      return held.takeError();
    return *held == piece.blockLength
               ? llvm::Error::success()
               : scope.fail(op, "a chunk of a block of " + Twine(piece.blockLength) + " elements is moved where rank " +
                                    Twine(rank) + " has a block of " + Twine(*held));
  }
  const int64_t turns = numTurns(buffer.role);
  auto &lengths = buffer.lengths[rank * turns + invocation % turns];
  // Chunks of a longer or a shorter block do not lie where those of this one do.
  if (!buffer.layout.slotCut)
    std::erase_if(lengths, [&](const auto &other) {
      return buffer.layout.blockOf(other.first.first) == buffer.layout.blockOf(piece.chunk) &&
             other.first.second == piece.part && other.second != piece.blockLength;
    });
  lengths[{piece.chunk, piece.part}] = piece.blockLength;
  return llvm::Error::success();
}

llvm::Expected<std::vector<PartPair>> Memory::pairs(Operation *op, const Scope &scope, const Movement &movement,
                                                    LengthOfMoved lengthOf) const {
  const auto &[source, destination, part] = movement;
  llvm::Expected<std::vector<ChunkPart>> from = chunks(op, scope, source);
  if (!from)
    return from.takeError();
  llvm::Expected<std::vector<ChunkPart>> to = chunks(op, scope, destination);
  if (!to)
    return to.takeError();
  if (rangedSizes(scope, source.sizes) != rangedSizes(scope, destination.sizes))
    return scope.fail(op, "the source slice and the destination slice have different shapes");
  auto numbers = numbersOf(op, scope, part);
  if (!numbers)
    return numbers.takeError();
  std::vector<PartPair> result;
  for (auto [left, right] : llvm::zip_equal(*from, *to)) {
    left.part = right.part = numbers->first;
    llvm::Expected<int64_t> length = hasTables(simulated) ? lengthOf(left, right) : simulated.count;
    if (!length)
      return length.takeError();
    setLength(left, *length);
    setLength(right, *length);
    if (llvm::Error error = matchSizes(op, scope, left, right))
      return error;
    Range moved = cutPart(left, *numbers);
    right.elements = {right.elements.begin + moved.begin - left.elements.begin, moved.size};
    left.elements = moved;
    result.push_back({left, right});
  }
  return result;
}

llvm::Expected<llvm::MutableArrayRef<std::byte>> Memory::at(Operation *op, const Scope &scope, const ChunkPart &piece,
                                                            int64_t rank, int64_t invocation, Access access) {
  Buffer &buffer = buffers.at(piece.buffer.getDefiningOp());
  if (hasTables(simulated))
    if (llvm::Error error = touchLength(op, scope, piece, rank, invocation, access))
      return error;
  if (piece.elements.size == 0)
    return llvm::MutableArrayRef<std::byte>();
  if (!exists(simulated, buffer.role, rank)) {
    const bool isRooted = isAtRoot(simulated.collective.getKind(), buffer.role);
    return scope.fail(op, "rank " + Twine(rank) + (isRooted ? " is not the root" : " is the first of its group") +
                              " and has no " + stringifyBufferRole(buffer.role));
  }
  if (buffer.role == BufferRole::Input && access != Access::Read)
    return scope.fail(op, "writes an input, of rank " + Twine(rank));
  int64_t turns = numTurns(buffer.role);
  Bytes &bytes = buffer.role == BufferRole::Input    ? simulated.inputs[rank]
                 : buffer.role == BufferRole::Output ? simulated.outputs[rank]
                                                     : buffer.scratch[rank * turns + invocation % turns];
  int64_t block = piece.elements.begin / buffer.layout.blockSize(),
          inBlock = piece.elements.begin % buffer.layout.blockSize();
  if (hasTables(simulated) && isOfCaller(buffer.role))
    return llvm::MutableArrayRef(bytes).slice(
        bytesOf(buffer, blockRange(simulated, buffer.role, rank, block).begin + inBlock),
        bytesOf(buffer, piece.elements.size));
  return llvm::MutableArrayRef(bytes).slice(block * bytesOf(buffer, buffer.layout.blockSize()) +
                                                bytesOf(buffer, inBlock),
                                            bytesOf(buffer, piece.elements.size));
}

/// Of elements that begin at a multiple of the unit.
int64_t Memory::bytesOf(const Buffer &buffer, int64_t numElements) const {
  return codec::isNone(buffer.codec) ? numElements * elementBytes(simulated.type)
                                     : codec::bytes(buffer.codec, numElements);
}

void Memory::move(const PartPair &pieces, llvm::ArrayRef<std::byte> source,
                  llvm::MutableArrayRef<std::byte> destination, bool isCombining, int64_t sender,
                  int64_t invocation) const {
  const Buffer &from = buffers.at(pieces.source.buffer.getDefiningOp()),
               &to = buffers.at(pieces.destination.buffer.getDefiningOp());
  // The place in a slot says nothing about which element it is.
  const Range &elements = from.layout.slotCut ? pieces.destination.elements : pieces.source.elements;
  moveElements(simulated, isCombining, {from.codec, source}, to.codec, destination, elements.size,
               {uint64_t(simulated.numBefore + invocation), uint32_t(sender), uint64_t(elements.begin)});
}

} // namespace kolo::reference
