#include "compiler/cost/blocks/BlockTimes.h"
#include "compiler/cost/blocks/BlockNetwork.h"
#include "compiler/cost/blocks/BlockWorkload.h"

#include <fmt/format.h>

#include <algorithm>

namespace kolo::cost {

using foreign::ForeignSchedule;

namespace {

/// Of a chunk, simulated. With more, the pieces after the first half tell what each further one takes.
constexpr int64_t mostPieces = 128, leastPieces = 8;
constexpr int64_t stepsInAll = 2'000'000; // of all blocks, beyond `leastPieces`

struct BlockRunTimes {
  double seconds = 0;
  std::vector<SimulatedStatement> statements;
};

/// a + (b - a) * factor
double extended(double a, double b, double factor) { return a + (b - a) * factor; }

std::vector<double> extended(const std::vector<double> &a, const std::vector<double> &b, double factor) {
  std::vector<double> result(b.size());
  for (size_t i = 0; i < b.size(); ++i)
    result[i] = extended(i < a.size() ? a[i] : 0, b[i], factor);
  return result;
}

BlockRunTimes extended(const BlockRunTimes &few, const BlockRunTimes &more, double factor) {
  BlockRunTimes result{extended(few.seconds, more.seconds, factor), more.statements};
  for (size_t number = 0; number < result.statements.size(); ++number) {
    SimulatedStatement &statement = result.statements[number];
    const SimulatedStatement &before = few.statements[number];
    statement.seconds = std::max(extended(before.seconds, statement.seconds, factor), 0.0);
    statement.latencySeconds = std::max(extended(before.latencySeconds, statement.latencySeconds, factor), 0.0);
    statement.executions = int64_t(extended(double(before.executions), double(statement.executions), factor));
    statement.bytes = extended(before.bytes, statement.bytes, factor);
  }
  return result;
}

std::vector<uint32_t> ranksOf(const ForeignSchedule &schedule) {
  std::vector<uint32_t> ranks;
  for (const foreign::Thread &thread : schedule.threads)
    ranks.push_back(uint32_t(thread.rank));
  return ranks;
}

std::vector<std::vector<double>> trafficOf(const ForeignSchedule &schedule, const Machine &machine,
                                           const Placement &placement, double chunkBytes) {
  auto numDevices = size_t(machine.devicesPerNode());
  std::vector<std::vector<double>> traffic(numDevices, std::vector<double>(numDevices));
  for (const foreign::Thread &thread : schedule.threads)
    for (const foreign::Action &action : thread.actions) {
      if (action.sends < 0)
        continue;
      int32_t to = schedule.connections[size_t(action.sends)].receiver;
      if (placement.nodeOf(thread.rank) == 0 && placement.nodeOf(to) == 0)
        traffic[size_t(placement.deviceOf(thread.rank))][size_t(placement.deviceOf(to))] += chunkBytes * action.count;
    }
  return traffic;
}

} // namespace

bool BlockTimes::knows(const Machine &machine) {
  return machine.device().laneSignal && machine.device().laneBandwidth.peak > 0;
}

std::optional<CostMistake> BlockTimes::refuse(const ForeignSchedule &schedule, const Machine &machine) {
  if (schedule.messages.slots == 0)
    return CostMistake{
        fmt::format("the thread blocks of {} are not simulated, only those of RCCL", schedule.interpreter)};
  if (!knows(machine))
    return CostMistake{machine.name() + " does not say what a lane moves, and how long its signals take: see "
                                        "node.devices.lane"};
  if (std::optional<CostMistake> refused = machine.refuse(protocolOf(schedule)))
    return *refused;
  return std::nullopt;
}

static double chunkBytesFor(const ForeignSchedule &schedule, int64_t bytes) {
  int32_t numBlocks = std::max(schedule.numInputBlocks(), schedule.numOutputBlocks());
  return double(bytes) / (double(numBlocks) * schedule.chunksPerBlock);
}

void BlockTimes::setLargestCall(ForeignSchedule &schedule, int64_t bytes) {
  schedule.messages.chunksPerMessage = cutMessages(schedule, chunkBytesFor(schedule, bytes)).chunksPerWrite;
}

/// One row for each line of the file that takes time, as Simulation has them.
static void addRows(Prediction &prediction, const BlockRunTimes &times, const BlockWorkload &made,
                    const ForeignSchedule &schedule, const BlockNetwork &network) {
  double slowest = 0;
  std::vector<double> all(network.bandwidths().size());
  for (size_t number = 0; number < times.statements.size(); ++number) {
    const SimulatedStatement &statement = times.statements[number];
    for (size_t resource = 0; resource < statement.bytes.size(); ++resource)
      all[resource] += statement.bytes[resource];
    std::optional<size_t> worst = network.slowest(statement.bytes);
    if (number == 0 || (statement.executions == 0 && statement.seconds == 0))
      continue;
    StatementCost &row = prediction.statements.emplace_back(StatementCost{
        schedule.path, unsigned(made.lines[number - 1]), statement.executions, statement.seconds,
        statement.latencySeconds, worst ? statement.bytes[*worst] : 0, worst ? network.nameOf(*worst) : ""});
    prediction.latencySeconds += row.latencySeconds;
    if (row.seconds > slowest) {
      slowest = row.seconds;
      prediction.bottleneck = row.seconds > row.latencySeconds && worst ? row.bottleneck : "latency";
    }
  }
  prediction.loads = network.loads(all, prediction.seconds);
}

std::variant<Prediction, CostMistake> BlockTimes::predict(int64_t bytes) const {
  double chunkBytes = chunkBytesFor(schedule, bytes);
  MessageCut cut = cutMessages(schedule, chunkBytes);
  double laneShare = of(machine.device().laneShare, cut.protocol);
  BlockNetwork network(machine, placement, cut.protocol, ranksOf(schedule));
  int64_t stepsOfPiece = std::max<int64_t>(makeWorkload(schedule, cut, 1, laneShare).numSteps, 1);
  int64_t followed = std::clamp(stepsInAll / stepsOfPiece, leastPieces, mostPieces) / 2 * 2;
  std::optional<CostMistake> mistake;
  auto run = [&](const BlockWorkload &made) {
    SimulationResult result = simulate(made.workload, network);
    if (result.deadlock)
      mistake = CostMistake{fmt::format("with {} bytes the schedule does not end: {} of rank {} waits for ever", bytes,
                                        schedule.threads[result.deadlock->rank].name,
                                        schedule.threads[result.deadlock->rank].rank)};
    return BlockRunTimes{result.seconds, std::move(result.statements)};
  };
  BlockWorkload made = makeWorkload(schedule, cut, std::min(cut.numPieces, followed), laneShare);
  BlockRunTimes times = run(made);
  if (cut.numPieces > followed && !mistake) {
    int64_t half = followed / 2;
    times =
        extended(run(makeWorkload(schedule, cut, half, laneShare)), times, double(cut.numPieces - half) / double(half));
  }
  if (mistake)
    return *mistake;
  Prediction prediction;
  double launch = machine.device().launch;
  prediction.bytes = bytes;
  prediction.seconds = times.seconds + launch;
  prediction.latencySeconds = launch;
  prediction.statements.push_back({"launch", 0, 1, launch, launch, 0, ""});
  addRows(prediction, times, made, schedule, network);
  prediction.traffic = trafficOf(schedule, machine, placement, chunkBytes);
  return prediction;
}

} // namespace kolo::cost
