// How long the kernel keeps a connection whose peer says nothing.
#include "network/tcp/SocketOptions.h"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

using namespace kolo::runtime;

namespace {

int optionOf(const Socket &socket, int level, int option) {
  int value = -1;
  socklen_t bytes = sizeof(value);
  EXPECT_EQ(getsockopt(socket.descriptor(), level, option, &value, &bytes), 0);
  return value;
}

} // namespace

/// A rank that waits for a minute must not lose a peer whose network is interrupted for half of one.
TEST(SocketOptions, MailEndsNotBeforeTheRanksTimeout) {
  for (int timeoutMs : {1, 3000, 20'000, 60'000}) {
    const Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
    tcp::prepare(socket, true, timeoutMs);
    const int expectedMs = std::max(timeoutMs, 3000);
    EXPECT_EQ(optionOf(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), expectedMs);
    EXPECT_EQ(optionOf(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
    const int probes = optionOf(socket, IPPROTO_TCP, TCP_KEEPINTVL) * optionOf(socket, IPPROTO_TCP, TCP_KEEPCNT);
    EXPECT_EQ(probes, expectedMs / 1000);
  }
}

TEST(SocketOptions, DataEndsWithTheMailAlone) {
  const Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  tcp::prepare(socket, false, 3000);
  EXPECT_EQ(optionOf(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
  EXPECT_EQ(optionOf(socket, SOL_SOCKET, SO_KEEPALIVE), 0);
}
