// The simulator against SimGrid: when transfers end that share links and wait for each other.
#include "tests/cost/Referee.h"
#include "compiler/cost/simulation/Simulator.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kolo::cost {
namespace test {

/// A ring of ranks with a port each: every step, a block goes on to the next rank. Flow s * n + i is rank i's in step
/// s.
static RefereeCase ring(const std::string &name, std::vector<double> ports, double bytes) {
  int n = int(ports.size());
  RefereeCase result{name, std::move(ports), {}};
  for (int step = 0; step < n - 1; ++step)
    for (int rank = 0; rank < n; ++rank) {
      RefereeFlow flow{bytes, {rank}};
      if (step > 0)
        flow.after = {(step - 1) * n + (rank + n - 1) % n};
      result.flows.push_back(flow);
    }
  return result;
}

/// Everybody to everybody at once, through ports out (0 to n - 1) and in.
static RefereeCase allToAll(const std::string &name, int n, std::vector<double> ports, double bytes) {
  RefereeCase result{name, std::move(ports), {}};
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to)
      if (from != to)
        result.flows.push_back({bytes * (1 + from), {from, n + to}});
  return result;
}

std::vector<RefereeCase> refereeCases() {
  return {
      {"one flow", {100}, {{1000, {0}}}},
      {"two flows share a link", {100}, {{1000, {0}}, {500, {0}}}},
      {"a flow comes later", {100}, {{1000, {0}}, {500, {0}, 3}}},
      {"three flows on two links", {100, 250}, {{1000, {0}}, {1000, {0, 1}}, {1000, {1}}}},
      {"a long flow across a chain of links", {100, 100, 100}, {{900, {0, 1, 2}}, {900, {0}}, {600, {1}}, {300, {2}}}},
      {"a narrow link frees a wide one", {10, 100}, {{100, {0, 1}}, {1000, {1}}, {500, {1}, 2}}},
      {"a tree of sends",
       {100, 50, 25},
       {{1000, {0}}, {1000, {1}, 0, {0}}, {1000, {2}, 0, {0}}, {1000, {0, 2}, 0, {1}}}},
      ring("a ring of equal ports", {100, 100, 100, 100, 100}, 400),
      ring("a ring with a slow port", {100, 100, 30, 100, 100, 80}, 400),
      allToAll("all to all", 4, std::vector<double>(8, 100), 300),
      allToAll("all to all with unequal ports", 4, {100, 60, 100, 100, 100, 100, 35, 100}, 300),
      {"flows that come and go", {50, 70}, {{400, {0}}, {300, {0, 1}, 1}, {900, {1}, 2}, {200, {0}, 5}, {100, {1}, 6}}},
  };
}

} // namespace test

namespace {

using test::RefereeCase;

/// One rank per flow, which waits for the flows before it. Resources: the links, then a clock for every start.
class RefereeNetwork : public SimulatedNetwork {
public:
  explicit RefereeNetwork(const RefereeCase &what) : what(what), rates(what.bandwidths) {
    rates.resize(rates.size() + what.flows.size(), 1e6);
  }
  std::span<const double> bandwidths() const override { return rates; }
  void addUses(uint32_t rank, const Instruction &transfer, std::span<const PeerLeg>,
               std::vector<ResourceUse> &uses) const override {
    if (transfer.reduces) { // stands for the time before the start
      uses.push_back({uint32_t(what.bandwidths.size() + rank), 1});
      return;
    }
    for (int link : what.flows[rank].links)
      uses.push_back({uint32_t(link), 1});
  }
  double latency(uint32_t, uint32_t) const override { return 0; }
  double entryLatency() const override { return 0; }

private:
  const RefereeCase &what;
  std::vector<double> rates;
};

std::vector<double> simulatedEnds(const RefereeCase &what) {
  Workload workload;
  workload.numStatements = 2;
  std::vector<std::vector<uint32_t>> peers(what.flows.size());
  workload.programs.resize(what.flows.size());
  for (uint32_t number = 0; number < what.flows.size(); ++number) {
    RankProgram &program = workload.programs[number];
    workload.programOf.push_back(number);
    auto add = [](RankProgram &to, Instruction::Kind kind) -> Instruction & {
      return to.code.emplace_back(Instruction{kind});
    };
    for (int before : what.flows[number].after) {
      RankProgram &other = workload.programs[size_t(before)];
      Instruction &signal = add(other, Instruction::Kind::Signal);
      signal.first = other.numChannels++;
      signal.number = uint32_t(program.signalsToSlot.size());
      peers[size_t(before)].push_back(number);
      Instruction &wait = add(program, Instruction::Kind::Wait);
      wait.first = signal.number;
      wait.number = 1;
      program.signalsToSlot.push_back(1);
    }
    for (bool isStart : {true, false}) {
      Instruction &transfer = add(program, Instruction::Kind::Transfer);
      transfer.blocks = true;
      transfer.reduces = isStart;
      transfer.statement = isStart ? 0 : 1;
      transfer.bytes = int64_t(isStart ? what.flows[number].start * 1e6 : what.flows[number].bytes);
    }
  }
  workload.peerOf = [&](uint32_t rank, uint32_t channel) { return peers[rank][channel]; };
  Timeline timeline;
  SimulationResult result = simulate(workload, RefereeNetwork(what), &timeline);
  EXPECT_FALSE(result.deadlock);
  std::vector<double> ends(what.flows.size());
  for (const Record &record : timeline.records)
    if (record.kind == Record::Kind::Move && record.statement == 1)
      ends[record.rank] = record.end;
  return ends;
}

TEST(Referee, SimGridEndsEveryTransferAtTheSameTime) {
  std::vector<RefereeCase> cases = test::refereeCases();
  std::vector<std::vector<double>> expected = test::simgridEnds(cases);
  for (size_t number = 0; number < cases.size(); ++number) {
    std::vector<double> ends = simulatedEnds(cases[number]);
    for (size_t flow = 0; flow < ends.size(); ++flow)
      EXPECT_NEAR(ends[flow], expected[number][flow], 1e-6 * expected[number][flow])
          << cases[number].name << ", flow " << flow;
  }
}

} // namespace
} // namespace kolo::cost
