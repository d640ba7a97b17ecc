#include "call/Semaphores.h"

#include <new>

namespace kolo::runtime {

Status Semaphores::allocate(SegmentTable &segments, bool isSparse) {
  size_t count = static_cast<size_t>(numSemaphores) * static_cast<size_t>(numRanks) * static_cast<size_t>(numLanes);
  sent = SparseArray<uint64_t>(count);
  awaited = SparseArray<uint64_t>(count);
  if (count == 0)
    return {};
  Result<std::unique_ptr<Segment>> created =
      isSparse ? segments.createSparse(count * sizeof(Cell)) : segments.create(count * sizeof(Cell));
  if (!created.isOk())
    return created.status();
  segment = std::move(created).value();
  areSparse = isSparse;
  own = reinterpret_cast<Cell *>(segment->data());
  for (size_t i = 0; !isSparse && i < count; ++i) // zeros are cells
    new (&own[i]) Cell{};
  return {};
}

Location Semaphores::location(const SegmentTable &segments) const {
  return segment ? segments.locate(segment->data(), segment->sizeBytes()).value_or(Location{}) : Location{};
}

} // namespace kolo::runtime
