// The messages of the TCP transport as bytes, and their parsers on bytes that nobody wrote.
#include "network/tcp/Wire.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace kolo::runtime::tcp {
namespace {

Hello someHello() {
  Hello hello{4, 3, 0x01020304, 5, 0x0a0b0c0d, {}};
  for (size_t i = 0; i < hello.world.size(); ++i)
    hello.world[i] = static_cast<std::byte>(i + 1);
  return hello;
}

std::vector<Message> someMessages() {
  return {{MessageKind::Put, 3, 0x1112131415161718, 0x2122232425262728, maxPutBytes, 63, 0, 0},
          {MessageKind::Signal, 0, 0, 0, 0, 7, 0x31323334, endOfCounts - 1, 9},
          {MessageKind::PutAndSignal, UINT32_MAX, UINT64_MAX, UINT64_MAX, 1, UINT32_MAX, UINT32_MAX, 1, 7},
          {MessageKind::Mail, 0, 0, 0, maxMailBytes, 0, 0, 0},
          {}};
}

std::vector<HostAddress> someAddresses() {
  HostAddress ipv4{false, 4711, 0, {}}, ipv6{true, 65535, 2, {}};
  ipv4.host[0] = std::byte(127), ipv4.host[3] = std::byte(1);
  ipv6.host.fill(std::byte(0xfe));
  return {ipv4, ipv6};
}

TEST(Wire, WhatIsWrittenIsReadAgain) {
  EXPECT_EQ(*parseHello(write(someHello())), someHello());
  for (const Message &message : someMessages())
    EXPECT_EQ(*parseMessage(write(message)), message);
  for (const HostAddress &address : someAddresses())
    EXPECT_EQ(*parseEndpoint(write(address)), address);
}

TEST(Wire, TheLayoutIsLittleEndianAndHasAVersion) {
  const unsigned char hello[helloBytes] = {'K', 'O', 'L', 'O', 'D', 'A', 'T', 'A', 3,  0,  4,  0,  3,  0,  0,  0,
                                           4,   3,   2,   1,   5,   0,   0,   0,   13, 12, 11, 10, 0,  0,  0,  0,
                                           1,   2,   3,   4,   5,   6,   7,   8,   9,  10, 11, 12, 13, 14, 15, 16};
  EXPECT_EQ(std::memcmp(write(someHello()).data(), hello, helloBytes), 0);
  const unsigned char message[messageBytes] = {3,    0,    1,    0,    3,    0,    0,    0,    0x18, 0x17, 0x16, 0x15,
                                               0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,
                                               0,    0,    0,    0,    0,    1,    0,    0,    63,   0,    0,    0};
  EXPECT_EQ(std::memcmp(write(someMessages()[0]).data(), message, messageBytes), 0);
}

TEST(Wire, RefusalsNameTheField) {
  auto expectRefusal = [](const Message &message, const std::string &text) {
    Status status = parseMessage(write(message)).status();
    EXPECT_EQ(status.code(), StatusCode::Mismatch);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  Message put = someMessages()[0], signal = someMessages()[1];
  put.sizeBytes = uint64_t(1) << 63;
  expectRefusal(put, "9223372036854775808 bytes");
  put.sizeBytes = 0;
  expectRefusal(put, "0 bytes");
  signal.count = endOfCounts;
  expectRefusal(signal, "count 4611686018427387904");
  signal.count = 0;
  expectRefusal(signal, "count 0");
  signal.kind = static_cast<MessageKind>(6);
  expectRefusal(signal, "unknown kind 6");
  MessageBytes bytes = write(someMessages()[1]);
  bytes[0] = std::byte(77);
  EXPECT_NE(parseMessage(bytes).status().message().find("version 77"), std::string::npos);
}

/// Changes a few bits, bytes or runs of bytes.
template <size_t size> void damage(std::array<std::byte, size> &bytes, std::mt19937 &random) {
  for (unsigned i = 0, num = 1 + random() % 3; i < num; ++i) {
    size_t at = random() % size;
    switch (random() % 4) {
    case 0:
      bytes[at] ^= static_cast<std::byte>(1u << random() % 8);
      break;
    case 1:
      bytes[at] = static_cast<std::byte>(random());
      break;
    case 2:
      std::memset(&bytes[at], random() % 2 ? 0xff : 0, random() % (size - at) + 1);
      break;
    default:
      for (std::byte &byte : bytes)
        byte = static_cast<std::byte>(random());
    }
  }
}

TEST(Wire, ParsersAcceptOnlyWhatCouldHaveBeenWritten) {
  std::mt19937 random(20);
  size_t numAccepted = 0, numRefused = 0;
  auto count = [&](const auto &parsed, const auto &bytes) {
    ++(parsed.isOk() ? numAccepted : numRefused);
    if (parsed.isOk())
      ASSERT_EQ(write(*Result(parsed)), bytes);
    else
      ASSERT_EQ(parsed.status().code(), StatusCode::Mismatch);
  };
  for (int i = 0; i < 100'000; ++i) {
    HelloBytes hello = write(someHello());
    damage(hello, random);
    count(parseHello(hello), hello);
    MessageBytes message = write(someMessages()[random() % 4]);
    damage(message, random);
    count(parseMessage(message), message);
    Endpoint endpoint = write(someAddresses()[random() % 2]);
    damage(endpoint, random);
    count(parseEndpoint(endpoint), endpoint);
  }
  EXPECT_GT(numAccepted, 10'000u);
  EXPECT_GT(numRefused, 100'000u);
}

} // namespace
} // namespace kolo::runtime::tcp
