// Leave: how a rank says goodbye to its peers.
#pragma once

#include "network/tcp/ConnectionTable.h"

#include <chrono>
#include <functional>

namespace kolo::runtime::tcp {

/// Says goodbye, and waits until the peers' kernels have all that was said. Peers that take nothing are given up after
/// the timeout; those of which one connection is broken, at once. After a failure only mails get time, and little:
/// peers must learn its cause before they see that this rank has ended. `mustStop`: whether there was one; may be null.
void leave(ConnectionTable &connections, const std::function<bool()> &mustStop, std::chrono::milliseconds timeout);

} // namespace kolo::runtime::tcp
