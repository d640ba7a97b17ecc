// Buffers, slices and the pieces they consist of.
#include "ir/reference/Memory.h"

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

llvm::Error Memory::add(BufferOp op, const Scope &scope) {
  Layout layout{scope[op.getGrid()], int64_t(op.getBlocks()), world.count, elementBytes(world.type)};
  if (llvm::any_of(layout.grid, [](int64_t extent) { return extent < 0; }) || hasTooManyChunks(layout.grid))
    return scope.fail(op, "a grid extent is negative, or there are more than " + Twine(maxChunks) + " chunks");
  if (op.getRole() != BufferRole::Scratch && layout.numBlocks() != numBlocks(world, op.getRole()))
    return scope.fail(op, "buffer '" + op.getName() + "' has " + Twine(layout.numBlocks()) +
                              " blocks, the call's has " + Twine(numBlocks(world, op.getRole())));
  auto known = buffers.find(op);
  if (known != buffers.end())
    return known->second.layout == layout ? llvm::Error::success()
                                          : scope.fail(op, "the buffer is not the same on every rank");
  Buffer buffer{op.getRole(), layout, {}};
  if (op.getRole() == BufferRole::Scratch)
    buffer.scratch.assign(numRanks(world), Bytes(layout.numElements() * layout.elementBytes, poison));
  buffers.emplace(op, std::move(buffer));
  return llvm::Error::success();
}

llvm::Expected<std::vector<Piece>> Memory::chunks(Operation *op, const Scope &scope, Slice slice) const {
  auto buffer = buffers.find(slice.buffer.getDefiningOp());
  if (buffer == buffers.end())
    return scope.fail(op, "a buffer must be named directly, not passed through control flow");
  const Layout &layout = buffer->second.layout;
  std::vector<int64_t> offsets = scope[slice.offsets], sizes = scope[slice.sizes];
  for (auto [size, extent] : llvm::zip_equal(sizes, layout.grid))
    if (size < 0 || size > extent)
      return scope.fail(op, "a slice of " + Twine(size) + " chunks in a grid dimension of " + Twine(extent));
  std::vector<Piece> result;
  for (int64_t chunk : layout.chunksOf(offsets, sizes))
    result.push_back({slice.buffer, layout.chunk(chunk)});
  return result;
}

llvm::Error Memory::cutParts(Operation *op, const Scope &scope, Part part, std::vector<Piece> &pieces) const {
  if (!part.parts)
    return llvm::Error::success();
  int64_t number = scope[part.part], numParts = scope[part.parts];
  if (number < 0 || number >= numParts)
    return scope.fail(op, "part " + Twine(number) + " of " + Twine(numParts));
  for (Piece &piece : pieces)
    piece.elements = partOf(piece.elements, number, numParts, elementBytes(world.type));
  return llvm::Error::success();
}

llvm::Expected<std::vector<Piece>> Memory::pieces(Operation *op, const Scope &scope, Slice slice, Part part) const {
  llvm::Expected<std::vector<Piece>> result = chunks(op, scope, slice);
  if (!result)
    return result.takeError();
  if (llvm::Error error = cutParts(op, scope, part, *result))
    return error;
  return result;
}

/// Sizes of the ranged dimensions, which are paired in order.
static std::vector<int64_t> rangedSizes(const Scope &scope, ValueRange sizes) {
  return scope[ValueRange(llvm::to_vector(llvm::make_filter_range(sizes, isRanged)))];
}

llvm::Expected<std::vector<PiecePair>> Memory::pairs(Operation *op, const Scope &scope, Slice source, Slice destination,
                                                     Part part) const {
  llvm::Expected<std::vector<Piece>> from = chunks(op, scope, source);
  if (!from)
    return from.takeError();
  llvm::Expected<std::vector<Piece>> to = chunks(op, scope, destination);
  if (!to)
    return to.takeError();
  if (rangedSizes(scope, source.sizes) != rangedSizes(scope, destination.sizes))
    return scope.fail(op, "the source slice and the destination slice have different shapes");
  for (auto [left, right] : llvm::zip_equal(*from, *to))
    if (left.elements.size != right.elements.size)
      return scope.fail(op, "a chunk of " + Twine(left.elements.size) + " elements is paired with one of " +
                                Twine(right.elements.size));
  for (std::vector<Piece> *side : {&*from, &*to})
    if (llvm::Error error = cutParts(op, scope, part, *side))
      return error;
  std::vector<PiecePair> result;
  for (auto [left, right] : llvm::zip_equal(*from, *to))
    result.push_back({left, right});
  return result;
}

llvm::Expected<llvm::MutableArrayRef<std::byte>> Memory::at(Operation *op, const Scope &scope, const Piece &piece,
                                                            int64_t rank, Access access) {
  Buffer &buffer = buffers.at(piece.buffer.getDefiningOp());
  if (piece.elements.size == 0)
    return llvm::MutableArrayRef<std::byte>();
  if (!exists(world, buffer.role, rank))
    return scope.fail(op, "rank " + Twine(rank) + " is not the root and has no " + stringifyBufferRole(buffer.role));
  if (buffer.role == BufferRole::Input && access == Access::Write)
    return scope.fail(op, "writes an input, of rank " + Twine(rank));
  Bytes &bytes = buffer.role == BufferRole::Input    ? world.inputs[rank]
                 : buffer.role == BufferRole::Output ? world.outputs[rank]
                                                     : buffer.scratch[rank];
  int64_t size = buffer.layout.elementBytes;
  return llvm::MutableArrayRef(bytes).slice(piece.elements.begin * size, piece.elements.size * size);
}

} // namespace kolo::reference
