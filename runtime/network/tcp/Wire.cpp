#include "network/tcp/Wire.h"

#include "Error.h"

#include <algorithm>
#include <concepts>

namespace kolo::runtime::tcp {
namespace {

constexpr uint64_t helloMagic = 0x415441444f4c4f4b;    // "KOLODATA"
constexpr uint64_t endpointMagic = 0x005043544f4c4f4b; // "KOLOTCP"

/// Writes or reads numbers one after the other.
template <class Byte> class Cursor {
public:
  explicit Cursor(std::span<Byte> all) : bytes(all) {}

  template <std::unsigned_integral Number> void put(Number number) {
    for (size_t i = 0; i < sizeof(Number); ++i)
      bytes[at++] = static_cast<std::byte>(number >> (8 * i));
  }
  template <std::unsigned_integral Number> Number get() {
    Number number = 0;
    for (size_t i = 0; i < sizeof(Number); ++i)
      number = static_cast<Number>(number | static_cast<Number>(static_cast<Number>(bytes[at++]) << (8 * i)));
    return number;
  }
  std::span<Byte> next(size_t sizeBytes) {
    at += sizeBytes;
    return bytes.subspan(at - sizeBytes, sizeBytes);
  }
  bool isRestZero() const {
    return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end(),
                       [](std::byte byte) { return byte == std::byte(0); });
  }

private:
  std::span<Byte> bytes;
  size_t at = 0;
};

Status checkVersion(uint16_t version) {
  if (version != wireVersion)
    return error(StatusCode::Mismatch, "version {} of the network protocol, not version {}", version, wireVersion);
  return {};
}

/// Whether the fields that this kind does not use are 0, and the others in range.
Status checkFields(const Message &message) {
  bool isPutRight = message.isPut() ? message.sizeBytes >= 1 && message.sizeBytes <= maxPutBytes
                                    : message.sizeBytes == 0 && message.role == 0 && message.offsetBytes == 0;
  if (!isPutRight)
    return error(StatusCode::Mismatch, "a message of kind {} with {} bytes at offset {} of role {}",
                 static_cast<int>(message.kind), message.sizeBytes, message.offsetBytes, message.role);
  bool isSignalRight = message.isSignal() ? message.count >= 1 && message.count < endOfCounts
                                          : message.count == 0 && message.semaphore == 0;
  if (!isSignalRight)
    return error(StatusCode::Mismatch, "a message of kind {} with count {} of semaphore {}",
                 static_cast<int>(message.kind), message.count, message.semaphore);
  if (message.kind == MessageKind::Goodbye && (message.agreement != 0 || message.lane != 0))
    return error(StatusCode::Mismatch, "a goodbye with agreement {} and lane {}", message.agreement, message.lane);
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
  cursor.put(uint16_t(0));
  cursor.put(hello.rank);
  cursor.put(hello.peer);
  cursor.put(hello.numRanks);
  cursor.put(uint32_t(0));
  std::ranges::copy(hello.world, cursor.next(hello.world.size()).begin());
  return bytes;
}

Result<Hello> parseHello(std::span<const std::byte, helloBytes> bytes) {
  Cursor<const std::byte> cursor(bytes);
  if (cursor.get<uint64_t>() != helloMagic)
    return error(StatusCode::Mismatch, "a connection that does not speak Kolo's protocol");
  if (Status status = checkVersion(cursor.get<uint16_t>()); !status.isOk())
    return status;
  Hello hello;
  hello.numConnections = cursor.get<uint16_t>();
  hello.connection = cursor.get<uint16_t>();
  auto firstZero = cursor.get<uint16_t>();
  hello.rank = cursor.get<uint32_t>();
  hello.peer = cursor.get<uint32_t>();
  hello.numRanks = cursor.get<uint32_t>();
  auto secondZero = cursor.get<uint32_t>();
  std::ranges::copy(cursor.next(hello.world.size()), hello.world.begin());
  if (firstZero != 0 || secondZero != 0 || hello.connection >= hello.numConnections || hello.rank >= hello.numRanks ||
      hello.peer >= hello.numRanks || hello.rank == hello.peer)
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
  return bytes;
}

Result<Message> parseMessage(std::span<const std::byte, messageBytes> bytes) {
  Cursor<const std::byte> cursor(bytes);
  if (Status status = checkVersion(cursor.get<uint16_t>()); !status.isOk())
    return status;
  auto kind = cursor.get<uint16_t>();
  if (kind < static_cast<uint16_t>(MessageKind::Put) || kind > static_cast<uint16_t>(MessageKind::Goodbye))
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
