#include "call/HeldMemory.h"

#include <utility>

namespace kolo::runtime {

void HeldMemory::end(uint64_t exchange) {
  if (!holding.hasBegun())
    return;
  lastHeld = exchange;
  holding.end();
}

Status HeldMemory::reservePublished(Buffers &buffers, int numRanks) {
  if (Status status = holding.begin(); !status.isOk())
    return status;
  if (!published) {
    Result<std::unique_ptr<Segment>> created =
        holding.create(*segments, 2 * publishedTurnBytes(numRanks, holding.numOthers()));
    if (!created.isOk())
      return created.status();
    published = std::move(created).value();
  }
  buffers.remote[KOLO_PUBLISHED] = *segments->locate(published->data(), published->sizeBytes());
  buffers.local[KOLO_PUBLISHED] = published->data();
  return {};
}

Status HeldMemory::reservePackets(const Call &call, Buffers &buffers) {
  auto sizeBytes = 2 * static_cast<size_t>(call.packetBytesFor(buffers.pieces.count));
  if (sizeBytes == 0)
    return {};
  Result<std::byte *> reserved = (call.info->usesLL128 ? ll128Lines : llPackets).reserve(*segments, holding, sizeBytes);
  if (!reserved.isOk())
    return reserved.status();
  buffers.local[KOLO_PACKETS] = *reserved;
  buffers.remote[KOLO_PACKETS] = *segments->locate(*reserved, sizeBytes);
  return {};
}

void HeldMemory::dropReplaced() {
  for (Arena *each : {&arena, &wideBuffers, &llPackets, &ll128Lines})
    each->dropReplaced(holding);
}

std::vector<std::shared_ptr<Segment>> HeldMemory::release() {
  std::vector<std::shared_ptr<Segment>> all;
  all.emplace_back(std::move(published));
  for (Arena *each : {&arena, &llPackets, &ll128Lines})
    all.emplace_back(each->release());
  std::erase(all, nullptr);
  return all;
}

} // namespace kolo::runtime
