#include "driver/Tune.h"
#include "driver/Data.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>

namespace kolo::tools {

namespace {

constexpr int64_t leastBytes = 16, factor = 4;
constexpr int firstRounds = 2, firstIterations = 3, mostRounds = 6, mostIterations = 1000;
constexpr double farBehind = 2;    // times the fastest
constexpr double asFast = 1.03;    // times the fastest: noise, for which the choice does not change from size to size
constexpr int timeoutMs = 120'000; // ranks share cores

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
    job.wantsHugePages = true;
    blockBytes = blockBytesOf(job.info()->collective, mesh);
    for (int64_t bytes : sizesToTune(job.info()->collective, mesh, options.maxBytes))
      cells.push_back({bytes, std::vector<Measurement>(candidates.all.size())});
    if (options.predict)
      leaveOut(memory);
  }

  std::vector<Cell> run() {
    for (int round = 0; round < firstRounds; ++round) {
      measure([](const Cell &) { return firstIterations; });
      job.check = false;
    }
    for (Cell &cell : cells)
      leaveBehind(cell);
    for (int round = firstRounds; round < mostRounds; ++round)
      measure([&](const Cell &cell) { return iterationsFor(cell, round); });
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
      for (size_t number : choosePredicted(predictions, programs, options.limits))
        cell.measurements[number].isLeftOut = false;
    }
  }

  /// A round: every cell's candidates in turn, each as often as `iterations` says; 0: not at all.
  template <class Iterations> void measure(Iterations iterations) {
    std::vector<Measurement *> measured;
    job.sizes.clear();
    for (Cell &cell : cells)
      for (size_t number = 0; number < candidates.all.size(); ++number) {
        int times = cell.measurements[number].isMeasuredOn() ? iterations(cell) : 0;
        if (times == 0)
          continue;
        job.sizes.push_back({cell.bytes / blockBytes, 1, times, candidates.all[number].program()});
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
  int iterationsFor(const Cell &cell, int round) const {
    double spentUs = 0, onceUs = 0;
    for (const Measurement &measurement : cell.measurements) {
      for (double time : measurement.microseconds)
        spentUs += time;
      onceUs += measurement.isMeasuredOn() ? measurement.typicalUs() : 0;
    }
    double leftUs = options.secondsPerCell * 1e6 - spentUs;
    if (leftUs < onceUs)
      return round == firstRounds ? 1 : 0;
    return int(std::clamp(leftUs / (mostRounds - round) / onceUs, 1.0, double(mostIterations)));
  }

  void choose(Cell &cell, const Cell *before) const {
    std::vector<std::pair<double, size_t>> order; // the fastest first
    for (size_t number = 0; number < cell.measurements.size(); ++number)
      if (cell.measurements[number].isMeasuredOn())
        order.emplace_back(cell.measurements[number].typicalUs(), number);
    std::ranges::sort(order);
    auto same =
        std::ranges::find_if(order, [&](const auto &entry) { return before && entry.second == before->chosen; });
    if (same != order.end() && same->first <= asFast * order.front().first)
      std::rotate(order.begin(), same, same + 1);
    cell.chosen = order.front().second;
    if (order.size() > 1)
      cell.next = order[1].second;
  }

  const Candidates &candidates;
  const TuneOptions &options;
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

std::vector<int64_t> sizesToTune(runtime::CollectiveKind collective, const runtime::Mesh &mesh, int64_t maxBytes) {
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

std::vector<TableEntry> entriesFor(const Candidates &candidates, const std::vector<Cell> &cells,
                                   runtime::CollectiveKind collective, int ranks, runtime::MemoryKind memory) {
  std::vector<TableEntry> entries;
  for (size_t number = 0; number < cells.size(); ++number) {
    bool isLast = number + 1 == cells.size();
    if (!isLast && cells[number].chosen == cells[number + 1].chosen)
      continue;
    const Candidate &chosen = candidates.all[cells[number].chosen];
    std::optional<int64_t> end;
    if (!isLast)
      end = int64_t(std::sqrt(double(cells[number].bytes) * double(cells[number + 1].bytes)));
    entries.push_back({collective, ranks, memory, end, chosen.algorithm, chosen.schedule});
  }
  return entries;
}

} // namespace kolo::tools
