// Many hosts of one or two ranks, which KOLO_HOSTID makes of processes: what they say and connect is counted, not
// timed.
#include "Ranks.h"
#include "TestPlugin.h"

#include "kolo/runtime/Plugin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstdlib>

using namespace kolo::test;
using namespace kolo::runtime;
using Clock = std::chrono::steady_clock;

namespace {

struct HostGrid {
  int numHosts = 16;
  int ranksPerHost = 1;
  int missing = 0; // of the ranks of the last host
  int numRanks() const { return numHosts * ranksPerHost - missing; }
  bool speaks(int rank) const { return rank % ranksPerHost == 0; }
  int numRounds() const { return std::bit_width(static_cast<unsigned>(numHosts - 1)); }
  /// Of the ranks with whom this one is connected from the start. Requires a power of two of hosts, and at least 4.
  int numNeighbours(int rank) const { return speaks(rank) ? 2 * numRounds() - 1 + ranksPerHost - 1 : 1; }
};

std::string onGrid(const HostGrid &hosts, const RankBody &body) {
  ScopedVariable wait("KOLO_WAIT", "sleep"); // many ranks share few cores
  return onHosts(
      hosts.numRanks(), [&](int rank) { return "host" + std::to_string(rank / hosts.ranksPerHost); }, {18000, 1}, body);
}

Status gather(Communicator &communicator, const Plugin &plugin, const char *program, int call, bool &isRight) {
  constexpr int64_t count = 100;
  static std::vector<int> input(count), output(static_cast<size_t>(count * communicator.size()));
  std::ranges::fill(output, -1);
  for (int64_t i = 0; i < count; ++i)
    input[static_cast<size_t>(i)] = valueAt(communicator.rank(), i, call);
  CallArguments arguments;
  arguments.program = program;
  arguments.mesh = std::move(Mesh::parse("rank=" + std::to_string(communicator.size()))).value();
  arguments.count = count;
  arguments.type = DataType::I32;
  arguments.input = input.data();
  arguments.output = output.data();
  Status status = communicator.run(plugin, arguments);
  isRight = true;
  for (int rank = 0; rank < communicator.size(); ++rank)
    for (int64_t i = 0; i < count; ++i)
      isRight &= output[static_cast<size_t>(rank * count + i)] == valueAt(rank, i, call);
  return status;
}

/// A call of so many elements, which ends before anything is written.
Status gatherSome(Communicator &communicator, const Plugin &plugin, int64_t count) {
  std::vector<int> input(static_cast<size_t>(count)), output(static_cast<size_t>(count * communicator.size()));
  CallArguments arguments;
  arguments.program = "togetherAllGather";
  arguments.mesh = std::move(Mesh::parse("rank=" + std::to_string(communicator.size()))).value();
  arguments.count = count;
  arguments.type = DataType::I32;
  arguments.input = input.data();
  arguments.output = output.data();
  return communicator.run(plugin, arguments);
}

std::string compare(const char *what, int64_t found, int64_t expected) {
  return found == expected ? "" : std::to_string(found) + " " + what + ", not " + std::to_string(expected) + "; ";
}

/// A repeated call costs a speaker one message in each round if the ranks enter it together, else none; and no new
/// connection.
std::string countCalls(Communicator &communicator, const HostGrid &hosts, bool isTogether) {
  constexpr int numCalls = 5;
  Plugin plugin = std::move(Plugin::load(KOLO_TEST_PLUGIN)).value();
  Traffic before;
  for (int call = 0; call <= numCalls; ++call) {
    bool isRight = false;
    const char *program = isTogether ? "togetherAllGather" : "ringAllGather";
    if (Status status = gather(communicator, plugin, program, call, isRight); !status.isOk() || !isRight)
      return status.isOk() ? "wrong bytes" : status.message();
    if (call == 0)
      before = communicator.traffic();
  }
  Traffic after = communicator.traffic();
  int rank = communicator.rank();
  std::string wrong = compare("messages", after.messages - before.messages,
                              isTogether && hosts.speaks(rank) ? numCalls * hosts.numRounds() : 0);
  wrong += compare("new connections", after.connections - before.connections, 0);
  // The ring's neighbours are neighbours, where hosts have one rank; else the last rank of a host talks to the next.
  if (hosts.ranksPerHost == 1)
    wrong += compare("connections", after.connections, 2 * hosts.numNeighbours(rank));
  if (Status status = communicator.barrier(); !status.isOk())
    return status.message();
  return wrong;
}

std::string countOn(const HostGrid &hosts, bool isTogether) {
  return onGrid(hosts, [&](Communicator &communicator) { return countCalls(communicator, hosts, isTogether); });
}

} // namespace

