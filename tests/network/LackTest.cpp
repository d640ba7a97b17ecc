// A kernel that lacks memory or random numbers for a moment, or for ever: calls of this program that fail on request.
#include "Support.h"

#include "network/SecretProof.h"

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

extern "C" ssize_t sendmsg(int socket, const msghdr *message, int flags) {
  if (numFailingSends.load() > 0) {
    --numFailingSends;
    errno = codeOfSends.load();
    return -1;
  }
  return syscall(SYS_sendmsg, socket, message, flags);
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
