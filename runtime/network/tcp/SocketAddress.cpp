#include "network/tcp/SocketAddress.h"

#include "base/Error.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <cstring>
#include <memory>

namespace kolo::runtime::tcp {
namespace {

HostAddress fromSocketAddress(const SocketAddress &address) {
  HostAddress result;
  result.isIpv6 = address.storage.ss_family == AF_INET6;
  if (result.isIpv6) {
    const auto &ipv6 = reinterpret_cast<const sockaddr_in6 &>(address.storage);
    result.port = ntohs(ipv6.sin6_port);
    result.scope = ipv6.sin6_scope_id;
    std::memcpy(result.host.data(), &ipv6.sin6_addr, sizeof(ipv6.sin6_addr));
    return result;
  }
  const auto &ipv4 = reinterpret_cast<const sockaddr_in &>(address.storage);
  result.port = ntohs(ipv4.sin_port);
  std::memcpy(result.host.data(), &ipv4.sin_addr, sizeof(ipv4.sin_addr));
  return result;
}

} // namespace

SocketAddress toSocketAddress(const HostAddress &address) {
  SocketAddress result;
  if (address.isIpv6) {
    auto &ipv6 = reinterpret_cast<sockaddr_in6 &>(result.storage);
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(address.port);
    ipv6.sin6_scope_id = address.scope;
    std::memcpy(&ipv6.sin6_addr, address.host.data(), sizeof(ipv6.sin6_addr));
    result.sizeBytes = sizeof(ipv6);
    return result;
  }
  auto &ipv4 = reinterpret_cast<sockaddr_in &>(result.storage);
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(address.port);
  std::memcpy(&ipv4.sin_addr, address.host.data(), sizeof(ipv4.sin_addr));
  result.sizeBytes = sizeof(ipv4);
  return result;
}

Result<Socket> listenAtHost(const std::string &host, HostAddress &address) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0)
    return error(StatusCode::InvalidArgument, "'{}' is not a numeric address", host);
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> entry(found, freeaddrinfo);
  Socket opened(socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  SocketAddress own;
  if (!opened.isOpen() || bind(opened.descriptor(), entry->ai_addr, entry->ai_addrlen) != 0 ||
      listen(opened.descriptor(), SOMAXCONN) != 0 || getsockname(opened.descriptor(), own.get(), &own.sizeBytes) != 0)
    return systemError(fmt::format("listening at {}", host), errno);
  address = fromSocketAddress(own);
  return opened;
}

} // namespace kolo::runtime::tcp
