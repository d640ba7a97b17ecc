// Rolls: who has entered, who is missing, and what strangers do to them.
#include "kolo/runtime/Roll.h"
#include "network/SecretProof.h"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int mostMs = 20000;
using Entry = std::shared_ptr<RollEntry>;

RollKeeper makeKeeper(const std::string &address = "127.0.0.1") {
  Result<RollKeeper> keeper = RollKeeper::create(address);
  EXPECT_TRUE(keeper.isOk()) << keeper.status().message();
  return std::move(keeper).value();
}

RollAddress openRoll(RollKeeper &keeper) {
  const Result<RollAddress> opened = keeper.open();
  EXPECT_TRUE(opened.isOk());
  return *opened;
}

Entry enter(const RollAddress &address, int rank, int size) {
  Result<Entry> entered = RollEntry::enter(address, rank, size, mostMs);
  EXPECT_TRUE(entered.isOk()) << entered.status().message();
  return entered.isOk() ? *entered : nullptr;
}

std::vector<Entry> enterAll(const RollAddress &address, const std::vector<int> &ranks, int size) {
  std::vector<Entry> entries;
  for (int rank : ranks)
    entries.push_back(enter(address, rank, size));
  return entries;
}

RollAnswer call(const Entry &entry) {
  Result<RollAnswer> said = entry->call(mostMs);
  EXPECT_TRUE(said.isOk()) << said.status().message();
  return said.isOk() ? *said : RollAnswer();
}

uint16_t portOf(const RollAddress &address) {
  uint16_t port = 0;
  std::memcpy(&port, address.data() + 6, sizeof(port));
  return port;
}

/// Opens a connection to the keeper, and says these bytes.
int connectAndSay(const RollAddress &address, const std::string &bytes) {
  sockaddr_in target = {};
  target.sin_family = AF_INET;
  target.sin_port = htons(portOf(address));
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int opened = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(opened, reinterpret_cast<sockaddr *>(&target), sizeof(target)), 0);
  EXPECT_EQ(send(opened, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  return opened;
}

size_t numDescriptors() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

} // namespace

TEST(Roll, IsCompleteWhenAllHaveEntered) {
  RollKeeper keeper = makeKeeper();
  for (int size : {1, 2, 7}) {
    const RollAddress address = openRoll(keeper);
    std::vector<Entry> entries(static_cast<size_t>(size));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] { entries[static_cast<size_t>(rank)] = enter(address, rank, size); });
    threads.clear();
    for (const Entry &entry : entries)
      EXPECT_TRUE(call(entry).isComplete && call(entry).isComplete);
  }
}

TEST(Roll, TellsWhoIsMissing) {
  RollKeeper keeper = makeKeeper();
  const RollAddress address = openRoll(keeper), other = openRoll(keeper);
  for (const Entry &entry : enterAll(address, {3, 1, 0}, 5)) {
    const RollAnswer said = call(entry);
    EXPECT_FALSE(said.isComplete);
    EXPECT_EQ(said.missing, 2);
    EXPECT_EQ(said.present, 0);
  }
  const Entry alone = enter(other, 1, 2);
  EXPECT_EQ(call(alone).missing, 0);
  EXPECT_EQ(call(alone).present, 1);
}

TEST(Roll, AnswersAreKept) {
  RollKeeper keeper = makeKeeper();
  const RollAddress address = openRoll(keeper);
  const std::vector<Entry> early = enterAll(address, {0, 1}, 3);
  EXPECT_FALSE(call(early[0]).isComplete);
  const Entry late = enter(address, 2, 3);
  EXPECT_FALSE(call(early[0]).isComplete);
  EXPECT_TRUE(call(early[1]).isComplete && call(late).isComplete);
}

TEST(Roll, WhatTheKeeperSaidOutlivesIt) {
  auto keeper = std::make_unique<RollKeeper>(makeKeeper());
  const RollAddress complete = openRoll(*keeper), open = openRoll(*keeper);
  const std::vector<Entry> all = enterAll(complete, {0, 1, 2}, 3), some = enterAll(open, {0, 1}, 3);
  keeper.reset();
  for (const Entry &entry : all)
    EXPECT_TRUE(call(entry).isComplete);
  for (const Entry &entry : some)
    EXPECT_TRUE(!call(entry).isComplete && call(entry).missing == -1);
  EXPECT_FALSE(RollEntry::enter(open, 2, 3, mostMs).isOk());
}

TEST(Roll, NoRankEntersTwiceOrWithAnotherSize) {
  RollKeeper keeper = makeKeeper();
  const RollAddress address = openRoll(keeper);
  const Entry first = enter(address, 0, 2);
  EXPECT_FALSE(RollEntry::enter(address, 0, 2, mostMs).isOk());
  EXPECT_FALSE(RollEntry::enter(address, 1, 3, mostMs).isOk());
  const Entry second = enter(address, 1, 2);
  EXPECT_TRUE(call(first).isComplete && call(second).isComplete);
}

