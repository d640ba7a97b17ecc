// SocketOptions: what the kernel is told about the connections of ranks.
#pragma once

#include "network/Socket.h"

#include <algorithm>

namespace kolo::runtime::tcp {

/// A connection for mail ends where the peer's kernel confirms nothing for so long: the timeout of the rank, and at
/// least 3 s, for which networks may be interrupted.
inline int mailTimeoutMs(int timeoutMs) { return std::max(timeoutMs, 3000); }

/// An idle connection then ends about so long after the peer's host was cut off.
void keepAlive(const Socket &socket, int timeoutMs);
/// A connection for mail notices that the peer's host is cut off, after mailTimeoutMs. One for data does not: TCP would
/// end it too where a living peer does not read for so long.
void prepare(const Socket &socket, bool isForMail, int timeoutMs);

} // namespace kolo::runtime::tcp