TEST(ManyHosts, ARepeatedCallThatRanksEnterTogetherCostsOneMessageInEachRound) {
  EXPECT_EQ(countOn({16, 1}, true), "");
}
TEST(ManyHosts, OneRankSpeaksForItsHost) { EXPECT_EQ(countOn({8, 2}, true), ""); }
TEST(ManyHosts, SoItIsOnSixtyFourHosts) { EXPECT_EQ(countOn({64, 1}, true), ""); }
TEST(ManyHosts, SoItIsOnThirteenHostsOfFive) { EXPECT_EQ(countOn({13, 5, 1}, true), ""); }

TEST(ManyHosts, TheFirstRankThatDiffersIsNamedByAll) {
  const HostGrid hosts{16, 4};
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = std::move(Plugin::load(KOLO_TEST_PLUGIN)).value();
    std::string wrong;
    for (int odd : {37, 2}) { // and another one behind it
      const bool isOdd = communicator.rank() == odd || communicator.rank() == 50;
      Status status = gatherSome(communicator, plugin, isOdd ? 99 : 100);
      wrong += expectFailure(status, StatusCode::Mismatch,
                             {"rank 0 called with 100", "rank " + std::to_string(odd) + " with 99"});
    }
    bool isRight = false;
    Status status = gather(communicator, plugin, "togetherAllGather", 1, isRight);
    return wrong + status.message() + (isRight ? "" : "wrong bytes");
  };
  EXPECT_EQ(onGrid(hosts, body), "");
}

TEST(ManyHosts, ARepeatedCallWithEntryCreditsCostsNoMessage) {
  for (const HostGrid &hosts : {HostGrid{8, 2}, HostGrid{64, 1}})
    EXPECT_EQ(countOn(hosts, false), "") << hosts.numHosts;
}

TEST(ManyHosts, AChannelConnectsItsTwoRanksAlone) {
  HostGrid hosts{16, 1};
  auto body = [&](Communicator &communicator) -> std::string {
    int rank = communicator.rank();
    int64_t before = communicator.traffic().connections;
    std::string wrong = compare("connections at first", before, 2 * hosts.numNeighbours(rank));
    Status status = communicator.barrier(); // all have counted
    if (status.isOk() && rank == 2)
      status = communicator.channel(5, 1).signal(); // 3 hosts further: no neighbour
    if (status.isOk() && rank == 5)
      status = communicator.channel(2, 1).wait();
    if (status.isOk())
      status = communicator.barrier();
    return status.message() + wrong +
           compare("new connections", communicator.traffic().connections - before, rank == 2 || rank == 5 ? 2 : 0);
  };
  EXPECT_EQ(onGrid(hosts, body), "");
}

TEST(ManyHosts, AKilledRankIsNamedByAllWithinASecond) {
  HostGrid hosts{16, 1};
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = std::move(Plugin::load(KOLO_TEST_PLUGIN)).value();
    for (int call = 0; call < 1000; ++call) {
      if (communicator.rank() == 6 && call == 3)
        raise(SIGKILL);
      auto start = Clock::now();
      bool isRight = false;
      Status status = gather(communicator, plugin, "ringAllGather", call, isRight);
      auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
      if (!status.isOk())
        return expectFailure(status, StatusCode::PeerLost, {"rank 6 (host host6)"}) +
               (passed > 1000 ? "after " + std::to_string(passed) + " ms" : "");
    }
    return "nobody noticed";
  };
  EXPECT_EQ(onGrid(hosts, body), "rank 6: killed by signal 9\n");
}
