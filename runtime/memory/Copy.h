// Copy: copies inside this process and to and from a peer process, and the size of the caches that decides between
// them.
#pragma once

#include "kolo/runtime/Status.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace kolo::runtime {

/// Copies with ordinary stores.
void copyCached(std::byte *dst, const std::byte *src, size_t sizeBytes);
/// Copies with non-temporal stores where the processor has them. Threads that synchronise with this one afterwards see
/// the data.
void copyNonTemporal(std::byte *dst, const std::byte *src, size_t sizeBytes);

enum class Direction : uint8_t { ToPeer, FromPeer };

/// Cross-memory attach: the kernel copies all bytes to or from ordinary memory of process `pid`. SystemError, PeerLost
/// (the process has ended).
Status copyAttached(Direction direction, pid_t pid, uint64_t remoteAddress, void *local, size_t sizeBytes);

/// Bytes of the largest cache that processor 0 uses, as the kernel describes it; 32 MiB where the kernel does not.
size_t lastLevelCacheBytes();

} // namespace kolo::runtime
