// Messages between rank 0 and ranks that are connected with it.
#include "Board.h"

#include "kolo/runtime/Hub.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

using namespace kolo::runtime;
using Clock = std::chrono::steady_clock;

namespace {

struct Message {
  int sender;
  std::string text;
  bool operator==(const Message &) const = default;
};

/// One rank: its hub, and what it has heard.
struct Member {
  std::vector<Message> heard;
  std::optional<Hub> hub;
  Status status;

  Status send(int peer, const std::string &text) { return hub->send(peer, std::as_bytes(std::span(text))); }
  /// Waits until `isDone`, for 20 s.
  template <class Condition> bool wait(Condition isDone) {
    for (const auto until = Clock::now() + std::chrono::seconds(20); Clock::now() < until && !isDone();)
      hub->wait(1000);
    return isDone();
  }
};

/// Texts that begin with '!' are none that a rank says.
void join(Member &member, int rank, kolo::test::Board &board, int size, const std::vector<int> &spokes) {
  auto take = [&member](int sender, std::span<const std::byte> message) {
    member.heard.push_back({sender, {reinterpret_cast<const char *>(message.data()), message.size()}});
    return member.heard.back().text.front() != '!';
  };
  Result<Hub> made = Hub::create(rank, size, spokes, board.allGather(rank), take, {.timeoutMs = 20000});
  member.status = made.status();
  if (made.isOk())
    member.hub = std::move(made).value();
}

std::vector<Member> joinAll(int size, const std::vector<int> &spokes) {
  kolo::test::Board board(size);
  std::vector<Member> members(static_cast<size_t>(size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] { join(members[static_cast<size_t>(rank)], rank, board, size, spokes); });
  threads.clear();
  return members;
}

} // namespace

TEST(Hub, MessagesArriveInTheirOrder) {
  std::vector<Member> ranks = joinAll(4, {1, 3});
  std::vector<Message> toHub, fromHub;
  for (int number = 0; number < 500; ++number) {
    const std::string text = "message " + std::to_string(number);
    for (int spoke : {1, 3}) {
      ASSERT_TRUE(ranks[static_cast<size_t>(spoke)].send(0, text).isOk());
      ASSERT_TRUE(ranks[0].send(spoke, text).isOk());
    }
    fromHub.push_back({0, text});
  }
  EXPECT_TRUE(ranks[0].wait([&] { return ranks[0].heard.size() == 1000; }));
  for (int spoke : {1, 3}) {
    Member &own = ranks[static_cast<size_t>(spoke)];
    EXPECT_TRUE(own.wait([&] { return own.heard.size() == 500; }));
    EXPECT_EQ(own.heard, fromHub);
    std::vector<Message> sent = fromHub, come;
    for (Message &each : sent)
      each.sender = spoke;
    std::ranges::copy_if(ranks[0].heard, std::back_inserter(come),
                         [&](const Message &each) { return each.sender == spoke; });
    EXPECT_EQ(come, sent);
  }
}

TEST(Hub, OthersAreNotConnected) {
  std::vector<Member> ranks = joinAll(3, {2});
  EXPECT_EQ(ranks[1].send(0, "text").code(), StatusCode::InvalidArgument);
  EXPECT_EQ(ranks[0].send(1, "text").code(), StatusCode::InvalidArgument);
  EXPECT_FALSE(ranks[1].hub->hasLeft(0) || ranks[1].hub->isLost(0));
  EXPECT_TRUE(ranks[2].send(0, "text").isOk());
}

TEST(Hub, TellsWhoHasLeftAfterWhatItSent) {
  std::vector<Member> ranks = joinAll(2, {1});
  EXPECT_TRUE(ranks[1].send(0, "last").isOk());
  EXPECT_FALSE(ranks[0].hub->hasLeft(1));
  ranks[1].hub.reset();
  EXPECT_TRUE(ranks[0].wait([&] { return ranks[0].hub->hasLeft(1); }));
  EXPECT_EQ(ranks[0].heard, (std::vector<Message>{{1, "last"}}));
  EXPECT_FALSE(ranks[0].hub->isLost(1));
  EXPECT_EQ(ranks[0].send(1, "too late").code(), StatusCode::PeerLost);
}

TEST(Hub, WhatNoRankSaysEndsTheConnection) {
  std::vector<Member> ranks = joinAll(3, {1, 2});
  EXPECT_TRUE(ranks[1].send(0, "!").isOk());
  EXPECT_TRUE(ranks[0].wait([&] { return ranks[0].hub->isLost(1); }));
  EXPECT_TRUE(ranks[1].wait([&] { return ranks[1].hub->isLost(0); }));
  EXPECT_FALSE(ranks[0].hub->hasLeft(1));
  EXPECT_TRUE(ranks[2].send(0, "another").isOk());
  EXPECT_TRUE(ranks[0].wait([&] { return ranks[0].heard.back() == Message{2, "another"}; }));
}

TEST(Hub, AllRanksGetTheRefusalOfOne) {
  setenv("KOLO_NETWORK_INTERFACE", "none0", 1);
  std::vector<Member> ranks = joinAll(3, {2});
  unsetenv("KOLO_NETWORK_INTERFACE");
  for (const Member &each : ranks) {
    EXPECT_EQ(each.status.code(), StatusCode::InvalidArgument);
    EXPECT_TRUE(each.status.message().starts_with("rank 0: KOLO_NETWORK_INTERFACE='none0'")) << each.status.message();
  }
}
