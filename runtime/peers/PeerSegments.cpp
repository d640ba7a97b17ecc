#include "peers/PeerSegments.h"

namespace kolo::runtime {

Result<std::byte *> PeerSegments::resolve(int peer, const Location &location) {
  if (location.kind == LocationKind::Direct)
    return reinterpret_cast<std::byte *>(location.addressOrOffset);
  if (location.kind != LocationKind::Segment)
    return nullptr;
  auto [entry, isNew] = mapped.try_emplace({peer, location.segmentId});
  if (isNew) {
    Result<Memory> memory =
        Memory::openPeer(peers.block(peer).pid.load(), location.segmentFd, location.segmentBytes, location.isSparse);
    if (!memory.isOk()) {
      mapped.erase(entry);
      return memory.status();
    }
    entry->second = std::make_shared<const Memory>(std::move(memory).value());
  }
  return entry->second->data() + location.addressOrOffset;
}

std::shared_ptr<const Memory> PeerSegments::mapping(int peer, const Location &location) const {
  auto entry = mapped.find({peer, location.segmentId});
  return entry == mapped.end() ? nullptr : entry->second;
}

void PeerSegments::release(int peer, const Record &record) {
  for (int index = 0; index < record.numReleased; ++index)
    mapped.erase({peer, record.released[index]});
}

} // namespace kolo::runtime
