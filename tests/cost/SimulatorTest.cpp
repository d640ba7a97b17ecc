// Lanes, signals and waits of the simulator, on networks small enough to compute by hand.
#include "compiler/cost/simulation/Simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace kolo::cost {
namespace {

constexpr double latencySeconds = 2;

/// One resource of 10 bytes per second for all that leaves a rank.
class Ports : public SimulatedNetwork {
public:
  explicit Ports(size_t numRanks) : rates(numRanks, 10) {}
  std::span<const double> bandwidths() const override { return rates; }
  void addUses(uint32_t rank, const Instruction &, std::span<const PeerLeg>,
               std::vector<ResourceUse> &uses) const override {
    uses.push_back({rank, 1});
  }
  double latency(uint32_t, uint32_t) const override { return latencySeconds; }
  double entryLatency() const override { return 3; }

private:
  std::vector<double> rates;
};

/// Builds a workload whose ranks have programs of their own. A signal on semaphore s from a to b has one slot.
class Ranks {
public:
  explicit Ranks(size_t number) : programs(number), peers(number), slots(number) {}

  void put(uint32_t from, uint32_t to, int64_t bytes, uint32_t statement = 0) {
    Instruction step{Instruction::Kind::Transfer};
    step.first = uint32_t(programs[from].legs.size());
    step.number = 1;
    step.bytes = bytes;
    programs[from].legs.push_back({Leg::Kind::WritePeer, false, channel(from, to)});
    add(from, step, statement);
  }
  void copy(uint32_t rank, int64_t bytes, uint32_t statement = 0) {
    Instruction step{Instruction::Kind::Transfer};
    step.blocks = true;
    step.bytes = bytes;
    add(rank, step, statement);
  }
  void signal(uint32_t from, uint32_t to, uint32_t statement = 0) {
    Instruction step{Instruction::Kind::Signal};
    step.first = channel(from, to);
    step.number = slot(to, from);
    ++programs[to].signalsToSlot[step.number];
    add(from, step, statement);
  }
  void wait(uint32_t rank, uint32_t from, uint32_t statement = 0) {
    Instruction step{Instruction::Kind::Wait};
    step.first = slot(rank, from);
    step.number = ++waits[{rank, from}];
    add(rank, step, statement);
  }
  void plain(uint32_t rank, Instruction::Kind kind) { add(rank, Instruction{kind}, 0); }

  SimulationResult run(int64_t numCalls = 1, Timeline *timeline = nullptr, const SimulatorLimits &limits = {}) {
    Workload workload;
    workload.programs = programs;
    for (uint32_t rank = 0; rank < programs.size(); ++rank)
      workload.programOf.push_back(rank);
    workload.peerOf = [this](uint32_t rank, uint32_t number) { return peers[rank][number]; };
    workload.numStatements = numStatements;
    workload.numCalls = numCalls;
    return simulate(workload, Ports(programs.size()), timeline, limits);
  }

private:
  void add(uint32_t rank, Instruction step, uint32_t statement) {
    step.statement = statement;
    numStatements = std::max(numStatements, statement + 1);
    programs[rank].code.push_back(step);
  }
  uint32_t channel(uint32_t from, uint32_t to) {
    auto found = std::ranges::find(peers[from], to);
    if (found == peers[from].end()) {
      found = peers[from].insert(found, to);
      ++programs[from].numChannels;
    }
    return uint32_t(found - peers[from].begin());
  }
  uint32_t slot(uint32_t rank, uint32_t from) {
    auto [found, isNew] = slots[rank].try_emplace(from, uint32_t(slots[rank].size()));
    if (isNew)
      programs[rank].signalsToSlot.push_back(0);
    return found->second;
  }

