#include "call/Semaphores.h"

#include <new>

namespace kolo::runtime {

Status Semaphores::allocate(SegmentTable &segments) {
  size_t count = static_cast<size_t>(numSemaphores) * static_cast<size_t>(numRanks) * static_cast<size_t>(numLanes);
  sent.assign(count, 0);
  awaited.assign(count, 0);
  if (count == 0)
    return {};
  Result<std::unique_ptr<Segment>> created = segments.create(count * sizeof(Cell));
  if (!created.isOk())
    return created.status();
  segment = std::move(created).value();
  own = reinterpret_cast<Cell *>(segment->data());
  for (size_t i = 0; i < count; ++i)
    new (&own[i]) Cell{};
  return {};
}

Location Semaphores::location(const SegmentTable &segments) const {
  return segment ? segments.locate(segment->data(), segment->sizeBytes()).value_or(Location{}) : Location{};
}

} // namespace kolo::runtime
