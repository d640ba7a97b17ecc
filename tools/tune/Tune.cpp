#include "tools/tune/Tune.h"
#include "tools/run/Data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <ranges>
#include <span>

namespace kolo::tools {

namespace {

constexpr int64_t leastBytes = 16, checkedQuickly = int64_t(256) << 10;
constexpr double farBehind = 2;       // times the fastest
constexpr double asFast = 1.03;       // times the fastest: noise, for which the choice does not change
constexpr double clearlyFaster = 1.1; // by what another has to beat the incumbent in most rounds
constexpr int mostIterations = 1000;
constexpr int timeoutMs = 120'000; // ranks share cores

/// How often what is measured. Each run starts the ranks anew; its rounds follow one another.
struct RoundPlan {
  int firstRounds, runs, roundsPerRun;
  bool usesSmallPages(int run) const { return run + 1 > runs - runs / 2; } // the later half of the runs
};
constexpr RoundPlan thorough = {2, 4, 1}, quick = {2, 2, 2};

double medianOf(std::vector<double> values) {
  std::ranges::sort(values);
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Of one element of every block.
int64_t blockBytesOf(runtime::CollectiveKind collective, const runtime::Mesh &mesh) {
  BufferSizes unit = bufferSizes(collective, 1, mesh.numRanks());
  return std::max(unit.inputElements, unit.outputElements) * int64_t(sizeof(float));
}

/// What counts of a cell: the rounds, of which all candidates that are measured on have the same, after the first ones.
class CountedRounds {
public:
  CountedRounds(const std::vector<Measurement> &measurements, size_t numFirstRounds)
      : measurements(measurements), numFirstRounds(numFirstRounds) {}

  /// How many times the fastest a candidate takes in its worst round.
  double worstRatio(size_t candidate) const {
    std::span<const double> times = of(candidate);
    double worst = 1;
    for (size_t round = 0; round < times.size(); ++round)
      worst = std::max(worst, times[round] / std::max(fastestIn(round), leastUs));
    return worst;
  }

  bool clearlyBeats(size_t candidate, size_t incumbent) const {
    std::vector<double> gains;
    for (auto round : std::views::iota(size_t(0), of(candidate).size()))
      gains.push_back(of(incumbent)[round] / std::max(of(candidate)[round], leastUs));
    return !gains.empty() && std::ranges::min(gains) * asFast >= 1 && medianOf(gains) > clearlyFaster;
  }

private:
  static constexpr double leastUs = 1e-3;

  std::span<const double> of(size_t candidate) const {
    std::span<const double> all = measurements[candidate].roundsUs;
    return all.size() > numFirstRounds ? all.subspan(numFirstRounds) : all;
  }

  double fastestIn(size_t round) const {
    double fastest = std::numeric_limits<double>::infinity();
    for (size_t number = 0; number < measurements.size(); ++number)
      if (measurements[number].isMeasuredOn())
        fastest = std::min(fastest, of(number)[round]);
    return fastest;
  }

  const std::vector<Measurement> &measurements;
  size_t numFirstRounds;
};

class Tuner {
public:
  Tuner(const Candidates &candidates, const runtime::Mesh &mesh, runtime::MemoryKind memory, const TuneOptions &options)
      : candidates(candidates), options(options), job{candidates.plugin,
                                                      candidates.all.front().program(),
                                                      mesh,
                                                      runtime::DataType::F32,
                                                      runtime::Reduction::Sum,
                                                      0,
                                                      false,
                                                      memory == runtime::MemoryKind::Windows,
                                                      true,
                                                      true,
                                                      {timeoutMs, 1},
                                                      {}} {
    job.isInPlace = isTunedInPlace(job.info()->collective);
    job.wantsHugePages = true;
    job.isLaunched = options.isLaunched;
    blockBytes = blockBytesOf(job.info()->collective, mesh);
    for (int64_t bytes : sizesToTune(job.info()->collective, mesh, options.maxBytes, options.isQuick))
      cells.push_back({bytes, std::vector<Measurement>(candidates.all.size())});
    if (options.predict)
      leaveOut(memory);
  }

  std::vector<Cell> run() {
    if (options.isQuick) {
      measure(plan.firstRounds, [](const Cell &cell) { return cell.bytes <= checkedQuickly ? 3 : 1; });
    } else {
      for (int round = 0; round < plan.firstRounds; ++round, job.check = false)
        measure(1, [](const Cell &) { return 3; });
    }
    job.check = false;
    for (Cell &cell : cells)
      leaveBehind(cell);
    for (int run = 0; run < plan.runs; ++run) {
      job.wantsHugePages = !plan.usesSmallPages(run);
      measure(plan.roundsPerRun, [&](const Cell &cell) { return iterationsFor(cell, run); });
    }
    for (size_t number = 0; number < cells.size(); ++number)
      choose(cells[number], number > 0 ? &cells[number - 1] : nullptr);
    return std::move(cells);
  }

private:
  /// What the predictions say is too slow to be worth a measurement.
  void leaveOut(runtime::MemoryKind memory) {
    std::vector<std::string> programs;
    for (const Candidate &candidate : candidates.all)
      programs.push_back(candidate.program());
    for (Cell &cell : cells) {
      auto predictions = options.predict({job.info()->collective, job.mesh, memory, cell.bytes}, programs);
      for (Measurement &measurement : cell.measurements)
        measurement.isLeftOut = true;
      for (size_t number : choosePredicted(predictions, programs))
        cell.measurements[number].isLeftOut = false;
    }
  }

  /// Rounds: in each, every cell's candidates in turn, each as often as `iterations` says; 0: not at all.
  template <class Iterations> void measure(int rounds, Iterations iterations) {
    std::vector<Measurement *> measured;
    job.sizes.clear();
    for (int round = 0; round < rounds; ++round)
      for (Cell &cell : cells)
        for (size_t number = 0; number < candidates.all.size(); ++number) {
          int times = cell.measurements[number].isMeasuredOn() ? iterations(cell) : 0;
          if (times == 0)
            continue;
          bool check = round == 0 && (!options.isQuick || cell.bytes <= checkedQuickly);
          job.sizes.push_back({cell.bytes / blockBytes, check && options.isQuick ? 0 : 1, times,
                               candidates.all[number].program(), check});
          measured.push_back(&cell.measurements[number]);
        }
    if (job.sizes.empty())
      return;
    std::vector<Timings> timings = runRanks(job, [](size_t) {});
    for (size_t number = 0; number < measured.size(); ++number) {
      Measurement &measurement = *measured[number];
      measurement.microseconds.insert(measurement.microseconds.end(), timings[number].begin(), timings[number].end());
      measurement.roundsUs.push_back(medianOf(timings[number]));
    }
  }

  /// By its fastest call in all rounds so far, so that a disturbance leaves nobody behind.
  static void leaveBehind(Cell &cell) {
    auto measured = std::views::filter(cell.measurements, &Measurement::isMeasuredOn);
    double fastest = std::ranges::min(measured | std::views::transform(&Measurement::typicalUs));
    for (Measurement &measurement : cell.measurements)
      measurement.isLeftBehind =
          !measurement.isLeftOut && std::ranges::min(measurement.microseconds) > farBehind * fastest;
  }

  /// Of every candidate that is left, for the cell to take its time in all rounds together.
  int iterationsFor(const Cell &cell, int run) const {
    double spentUs = 0, onceUs = 0;
    for (const Measurement &measurement : cell.measurements) {
      for (double time : measurement.microseconds)
        spentUs += time;
      onceUs += measurement.isMeasuredOn() ? measurement.typicalUs() : 0;
    }
    double leftUs = options.secondsPerCell * 1e6 - spentUs;
    if (leftUs < onceUs)
      return run == 0 ? 1 : 0;
    int roundsLeft = (plan.runs - run) * plan.roundsPerRun;
    return int(std::clamp(leftUs / roundsLeft / onceUs, 1.0, double(mostIterations)));
  }

  void choose(Cell &cell, const Cell *before) const {
    std::optional<size_t> incumbent;
    if (options.incumbent) {
      auto found = std::ranges::find(candidates.all, options.incumbent(cell.bytes), &Candidate::program);
      if (found != candidates.all.end())
        incumbent = size_t(found - candidates.all.begin());
    }
    CellChoice choice = tools::choose(cell.measurements, size_t(plan.firstRounds),
                                      before ? std::optional(before->chosen) : std::nullopt, incumbent);
    cell.chosen = choice.chosen;
    cell.next = choice.next;
  }

  const Candidates &candidates;
  const TuneOptions &options;
  const RoundPlan plan = options.isQuick ? quick : thorough;
  RankJob job;
  int64_t blockBytes = 0;
  std::vector<Cell> cells;
};

} // namespace

double Measurement::typicalUs() const {
  std::vector<double> sorted = roundsUs;
  std::ranges::sort(sorted);
  if (sorted.size() > 1)
    sorted.pop_back();
  return sorted.empty() ? 0 : std::accumulate(sorted.begin(), sorted.end(), 0.0) / double(sorted.size());
}

CellChoice choose(const std::vector<Measurement> &measurements, size_t numFirstRounds, std::optional<size_t> before,
                  std::optional<size_t> incumbent) {
  CountedRounds rounds(measurements, numFirstRounds);
  std::vector<std::pair<double, size_t>> order; // the best first
  for (size_t number = 0; number < measurements.size(); ++number)
    if (measurements[number].isMeasuredOn())
      order.emplace_back(rounds.worstRatio(number), number);
  std::ranges::sort(order);
  auto moveToFront = [&](auto entry) { std::rotate(order.begin(), entry, entry + 1); };
  auto find = [&](std::optional<size_t> number) {
    return std::ranges::find_if(order, [&](const auto &entry) { return entry.second == number; });
  };
  if (auto kept = find(before); kept != order.end() && kept->first <= asFast * order.front().first)
    moveToFront(kept);
  if (auto kept = find(incumbent); kept != order.end())
    moveToFront(std::find_if(order.begin(), kept,
                             [&](const auto &entry) { return rounds.clearlyBeats(entry.second, kept->second); }));
  return {order.front().second, order.size() > 1 ? std::optional(order[1].second) : std::nullopt};
}

std::vector<int64_t> sizesToTune(runtime::CollectiveKind collective, const runtime::Mesh &mesh, int64_t maxBytes,
                                 bool isQuick) {
  const int64_t factor = isQuick ? 8 : 4;
  int64_t blockBytes = blockBytesOf(collective, mesh);
  std::vector<int64_t> sizes;
  for (int64_t wanted = leastBytes; wanted / factor < maxBytes; wanted *= factor) {
    int64_t bytes = std::min(wanted, maxBytes) / blockBytes * blockBytes;
    if (bytes > 0 && (sizes.empty() || sizes.back() != bytes))
      sizes.push_back(bytes);
  }
  return sizes;
}

std::vector<Cell> tune(const Candidates &candidates, const runtime::Mesh &mesh, runtime::MemoryKind memory,
                       const TuneOptions &options) {
  return Tuner(candidates, mesh, memory, options).run();
}

Effort effortOf(const std::vector<Cell> &cells) {
  Effort effort;
  for (const Cell &cell : cells) {
    effort.measured += size_t(std::ranges::count(cell.measurements, false, &Measurement::isLeftOut));
    effort.all += cell.measurements.size();
  }
  return effort;
}

int64_t lastSizeOf(const Cell &cell, const Cell &next) {
  auto gain = [](const Cell &at, size_t slower, size_t faster) -> std::optional<double> {
    double slow = at.measurements[slower].typicalUs(), fast = at.measurements[faster].typicalUs();
    return slow > 0 && fast > 0 ? std::optional(std::max(std::log(slow / fast), 0.0)) : std::nullopt;
  };
  std::optional<double> here = gain(cell, next.chosen, cell.chosen), there = gain(next, cell.chosen, next.chosen);
  double share = here && there && *here + *there > 0 ? *here / (*here + *there) : 0.5;
  auto crossing = int64_t(double(cell.bytes) * std::pow(double(next.bytes) / double(cell.bytes), share));
  return std::clamp(crossing, cell.bytes, next.bytes - 1);
}

std::vector<TableEntry> entriesFor(const Candidates &candidates, const std::vector<Cell> &cells,
                                   runtime::CollectiveKind collective, const runtime::Mesh &mesh,
                                   runtime::MemoryKind memory) {
  std::vector<TableEntry> entries;
  for (size_t number = 0; number < cells.size(); ++number) {
    bool isLast = number + 1 == cells.size();
    if (!isLast && cells[number].chosen == cells[number + 1].chosen)
      continue;
    const Candidate &chosen = candidates.all[cells[number].chosen];
    std::optional<int64_t> end;
    if (!isLast)
      end = lastSizeOf(cells[number], cells[number + 1]);
    entries.push_back({collective, mesh.numRanks(), memory, end, chosen.algorithm, chosen.schedule});
    if (mesh.dims().size() > 1)
      entries.back().mesh = mesh;
  }
  return entries;
}

} // namespace kolo::tools
