#include "Buffers.h"

#include "Error.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kolo::runtime {
namespace {

// Attach walks pages in the kernel for every transfer, staging copies on each side: below this, staging wins.
constexpr size_t leastAttachBytes = size_t(1) << 24;
constexpr size_t alignmentBytes = 4096;

size_t aligned(size_t sizeBytes) { return (sizeBytes + alignmentBytes - 1) / alignmentBytes * alignmentBytes; }

/// Directly usable, or attached, or nothing: to be staged.
std::optional<Location> locateForPeers(const SegmentTable &segments, std::byte *pointer, size_t sizeBytes,
                                       OrdinaryMemory ordinaryMemory) {
  if (sizeBytes == 0)
    return Location{};
  if (std::optional<Location> location = segments.locate(pointer, sizeBytes))
    return location;
  bool isAttached = ordinaryMemory == OrdinaryMemory::Attach ||
                    (ordinaryMemory == OrdinaryMemory::Auto && sizeBytes >= leastAttachBytes);
  if (!isAttached)
    return std::nullopt;
  Location location;
  location.kind = LocationKind::Attach;
  location.addressOrOffset = reinterpret_cast<uintptr_t>(pointer);
  location.sizeBytes = sizeBytes;
  return location;
}

} // namespace

Result<std::byte *> Arena::reserve(SegmentTable &segments, size_t sizeBytes) {
  if (segment && segment->sizeBytes() >= sizeBytes)
    return segment->data();
  constexpr size_t leastBytes = size_t(1) << 16, mostDoubledBytes = size_t(1) << 26;
  size_t grown = sizeBytes <= mostDoubledBytes ? std::bit_ceil(std::max(sizeBytes, leastBytes)) : aligned(sizeBytes);
  segment.reset(); // first, so that the two need not fit together
  Result<std::unique_ptr<Segment>> created = segments.create(grown);
  if (!created.isOk())
    return created.status();
  segment = std::move(created).value();
  return segment->data();
}

Result<Buffers> placeBuffers(const Call &call, SegmentTable &segments, Arena &arena, OrdinaryMemory ordinaryMemory) {
  std::byte *const pointers[] = {call.input, call.output, nullptr};
  const size_t sizes[] = {call.inputBytes, call.outputBytes, call.scratchBytes};
  Buffers buffers;
  bool isStaged[KOLO_NUM_BUFFER_ROLES] = {};
  size_t arenaBytes = 0;
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    std::optional<Location> location;
    if (sizes[role] == 0)
      location = Location{};
    else if (role != KOLO_SCRATCH && !(role == KOLO_INPUT && call.mustCopyInput))
      location = locateForPeers(segments, pointers[role], sizes[role], ordinaryMemory);
    isStaged[role] = !location;
    if (location) {
      buffers.remote[role] = *location;
      buffers.local[role] = pointers[role];
    } else if (sizes[role] > PTRDIFF_MAX - alignmentBytes || arenaBytes > PTRDIFF_MAX - aligned(sizes[role])) {
      return error(StatusCode::OutOfMemory, "a call that needs more than {} bytes of scratch", PTRDIFF_MAX);
    } else {
      arenaBytes += aligned(sizes[role]);
    }
  }
  if (arenaBytes == 0)
    return buffers;
  Result<std::byte *> reserved = arena.reserve(segments, arenaBytes);
  if (!reserved.isOk())
    return reserved.status();
  std::byte *next = *reserved;
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    if (!isStaged[role])
      continue;
    buffers.local[role] = next;
    buffers.remote[role] = *segments.locate(next, sizes[role]);
    next += aligned(sizes[role]);
  }
  buffers.isInputStaged = isStaged[KOLO_INPUT];
  buffers.isOutputStaged = isStaged[KOLO_OUTPUT];
  return buffers;
}

void Buffers::copyIn(const Call &call) const {
  if (isInputStaged)
    std::memcpy(local[KOLO_INPUT], call.input, call.inputBytes);
}

void Buffers::copyOut(const Call &call) const {
  if (isOutputStaged)
    std::memcpy(call.output, local[KOLO_OUTPUT], call.outputBytes);
}

} // namespace kolo::runtime