  std::vector<RankProgram> programs;
  std::vector<std::vector<uint32_t>> peers;
  std::vector<std::map<uint32_t, uint32_t>> slots;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> waits;
  uint32_t numStatements = 1;
};

TEST(Simulator, ASignalLeavesAfterThePutsBeforeItAndTakesOneLatency) {
  Ranks ranks(2);
  ranks.put(0, 1, 50);
  ranks.signal(0, 1);
  ranks.wait(1, 0);
  SimulationResult result = ranks.run();
  EXPECT_DOUBLE_EQ(result.seconds, 5 + latencySeconds);
  EXPECT_DOUBLE_EQ(result.statements[0].latencySeconds, latencySeconds);
  EXPECT_DOUBLE_EQ(result.statements[0].bytes[0], 50);
}

TEST(Simulator, ASignalDoesNotWaitForPutsToOthersOrLaterOnes) {
  Ranks ranks(3);
  ranks.put(0, 2, 1000);
  ranks.signal(0, 1);
  ranks.put(0, 1, 1000);
  ranks.wait(1, 0);
  ranks.signal(1, 2);
  ranks.wait(2, 1);
  EXPECT_DOUBLE_EQ(ranks.run().seconds, 2 * latencySeconds); // nobody waits for the puts
}

TEST(Simulator, SignalsToOnePeerLeaveInTheirOrder) {
  Ranks ranks(2);
  ranks.put(0, 1, 100);
  ranks.signal(0, 1);
  ranks.put(0, 1, 10); // half of the port each: arrives at 2, the longer one at 11
  ranks.signal(0, 1);
  ranks.wait(1, 0);
  ranks.wait(1, 0);
  EXPECT_DOUBLE_EQ(ranks.run().seconds, 11 + latencySeconds);
}

TEST(Simulator, WaitsComeInTheOrderOfTheProgram) {
  Ranks ranks(3);
  ranks.put(0, 2, 10);
  ranks.signal(0, 2);
  ranks.put(1, 2, 50);
  ranks.signal(1, 2);
  ranks.wait(2, 1);
  ranks.wait(2, 0);
  ranks.signal(2, 0);
  ranks.wait(0, 2);
  EXPECT_DOUBLE_EQ(ranks.run().seconds, 5 + 2 * latencySeconds);
}

TEST(Simulator, ALaneHoldsItsOwnMovesButNotItsPuts) {
  Ranks ranks(2);
  ranks.put(0, 1, 50);
  ranks.copy(0, 50); // beside the put
  ranks.signal(0, 1);
  ranks.wait(1, 0);
  EXPECT_DOUBLE_EQ(ranks.run().seconds, 10 + latencySeconds);
}

TEST(Simulator, AFlushWaitsForAllPutsOfTheLane) {
  Ranks ranks(3);
  ranks.put(0, 1, 50);
  ranks.put(0, 2, 50);
  ranks.plain(0, Instruction::Kind::Flush);
  ranks.signal(0, 1);
  ranks.wait(1, 0);
  EXPECT_DOUBLE_EQ(ranks.run().seconds, 10 + latencySeconds);
}

TEST(Simulator, RanksMeetWhenTheLastOneHasCome) {
  Ranks ranks(3);
  ranks.copy(1, 70);
  for (uint32_t rank = 0; rank < 3; ++rank)
    ranks.plain(rank, Instruction::Kind::Enter);
  EXPECT_DOUBLE_EQ(ranks.run().seconds, 7 + 3);
}

TEST(Simulator, EmptyTransfersTakeNoTime) {
  Ranks ranks(2);
  ranks.put(0, 1, 0);
  ranks.signal(0, 1);
  ranks.wait(1, 0);
  EXPECT_DOUBLE_EQ(ranks.run().seconds, latencySeconds);
}

TEST(Simulator, RowsFollowTheChainThatEndsLast) {
  Ranks ranks(3);
  ranks.copy(0, 20, 1); // not on the chain
  ranks.copy(1, 30, 1);
  ranks.put(1, 2, 40, 2);
  ranks.signal(1, 2, 2);
  ranks.wait(2, 1, 2);
  ranks.copy(2, 10, 3);
  SimulationResult result = ranks.run();
  EXPECT_DOUBLE_EQ(result.seconds, 3 + 4 + latencySeconds + 1);
  EXPECT_DOUBLE_EQ(result.statements[1].seconds, 3);
  EXPECT_DOUBLE_EQ(result.statements[2].seconds, 4 + latencySeconds);
  EXPECT_DOUBLE_EQ(result.statements[2].latencySeconds, latencySeconds);
  EXPECT_DOUBLE_EQ(result.statements[3].seconds, 1);
  EXPECT_EQ(result.statements[1].executions, 1);
}

TEST(Simulator, CallsFollowEachOther) {
  Ranks ranks(2);
  ranks.put(0, 1, 50);
  ranks.signal(0, 1);
  ranks.wait(1, 0);
  ranks.signal(1, 0); // a credit: the next call waits for it
  ranks.wait(0, 1);
  EXPECT_DOUBLE_EQ(ranks.run(3).seconds, 3 * (5 + 2 * latencySeconds));
}

TEST(Simulator, SaysWhoWaitsForEver) {
  Ranks ranks(3);
  ranks.wait(1, 2, 4);
  ranks.wait(2, 1, 5);
  ranks.signal(1, 2, 4);
  ranks.signal(2, 1, 5);
  SimulationResult result = ranks.run();
  ASSERT_TRUE(result.deadlock);
  EXPECT_EQ(result.deadlock->rank, 1u);
  EXPECT_EQ(result.deadlock->statement, 4u);
}

TEST(Simulator, GivesUpBeyondItsLimits) {
  Ranks ranks(2);
  for (int i = 0; i < 4; ++i)
    ranks.put(0, 1, 10);
  ranks.plain(0, Instruction::Kind::Flush);
  EXPECT_TRUE(ranks.run(1, nullptr, {.mostFlows = 3}).hasTooManyFlows);
  Timeline timeline;
  EXPECT_TRUE(ranks.run(1, &timeline, {.mostRecords = 3}).hasTooManyRecords);
  EXPECT_FALSE(ranks.run(1, nullptr, {.mostFlows = 4}).hasTooManyFlows);
}

TEST(Simulator, TimelinesHaveAnArrowFromEveryPutToItsWait) {
  Ranks ranks(2);
  ranks.put(0, 1, 50, 1);
  ranks.signal(0, 1, 1);
  ranks.wait(1, 0, 1);
  Timeline timeline;
  (void)ranks.run(2, &timeline);
  ASSERT_EQ(timeline.arrows.size(), 2u);
  for (const Arrow &arrow : timeline.arrows) {
    const Record &from = timeline.records[arrow.from], &to = timeline.records[arrow.to];
    EXPECT_EQ(from.kind, Record::Kind::Put);
    EXPECT_EQ(to.kind, Record::Kind::Wait);
    EXPECT_LE(from.end + latencySeconds, to.end);
  }
}

} // namespace
} // namespace kolo::cost