TEST(Roll, EndsWithItsRanks) {
  RollKeeper keeper = makeKeeper();
  const RollAddress address = openRoll(keeper);
  const size_t numBefore = numDescriptors();
  enterAll(address, {0, 1}, 3);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (numDescriptors() > numBefore && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(numDescriptors(), numBefore);
  EXPECT_FALSE(RollEntry::enter(address, 2, 3, mostMs).isOk());
}

TEST(Roll, StrangersChangeNothing) {
  RollKeeper keeper = makeKeeper();
  const RollAddress address = openRoll(keeper);
  std::vector<int> strangers;
  const std::string opening = "KOLOROLL";
  for (const std::string &text :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\0", 1), opening, opening + "half",
        opening + std::string(56, 'x'), opening + std::string(200, '\0'), std::string("?")})
    strangers.push_back(connectAndSay(address, text));
  const Entry first = enter(address, 0, 2);
  for (int i = 0; i < 200; ++i)
    strangers.push_back(connectAndSay(address, i % 2 == 0 ? opening : "K"));
  const Entry second = enter(address, 1, 2);
  EXPECT_TRUE(call(first).isComplete && call(second).isComplete);
  for (int stranger : strangers)
    close(stranger);
}

TEST(Roll, SecretsMustBeTheSame) {
  if (!Key::isSupported())
    GTEST_SKIP() << "this build has no libsodium";
  setenv("KOLO_SECRET", "a secret of sixteen bytes", 1);
  RollKeeper keeper = makeKeeper();
  const RollAddress address = openRoll(keeper);
  const Entry first = enter(address, 0, 2);
  setenv("KOLO_SECRET", "another secret of bytes", 1);
  EXPECT_EQ(RollEntry::enter(address, 1, 2, mostMs).status().code(), StatusCode::Mismatch);
  unsetenv("KOLO_SECRET");
  EXPECT_EQ(RollEntry::enter(address, 1, 2, mostMs).status().code(), StatusCode::Mismatch);
  EXPECT_EQ(call(first).missing, 1);
}

TEST(Roll, AddressesAreChecked) {
  RollKeeper keeper = makeKeeper();
  const RollAddress address = openRoll(keeper);
  for (size_t place : {size_t(0), size_t(4), address.size() - 1}) {
    RollAddress wrong = address;
    wrong[place] ^= std::byte(0x40);
    EXPECT_EQ(RollEntry::enter(wrong, 0, 2, mostMs).status().code(), StatusCode::InvalidArgument);
  }
  for (auto [rank, size] : {std::pair(-1, 2), {2, 2}, {0, 0}})
    EXPECT_EQ(RollEntry::enter(address, rank, size, mostMs).status().code(), StatusCode::InvalidArgument);
  RollAddress otherNumber = address;
  otherNumber[30] ^= std::byte(1);
  EXPECT_EQ(RollEntry::enter(otherNumber, 0, 2, mostMs).status().code(), StatusCode::SystemError);
}

/// Of no host here: then where others are likely to reach this one.
TEST(Roll, AnAddressOfAnotherHostIsNotTaken) {
  for (const char *address : {"192.0.2.7", "no number", ""}) {
    RollKeeper keeper = makeKeeper(address);
    EXPECT_TRUE(call(enter(openRoll(keeper), 0, 1)).isComplete);
  }
}

TEST(Roll, AKeeperThatIsNotReachedIsNamed) {
  std::optional<RollKeeper> keeper = makeKeeper();
  const RollAddress address = openRoll(*keeper);
  keeper.reset();
  const Status status = RollEntry::enter(address, 0, 2, mostMs).status();
  EXPECT_EQ(status.code(), StatusCode::SystemError);
  EXPECT_NE(status.message().find("at 127.0.0.1 port " + std::to_string(portOf(address)) + ": "), std::string::npos)
      << status.message();
}

TEST(Roll, AProcessThatDoesNotAnswerEndsTheWait) {
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(own);
  ASSERT_TRUE(bind(silent, reinterpret_cast<sockaddr *>(&own), bytes) == 0 && listen(silent, 5) == 0 &&
              getsockname(silent, reinterpret_cast<sockaddr *>(&own), &bytes) == 0);
  RollKeeper keeper = makeKeeper();
  RollAddress address = openRoll(keeper);
  const uint16_t port = ntohs(own.sin_port);
  std::memcpy(address.data() + 6, &port, sizeof(port));
  EXPECT_EQ(RollEntry::enter(address, 0, 2, 50).status().code(), StatusCode::Timeout);
  close(silent);
}

/// A child has no thread that keeps the rolls, and does not end those of its parent.
TEST(Roll, AForkedChildEndsAlone) {
  RollKeeper keeper = makeKeeper();
  const RollAddress address = openRoll(keeper);
  const Entry first = enter(address, 0, 2);
  const pid_t child = fork();
  if (child == 0) {
    {
      const RollKeeper moved = std::move(keeper);
    }
    Result<Entry> entered = RollEntry::enter(address, 1, 2, mostMs);
    _exit(entered.isOk() && (*entered)->call(mostMs)->isComplete ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(call(first).isComplete);
}

TEST(Roll, ManyRanksRaiseTheLimitOfDescriptors) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {256, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  {
    RollKeeper keeper = makeKeeper();
    const RollAddress address = openRoll(keeper);
    const int size = 400;
    const Entry first = enter(address, 0, size);
    std::vector<pid_t> children;
    for (int child = 0; child < 4; ++child)
      if (children.push_back(fork()); children.back() == 0) {
        std::vector<Entry> own;
        for (int rank = 1 + child; rank < size; rank += 4)
          own.push_back(enter(address, rank, size));
        _exit(std::ranges::count(own, nullptr) == 0 ? 0 : 1);
      }
    for (pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    EXPECT_TRUE(call(first).isComplete);
  }
  setrlimit(RLIMIT_NOFILE, &before);
}
