// Attach: copies to and from a peer process's ordinary memory, by the kernel, with one copy.
#pragma once

#include "kolo/runtime/Status.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace kolo::runtime {

enum class Direction : uint8_t { ToPeer, FromPeer };

/// Copies all of it. SystemError, PeerLost (the process has ended).
Status copyAttached(Direction direction, pid_t pid, uint64_t remoteAddress, void *local, size_t sizeBytes);

} // namespace kolo::runtime
