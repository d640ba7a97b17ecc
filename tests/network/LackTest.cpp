// A kernel that lacks memory or random numbers for a moment, or for ever: calls of this program that fail on request.
#include "Support.h"

#include "network/Acceptor.h"
#include "network/SecretProof.h"
#include "network/Socket.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace {

std::atomic<int> numFailingSends = 0, codeOfSends = 0;
std::atomic<bool> hasNoRandomNumbers = false;

} // namespace

static bool failsToSend() {
  if (numFailingSends.load() <= 0)
    return false;
  --numFailingSends;
  errno = codeOfSends.load();
  return true;
}

extern "C" ssize_t sendmsg(int socket, const msghdr *message, int flags) {
  return failsToSend() ? -1 : syscall(SYS_sendmsg, socket, message, flags);
}

extern "C" ssize_t send(int socket, const void *bytes, size_t sizeBytes, int flags) {
  return failsToSend() ? -1 : syscall(SYS_sendto, socket, bytes, sizeBytes, flags, nullptr, 0);
}

extern "C" ssize_t getrandom(void *bytes, size_t sizeBytes, unsigned flags) {
  if (hasNoRandomNumbers.load()) {
    errno = ENOSYS;
    return -1;
  }
  return syscall(SYS_getrandom, bytes, sizeBytes, flags);
}

namespace kolo::test {
namespace {

TEST(Lack, OfMemoryToSendPasses) {
  for (const Kind &kind : allKinds())
    for (int code : {ENOBUFS, ENOMEM}) {
      ConnectedRanks world(kind, 2);
      constexpr size_t sizeBytes = 100'000;
      Landing landing(sizeBytes, 2);
      ASSERT_TRUE(world[1].registerMemory(landing.registration(1)).isOk());
      std::vector<std::byte> data = makeData(sizeBytes, 5);
      codeOfSends = code;
      numFailingSends = 7;
      ASSERT_TRUE(world[0].put({1, 2}, {1, 0, 0}, data.data(), sizeBytes).isOk());
      ASSERT_TRUE(world[0].signal({1, 2}, {1, 3, 1}).isOk());
      EXPECT_TRUE(world.runUntil([&] { return landing.cell(2, 3, 0).hasReached(1); })) << kind << strerrorname_np(code);
      EXPECT_EQ(numFailingSends.exchange(0), 0);
      EXPECT_EQ(std::memcmp(landing.data(), data.data(), sizeBytes), 0);
      EXPECT_TRUE(world[0].flush(2).isOk());
    }
}

TEST(Lack, OfMemoryToSendPassesWhileRanksMeet) {
  using namespace kolo::runtime;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Socket sender(ends[0]), receiver(ends[1]);
  const std::string text = "any bytes";
  for (int code : {ENOBUFS, ENOMEM}) {
    codeOfSends = code;
    numFailingSends = 5;
    std::string got(text.size(), '?');
    EXPECT_TRUE(sender.sendAll(text.data(), text.size(), Clock::now() + std::chrono::seconds(10)).isOk());
    ASSERT_EQ(read(receiver.descriptor(), got.data(), got.size()), static_cast<ssize_t>(got.size()));
    EXPECT_EQ(got, text);
    numFailingSends = 1'000'000'000; // for ever
    const Status never = sender.sendAll(text.data(), text.size(), Clock::now() + std::chrono::milliseconds(50));
    EXPECT_TRUE(never.message().starts_with("sending: ")) << never.message();
    numFailingSends = 3;
    PendingConnection connection;
    connection.socket = Socket(dup(ends[0]));
    EXPECT_TRUE(connection.send(std::as_bytes(std::span(text))));
    EXPECT_EQ(numFailingSends.exchange(0), 0);
    ASSERT_EQ(read(receiver.descriptor(), got.data(), got.size()), static_cast<ssize_t>(got.size()));
  }
}

TEST(Lack, OfRandomNumbersOfTheKernelIsMetByItsDevice) {
  hasNoRandomNumbers = true;
  std::array<std::byte, 32> first = {}, second = {};
  fillRandomly(first);
  fillRandomly(second);
  hasNoRandomNumbers = false;
  EXPECT_NE(first, second);
  EXPECT_NE(first, decltype(first)());
}

} // namespace
} // namespace kolo::test
