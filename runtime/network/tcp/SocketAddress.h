// SocketAddress: addresses as the kernel takes them, and sockets that listen at them.
#pragma once

#include "network/Socket.h"
#include "network/tcp/Wire.h"

#include <sys/socket.h>

#include <string>

namespace kolo::runtime::tcp {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t sizeBytes = sizeof(sockaddr_storage);
  sockaddr *get() { return reinterpret_cast<sockaddr *>(&storage); }
};

SocketAddress toSocketAddress(const HostAddress &address);

/// Makes a non-blocking listening socket at a numeric address, and tells where it is. InvalidArgument: not a numeric
/// address. SystemError: not an address of this host, or no port is left.
Result<Socket> listenAtHost(const std::string &host, HostAddress &address);

} // namespace kolo::runtime::tcp
