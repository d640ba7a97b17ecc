#include "network/tcp/Wire.h"

#include "base/Error.h"
#include "network/Cursor.h"

#include <algorithm>

namespace kolo::runtime::tcp {
namespace {

constexpr uint64_t helloMagic = 0x415441444f4c4f4b;    // "KOLODATA"
constexpr uint64_t endpointMagic = 0x005043544f4c4f4b; // "KOLOTCP"

Status checkVersion(uint16_t version) {
  if (version != wireVersion)
    return error(StatusCode::Mismatch, "version {} of the network protocol, not version {}", version, wireVersion);
  return {};
}

/// Whether the fields that this kind does not use are 0, and the others in range.
Status checkFields(const Message &message) {
  if (message.isMail()) {
    bool isRight = message.sizeBytes >= 1 && message.sizeBytes <= maxMailBytes && message.role == 0 &&
                   message.agreement == 0 && message.offsetBytes == 0 && message.lane == 0 && message.semaphore == 0 &&
                   message.count == 0 && message.signalAgreement == 0;
    return isRight ? Status() : error(StatusCode::Mismatch, "a mail of {} bytes", message.sizeBytes);
  }
  bool isPutRight = message.isPut() ? message.sizeBytes >= 1 && message.sizeBytes <= maxPutBytes
                                    : message.sizeBytes == 0 && message.role == 0 && message.offsetBytes == 0 &&
                                          message.agreement == 0;
  if (!isPutRight)
    return error(StatusCode::Mismatch, "a message of kind {} with {} bytes at offset {} of role {}",
                 static_cast<int>(message.kind), message.sizeBytes, message.offsetBytes, message.role);
  bool isSignalRight = message.isSignal()
                           ? message.count >= 1 && message.count < endOfCounts
                           : message.count == 0 && message.semaphore == 0 && message.signalAgreement == 0;
  if (!isSignalRight)
    return error(StatusCode::Mismatch, "a message of kind {} with count {} of semaphore {}",
                 static_cast<int>(message.kind), message.count, message.semaphore);
  if (message.kind == MessageKind::Goodbye && message.lane != 0)
    return error(StatusCode::Mismatch, "a goodbye with lane {}", message.lane);
  return {};
}

} // namespace

HelloBytes write(const Hello &hello) {
  HelloBytes bytes = {};
  Cursor<std::byte> cursor(bytes);
  cursor.put(helloMagic);
  cursor.put(wireVersion);
  cursor.put(hello.numConnections);
  cursor.put(hello.connection);
  cursor.put(uint16_t(hello.hasMail ? 1 : 0));
  cursor.put(hello.rank);
  cursor.put(hello.peer);
  cursor.put(hello.numRanks);
  cursor.put(uint32_t(0));
  std::ranges::copy(hello.world, cursor.next(hello.world.size()).begin());
  return bytes;
}

Status checkBeginning(std::span<const std::byte> bytes) {
  for (size_t i = 0; i < std::min(bytes.size(), sizeof(helloMagic)); ++i)
    if (bytes[i] != static_cast<std::byte>(helloMagic >> (8 * i)))
      return error(StatusCode::Mismatch, "a connection that does not speak Kolo's protocol");
  if (bytes.size() < sizeof(helloMagic) + sizeof(wireVersion))
    return {};
  Cursor<const std::byte> cursor(bytes.subspan(sizeof(helloMagic)));
  return checkVersion(cursor.get<uint16_t>());
}

Result<Hello> parseHello(std::span<const std::byte, helloBytes> bytes) {
  if (Status status = checkBeginning(bytes); !status.isOk())
    return status;
  Cursor<const std::byte> cursor(bytes.subspan(sizeof(helloMagic) + sizeof(wireVersion)));
  Hello hello;
  hello.numConnections = cursor.get<uint16_t>();
  hello.connection = cursor.get<uint16_t>();
  auto mail = cursor.get<uint16_t>();
  hello.hasMail = mail != 0;
  hello.rank = cursor.get<uint32_t>();
  hello.peer = cursor.get<uint32_t>();
  hello.numRanks = cursor.get<uint32_t>();
  auto zero = cursor.get<uint32_t>();
  std::ranges::copy(cursor.next(hello.world.size()), hello.world.begin());
  if (mail > 1 || (mail == 1 && hello.numConnections < 2) || zero != 0 || hello.connection >= hello.numConnections ||
      hello.rank >= hello.numRanks || hello.peer >= hello.numRanks || hello.rank == hello.peer)
    return error(StatusCode::Mismatch, "a hello by connection {} of {} from rank {} to rank {} of {}", hello.connection,
                 hello.numConnections, hello.rank, hello.peer, hello.numRanks);
  return hello;
}

MessageBytes write(const Message &message) {
  MessageBytes bytes = {};
  Cursor<std::byte> cursor(bytes);
  cursor.put(wireVersion);
  cursor.put(static_cast<uint16_t>(message.kind));
  cursor.put(message.role);
  cursor.put(message.agreement);
  cursor.put(message.offsetBytes);
  cursor.put(message.sizeBytes);
  cursor.put(message.lane);
  cursor.put(message.semaphore);
  cursor.put(message.count);
  cursor.put(message.signalAgreement);
  return bytes;
}

Result<Message> parseMessage(std::span<const std::byte, messageBytes> bytes) {
  Cursor<const std::byte> cursor(bytes);
  if (Status status = checkVersion(cursor.get<uint16_t>()); !status.isOk())
    return status;
  auto kind = cursor.get<uint16_t>();
  if (kind < static_cast<uint16_t>(MessageKind::Put) || kind > static_cast<uint16_t>(MessageKind::Mail))
    return error(StatusCode::Mismatch, "a message of the unknown kind {}", kind);
  Message message;
  message.kind = static_cast<MessageKind>(kind);
  message.role = cursor.get<uint32_t>();
  message.agreement = cursor.get<uint64_t>();
  message.offsetBytes = cursor.get<uint64_t>();
  message.sizeBytes = cursor.get<uint64_t>();
  message.lane = cursor.get<uint32_t>();
  message.semaphore = cursor.get<uint32_t>();
  message.count = cursor.get<uint64_t>();
  message.signalAgreement = cursor.get<uint64_t>();
  if (Status status = checkFields(message); !status.isOk())
    return status;
  return message;
}

Endpoint write(const HostAddress &address) {
  Endpoint bytes = {};
  Cursor<std::byte> cursor(bytes);
  cursor.put(endpointMagic);
  cursor.put(wireVersion);
  cursor.put(uint16_t(address.isIpv6 ? 6 : 4));
  cursor.put(address.port);
  cursor.put(address.scope);
  std::ranges::copy(address.host, cursor.next(address.host.size()).begin());
  return bytes;
}

Result<HostAddress> parseEndpoint(const Endpoint &bytes) {
  Cursor<const std::byte> cursor(bytes);
  if (cursor.get<uint64_t>() != endpointMagic)
    return error(StatusCode::Mismatch, "an endpoint that is not one of TCP");
  if (Status status = checkVersion(cursor.get<uint16_t>()); !status.isOk())
    return status;
  HostAddress address;
  auto family = cursor.get<uint16_t>();
  address.isIpv6 = family == 6;
  address.port = cursor.get<uint16_t>();
  address.scope = cursor.get<uint32_t>();
  std::ranges::copy(cursor.next(address.host.size()), address.host.begin());
  bool isIpv4Right = address.scope == 0 && std::all_of(address.host.begin() + 4, address.host.end(),
                                                       [](std::byte byte) { return byte == std::byte(0); });
  if (address.port == 0 || !cursor.isRestZero() || !(family == 6 || (family == 4 && isIpv4Right)))
    return error(StatusCode::Mismatch, "an endpoint of family {} with port {}", family, address.port);
  return address;
}

} // namespace kolo::runtime::tcp
