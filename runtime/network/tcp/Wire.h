// Wire: the messages of the TCP transport as bytes. All are of fixed size and little-endian.
#pragma once

#include "network/ControlTransport.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kolo::runtime::tcp {

inline constexpr uint16_t wireVersion = 3;

/// The first message of both sides of every connection. A nonce and a proof follow: see greetingBytes.
struct Hello {
  uint16_t numConnections = 1; // between each two ranks
  uint16_t connection = 0;
  uint32_t rank = 0; // of the sender
  uint32_t peer = 0; // of the receiver
  uint32_t numRanks = 0;
  WorldNumber world = {};
  bool hasMail = false; // the last of these connections carries mail and nothing else
  bool operator==(const Hello &) const = default;
};

enum class MessageKind : uint16_t { Put = 1, Signal = 2, PutAndSignal = 3, Goodbye = 4, Mail = 5 };

/// Every later message. `sizeBytes` bytes of data follow a put and a mail. What a kind does not use is 0.
struct Message {
  MessageKind kind = MessageKind::Goodbye;
  uint32_t role = 0;
  uint64_t agreement = 0;
  uint64_t offsetBytes = 0;
  uint64_t sizeBytes = 0;
  uint32_t lane = 0;
  uint32_t semaphore = 0;
  uint64_t count = 0;
  uint64_t signalAgreement = 0; // of the signal; `agreement` is that of the put
  bool operator==(const Message &) const = default;

  bool isPut() const { return kind == MessageKind::Put || kind == MessageKind::PutAndSignal; }
  bool isSignal() const { return kind == MessageKind::Signal || kind == MessageKind::PutAndSignal; }
  bool isMail() const { return kind == MessageKind::Mail; }
  RemotePlace place() const { return {agreement, role, offsetBytes}; }
  RemoteSignal signal() const { return {signalAgreement, semaphore, count}; }
};

/// A numeric address of IPv4 or IPv6.
struct HostAddress {
  bool isIpv6 = false;
  uint16_t port = 0;
  uint32_t scope = 0;                  // the interface of a link-local IPv6 address
  std::array<std::byte, 16> host = {}; // network byte order; IPv4 uses the first 4
  bool operator==(const HostAddress &) const = default;
};

inline constexpr size_t helloBytes = 48;
/// A Hello, a nonce, and a proof of both under openingLabel. The answer's proof is under answerLabel, and of the
/// opener's nonce too. Then the opener sends one more proof, under confirmLabel: of its Hello and both nonces.
inline constexpr size_t greetingBytes = helloBytes + sizeof(Nonce) + sizeof(SecretProof);
inline constexpr std::string_view openingLabel = "open", answerLabel = "answer", confirmLabel = "confirm";
inline constexpr size_t messageBytes = 56;
using HelloBytes = std::array<std::byte, helloBytes>;
using GreetingBytes = std::array<std::byte, greetingBytes>;
using MessageBytes = std::array<std::byte, messageBytes>;

HelloBytes write(const Hello &hello);
MessageBytes write(const Message &message);
Endpoint write(const HostAddress &address);

/// Whether the first bytes may be of a Hello of this version. Mismatch: the message says what else they are of.
Status checkBeginning(std::span<const std::byte> bytes);
/// The parsers accept only what `write` makes. Mismatch: the message says what is wrong.
Result<Hello> parseHello(std::span<const std::byte, helloBytes> bytes);
Result<Message> parseMessage(std::span<const std::byte, messageBytes> bytes);
Result<HostAddress> parseEndpoint(const Endpoint &bytes);

} // namespace kolo::runtime::tcp
