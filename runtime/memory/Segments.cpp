#include "memory/Segments.h"

#include "base/Error.h"

#include <algorithm>

namespace kolo::runtime {

Segment::~Segment() { table->forget(*this); }

Result<std::unique_ptr<Segment>> SegmentTable::create(size_t sizeBytes) {
  Result<Memory> memory =
      kind == RankKind::Threads ? Memory::createPrivate(sizeBytes) : Memory::createShared(sizeBytes);
  if (!memory.isOk())
    return memory.status();
  return add(std::make_shared<Memory>(std::move(memory).value()));
}

Result<std::unique_ptr<Segment>> SegmentTable::reserve(size_t sizeBytes) {
  Result<Memory> memory = Memory::reserveShared(sizeBytes);
  if (!memory.isOk())
    return memory.status();
  return add(std::make_shared<Memory>(std::move(memory).value()));
}

Result<std::unique_ptr<Segment>> SegmentTable::createSparse(size_t sizeBytes) {
  Result<Memory> memory = Memory::createSparse(sizeBytes, 0);
  if (!memory.isOk())
    return memory.status();
  std::unique_ptr<Segment> made = add(std::make_shared<Memory>(std::move(memory).value()));
  made->isSparse = true;
  return made;
}

std::unique_ptr<Segment> SegmentTable::adopt(const Segment &other) {
  std::unique_ptr<Segment> adopted = add(other.memory);
  adopted->keepDescriptor();
  return adopted;
}

std::unique_ptr<Segment> SegmentTable::add(std::shared_ptr<Memory> memory) {
  std::scoped_lock lock(mutex);
  auto segment = std::make_unique<Segment>(shared_from_this(), std::move(memory), nextId++);
  byAddress.emplace(segment->data(), segment.get());
  released.reserve(byAddress.size() + released.size()); // so that a destructor need not allocate
  changes.fetch_add(1, std::memory_order_release);
  return segment;
}

std::optional<Location> SegmentTable::locate(const void *pointer, size_t sizeBytes) const {
  Location location;
  location.sizeBytes = sizeBytes;
  const auto *begin = static_cast<const std::byte *>(pointer);
  if (kind == RankKind::Threads) {
    location.kind = LocationKind::Direct;
    location.addressOrOffset = reinterpret_cast<uintptr_t>(begin);
    return location;
  }
  std::scoped_lock lock(mutex);
  auto above = byAddress.upper_bound(begin);
  if (above == byAddress.begin())
    return std::nullopt;
  const Segment &segment = *std::prev(above)->second;
  auto offset = static_cast<size_t>(begin - segment.data());
  if (offset >= segment.sizeBytes() || sizeBytes > segment.sizeBytes() - offset)
    return std::nullopt;
  location.kind = LocationKind::Segment;
  location.addressOrOffset = offset;
  location.segmentId = segment.id;
  location.segmentBytes = segment.sizeBytes();
  location.segmentFd = segment.memory->fd();
  location.isSparse = segment.isSparse;
  return location;
}

Segment *SegmentTable::find(uint64_t id) const {
  for (const auto &[address, segment] : byAddress)
    if (segment->id == id)
      return segment;
  return nullptr;
}

bool SegmentTable::isNews(const Location &location) const {
  if (location.kind != LocationKind::Segment)
    return false;
  std::scoped_lock lock(mutex);
  const Segment *segment = find(location.segmentId);
  return segment && !segment->isConfirmed;
}

void SegmentTable::setConfirmed(const Location &location) {
  if (location.kind != LocationKind::Segment)
    return;
  std::scoped_lock lock(mutex);
  Segment *segment = find(location.segmentId);
  if (!segment)
    return;
  segment->isConfirmed = true;
  if (!segment->keepsDescriptor)
    segment->memory->closeDescriptor();
}

size_t SegmentTable::takeReleased(std::span<uint64_t> ids) {
  std::scoped_lock lock(mutex);
  size_t count = std::min(released.size(), ids.size());
  std::copy_n(released.begin(), count, ids.begin());
  released.erase(released.begin(), released.begin() + static_cast<std::ptrdiff_t>(count));
  if (!released.empty())
    changes.fetch_add(1, std::memory_order_release);
  return count;
}

bool SegmentTable::hasReleased() const {
  std::scoped_lock lock(mutex);
  return !released.empty();
}

void SegmentTable::forget(const Segment &segment) {
  std::scoped_lock lock(mutex);
  byAddress.erase(segment.data());
  if (kind == RankKind::Processes)
    released.push_back(segment.id);
  changes.fetch_add(1, std::memory_order_release);
}

} // namespace kolo::runtime
