#include "GroupWire.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace kolo::nccl {
namespace {

constexpr int64_t mostBytes = int64_t(1) << 62; // of a block
constexpr uint32_t mostWaitMs = 3600000;
constexpr PeerUse allUses = sendsTo | receivesFrom;

/// A message, without the use of each peer, which follows.
struct Head {
  GroupMessage::Kind kind = GroupMessage::Kind::Leave;
  uint32_t mostMs = 0;
  uint64_t number = 0;
  int64_t longest = 0;
  uint64_t windows[2] = {}, lengths[2] = {};
};
static_assert(std::is_trivially_copyable_v<Head> && std::has_unique_object_representations_v<Head>);
static_assert(std::has_unique_object_representations_v<GroupReply>);

template <class Part> std::vector<std::byte> rawBytesOf(const Part &part) {
  std::vector<std::byte> bytes(sizeof(part));
  std::memcpy(bytes.data(), &part, sizeof(part));
  return bytes;
}

bool isRight(const Head &head) {
  if (head.kind != GroupMessage::Kind::Enter)
    return head.kind == GroupMessage::Kind::Count || head.kind == GroupMessage::Kind::Leave;
  return head.mostMs <= mostWaitMs && head.number != 0 && head.longest >= 0 && head.longest <= mostBytes;
}

} // namespace

std::vector<std::byte> toBytes(const GroupMessage &message) {
  const EnteredGroup &group = message.group;
  Head head{message.kind, message.mostMs, message.number, group.longest, {}, {}};
  std::ranges::copy(group.windows, head.windows);
  std::ranges::copy(group.lengths, head.lengths);
  std::vector<std::byte> bytes = rawBytesOf(head);
  std::ranges::transform(group.peers, std::back_inserter(bytes), [](PeerUse use) { return std::byte{use}; });
  return bytes;
}

std::vector<std::byte> toBytes(const GroupReply &reply) { return rawBytesOf(reply); }

std::optional<GroupMessage> parseMessage(std::span<const std::byte> bytes, int size) {
  Head head;
  if (bytes.size() < sizeof(head))
    return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof(head));
  const std::span<const std::byte> peers = bytes.subspan(sizeof(head));
  const size_t number = head.kind == GroupMessage::Kind::Leave ? 0 : static_cast<size_t>(size);
  if (!isRight(head) || peers.size() != number ||
      std::ranges::any_of(peers, [](std::byte use) { return use > std::byte{allUses}; }))
    return std::nullopt;
  GroupMessage message{head.kind, head.mostMs, head.number, {{}, head.longest, {}, {}}};
  std::ranges::copy(head.windows, message.group.windows);
  std::ranges::copy(head.lengths, message.group.lengths);
  std::ranges::transform(peers, std::back_inserter(message.group.peers),
                         [](std::byte use) { return std::to_integer<PeerUse>(use); });
  return message;
}

std::optional<GroupReply> parseReply(std::span<const std::byte> bytes) {
  GroupReply reply;
  if (bytes.size() != sizeof(reply))
    return std::nullopt;
  std::memcpy(&reply, bytes.data(), sizeof(reply));
  const bool areFlags = reply.isCarried <= 1 && reply.hasOneLengthEach <= 1 && reply.isTimeout <= 1;
  return areFlags && reply.bound >= 0 && reply.bound <= mostBytes ? std::optional(reply) : std::nullopt;
}

} // namespace kolo::nccl
