// The memory of a Call: where its buffers are, how they overlap, and how many bytes it needs besides.
#include "call/Call.h"

#include "base/Error.h"

#include <algorithm>
#include <optional>

namespace kolo::runtime {

MemoryKind CallBuffers::memoryKind(const SegmentTable &segments) const {
  bool areReachable = (inputBytes == 0 || segments.locate(input, inputBytes)) &&
                      (outputBytes == 0 || segments.locate(output, outputBytes));
  return areReachable ? MemoryKind::Windows : MemoryKind::Ordinary;
}

Status CallBuffers::checkPointers() const {
  if (inputBytes && !input)
    return error(StatusCode::InvalidArgument, "input is null, this rank reads {} bytes", inputBytes);
  if (outputBytes && !output)
    return error(StatusCode::InvalidArgument, "output is null, this rank writes {} bytes", outputBytes);
  return {};
}

Overlap Call::overlap() const {
  auto in = reinterpret_cast<uintptr_t>(input), out = reinterpret_cast<uintptr_t>(output);
  if (!inputBytes || !outputBytes || in >= out + outputBytes || out >= in + inputBytes)
    return Overlap::None;
  const std::optional<int64_t> elements = tables ? tables->inPlaceElements : inPlaceOffset * key.count;
  const bool isInPlace = elements && static_cast<int64_t>(in - out) == *elements * elementBytes;
  return isInPlace ? Overlap::InPlace : Overlap::Other;
}

size_t Call::accessedBytes() const {
  return overlap() == Overlap::None ? inputBytes + outputBytes : std::max(inputBytes, outputBytes);
}

bool Call::mustCopyInput() const {
  Overlap found = overlap();
  return found == Overlap::Other || (found == Overlap::InPlace && info->inPlace != InPlace::Direct);
}

KoloShape Call::shapeFor(int64_t count) const {
  KoloShape shape = {};
  std::copy_n(dimSizes, KOLO_MAX_MESH_DIMS, shape.dimSizes);
  shape.count = count;
  shape.elementBytes = elementBytes;
  shape.numLanes = numLanes;
  return shape;
}

int64_t Call::scratchBytesFor(int64_t count) const {
  KoloShape shape = shapeFor(count);
  return program->scratchBytes(&shape);
}

int64_t Call::publishedBytesFor(int64_t count) const {
  KoloShape shape = shapeFor(count);
  return program->publishedBytes(&shape);
}

int64_t Call::packetBytesFor(int64_t count) const {
  KoloShape shape = shapeFor(count);
  return program->packetBytes(&shape);
}

} // namespace kolo::runtime
