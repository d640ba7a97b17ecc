#include "tools/tune/Probe.h"
#include "tools/compile/Compile.h"
#include "tools/compile/TemporaryFile.h"
#include "tools/run/RankRunner.h"

#include "kolo/runtime/Communicator.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include <sched.h>

namespace kolo::tools {

using nlohmann::ordered_json;

namespace {

constexpr int64_t smallBytes = 64, leastWorkingSet = 32 << 10, mostWorkingSet = int64_t(128) << 20;
constexpr int64_t mostMemoryBytes = int64_t(2) << 30; // of all ranks together
constexpr int roundTrips = 200, batches = 7;
// With new processes, in turn with the other programs: neighbours slow a machine for a while.
constexpr int numRounds = 5;
constexpr double apart = 1.5; // as CoreDistance says
constexpr const char *copying = "directBroadcast", *reducing = "allPairsReduceScatter", *exchanging = "directAllToAll";

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double upperMedianOf(std::vector<double> values) {
  auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<int> coresOf(const cpu_set_t &set) {
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set))
      cores.push_back(core);
  return cores;
}

/// The calling thread stays there. What the kernel refuses stays as it was: the figures are a little less exact.
void stayOn(int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  (void)sched_setaffinity(0, sizeof(only), &only);
}

void orThrow(const runtime::Status &status) {
  if (!status.isOk())
    throw ToolError(exitCodeOf(status.code()), status.message());
}

/// What rank 0 and one peer do in one batch: signals back and forth.
runtime::Status bounce(runtime::Channel channel, bool isFirst) {
  for (int trip = 0; trip < roundTrips; ++trip) {
    runtime::Status status = isFirst ? channel.signal() : channel.wait();
    if (status.isOk())
      status = isFirst ? channel.wait() : channel.signal();
    if (!status.isOk())
      return status;
  }
  return runtime::Status();
}

/// Seconds of a signal between ranks that are threads on two cores.
double signalLatency(int firstCore, int secondCore) {
  auto ranks = runtime::Communicator::createThreads(2);
  if (!ranks.isOk())
    throw ToolError(exitCodeOf(ranks.status().code()), ranks.status().message());
  std::vector<double> seconds; // of each batch: the fastest was disturbed least
  runtime::Status statuses[2];
  auto run = [&](int rank, int core) {
    stayOn(core);
    for (int batch = 0; batch < batches && statuses[rank].isOk(); ++batch) {
      auto start = std::chrono::steady_clock::now();
      statuses[rank] = bounce((*ranks)[size_t(rank)].channel(1 - rank, 0), rank == 0);
      if (rank == 0)
        seconds.push_back(secondsSince(start) / roundTrips / 2);
    }
  };
  std::thread first(run, 0, firstCore), second(run, 1, secondCore);
  first.join();
  second.join();
  orThrow(statuses[0]);
  orThrow(statuses[1]);
  return std::ranges::min(seconds);
}

/// Those of the pairs of cores, the nearest first.
std::vector<CoreDistance> measureDistances(const std::vector<int> &cores) {
  std::vector<std::pair<double, std::pair<int, int>>> latencies;
  for (int first = 0; first < int(cores.size()); ++first)
    for (int second = first + 1; second < int(cores.size()); ++second)
      latencies.push_back({signalLatency(cores[size_t(first)], cores[size_t(second)]), {first, second}});
  std::ranges::sort(latencies);
  std::vector<CoreDistance> distances;
  std::vector<double> alike;
  for (const auto &[latency, pair] : latencies) {
    if (distances.empty() || latency > apart * alike.front()) {
      distances.emplace_back();
      alike.clear();
    }
    alike.push_back(latency);
    distances.back().pairs.push_back(pair);
    distances.back().latency = upperMedianOf(alike);
  }
  return distances;
}

/// This process, and the ranks that it starts, may use these cores only while there is an object.
class OnCores {
public:
  explicit OnCores(std::initializer_list<int> cores) {
    cpu_set_t some;
    CPU_ZERO(&some);
    for (int core : cores)
      CPU_SET(core, &some);
    isSet = sched_getaffinity(0, sizeof(before), &before) == 0 && sched_setaffinity(0, sizeof(some), &some) == 0;
  }
  ~OnCores() {
    if (isSet)
      (void)sched_setaffinity(0, sizeof(before), &before);
  }
  OnCores(const OnCores &) = delete;
  OnCores &operator=(const OnCores &) = delete;

private:
  cpu_set_t before;
  bool isSet;
};

/// A program at growing working sets, and how long its calls took. A call that hardly moves anything comes first.
struct Series {
  Series(const char *program, int ranks, double workingSetPerByte, bool isInPlace = false)
      : program(program), ranks(ranks), isInPlace(isInPlace), sizes{smallBytes * ranks} {
    for (int64_t bytes = leastWorkingSet; bytes <= std::min(mostWorkingSet, mostMemoryBytes / ranks); bytes *= 2) {
      workingSets.push_back(bytes);
      sizes.push_back(int64_t(double(bytes) / workingSetPerByte) / smallBytes * smallBytes);
    }
  }

  const char *program;
  int ranks;
  bool isInPlace;
  std::vector<int64_t> workingSets, sizes;   // sizes: of the larger buffer of a rank
  std::vector<std::vector<double>> rounds{}; // by size: seconds of the median call of each round

  double secondsAt(size_t size) const { return std::ranges::min(rounds[size]); }
  bool isUnsteadyAt(size_t size) const { return std::ranges::max(rounds[size]) > 2 * secondsAt(size); }
};

/// Runs shipped programs of one plugin.
class ProgramTimer {
public:
  ProgramTimer(int cores, double secondsPerCell) : secondsPerCell(secondsPerCell), file("so") {
    CompileRequest request;
    for (const char *name : {copying, reducing, exchanging})
      request.definitions.push_back(findShipped(name));
    request.meshes = {meshOf(2)};
    if (cores > 2)
      request.meshes.push_back(meshOf(cores));
    request.output = file.path();
    compile(request);
    auto loaded = runtime::Plugin::load(file.path());
    if (!loaded.isOk())
      throw ToolError(ExitCode::Failed, loaded.status().message());
    plugin = std::move(loaded).value();
  }

  /// One round. Every call is measured from new processes, whose memory lies elsewhere.
  void time(Series &series) {
    RankJob job{*plugin, series.program, meshOf(series.ranks)};
    job.isInPlace = series.isInPlace;
    job.check = false;
    for (int64_t bytes : series.sizes) {
      double guess = 2e-5 + double(bytes) * double(series.ranks) / 1e10;
      int64_t blocks = job.info()->collective == runtime::CollectiveKind::Broadcast ? 1 : series.ranks;
      job.sizes.push_back(
          {bytes / blocks / int64_t(sizeof(float)), 2, int(std::clamp(secondsPerCell / guess, 3.0, 100.0))});
    }
    std::vector<Timings> timings = runRanks(job, [](size_t) {});
    series.rounds.resize(series.sizes.size());
    for (size_t size = 0; size < series.sizes.size(); ++size)
      series.rounds[size].push_back(upperMedianOf(timings[size]) / 1e6);
  }

private:
  static runtime::Mesh meshOf(int ranks) { return *runtime::Mesh::create({{"rank", ranks}}); }

  double secondsPerCell;
  TemporaryFile file;
  std::optional<runtime::Plugin> plugin;
};

/// What a small call takes too is not counted. Where that is most of the time, the rest is too small a difference, and
/// a quarter is taken.
ProbedRates ratesOf(const Series &series, double bytesPerByte) {
  ProbedRates rates;
  double small = series.secondsAt(0);
  for (size_t number = 0; number < series.workingSets.size(); ++number) {
    double bytes = bytesPerByte * double(series.sizes[number + 1]), seconds = series.secondsAt(number + 1);
    rates.push_back({series.workingSets[number], bytes / std::max(seconds - small, seconds / 4)});
  }
  return rates;
}

/// What was seen of a lane or of the memory anywhere is what it reaches. `copied`: by every rank at once.
void combine(const ProbedRates &copied, int cores, HostFigures &figures) {
  figures.lane = figures.distances.front().rates;
  for (size_t size = 0; size < figures.lane.size(); ++size) {
    double &lane = figures.lane[size].bytesPerSecond, reduction = figures.reduction[size].bytesPerSecond;
    for (const CoreDistance &distance : figures.distances)
      lane = std::max(lane, distance.rates[size].bytesPerSecond);
    if (size >= copied.size())
      continue;
    double together = copied[size].bytesPerSecond;
    lane = std::max(lane, together);
    // A copy reads and writes; each of two ranks that reduce writes half of what it reads.
    int64_t workingSet = copied[size].workingSetBytes;
    figures.memory.push_back({workingSet, std::max({2 * cores * together, 2 * lane, 3 * reduction})});
    figures.writes.push_back({workingSet, std::max({cores * together, lane, reduction})});
  }
}

void measureRates(const std::vector<int> &cores, const ProbeOptions &options, HostFigures &figures) {
  int numCores = int(cores.size());
  std::vector<Series> copies(figures.distances.size(), Series(copying, 2, 1, true));
  Series sums(reducing, 2, 1.5), exchanges(exchanging, numCores, 2);
  ProgramTimer timer(numCores, options.seconds / double((copies.size() + 2) * sums.sizes.size() * numRounds));
  for (int round = 0; round < numRounds; ++round) {
    for (size_t number = 0; number < copies.size(); ++number) {
      auto [first, second] = figures.distances[number].pairs.front();
      OnCores there({cores[size_t(first)], cores[size_t(second)]});
      timer.time(copies[number]);
    }
    timer.time(sums);
    timer.time(exchanges);
  }
  for (size_t number = 0; number < copies.size(); ++number)
    figures.distances[number].rates = ratesOf(copies[number], 1);
  figures.launch = std::max(0.0, copies.front().secondsAt(0) - 3 * figures.distances.front().latency);
  // Each of two ranks reads its block of both inputs, and writes its output, which is half as large.
  figures.reduction = ratesOf(sums, 1);
  ProbedRates copied = ratesOf(exchanges, 1);
  combine(copied, numCores, figures);
  copies.push_back(std::move(sums));
  copies.push_back(std::move(exchanges));
  for (const Series &series : copies)
    for (size_t size = 0; size < series.sizes.size(); ++size, ++figures.numSeries)
      figures.numUnsteady += series.isUnsteadyAt(size);
}

double gigabytes(double bytesPerSecond) { return std::stod(fmt::format("{:.4g}", bytesPerSecond / 1e9)); }
double microseconds(double seconds) { return std::stod(fmt::format("{:.4g}", seconds * 1e6)); }

ordered_json bandwidthJson(const ProbedRates &rates) {
  ordered_json steps = ordered_json::array();
  for (size_t number = 0; number + 1 < rates.size(); ++number)
    // A size between two measured ones goes by the nearer, by ratio.
    steps.push_back({{"upToBytes", int64_t(double(rates[number].workingSetBytes) * std::sqrt(2))},
                     {"gigabytesPerSecond", gigabytes(rates[number].bytesPerSecond)}});
  return {{"gigabytesPerSecond", gigabytes(rates.back().bytesPerSecond)}, {"bySize", steps}};
}

/// A link class for each distance, and a link for each pair of cores.
void addLinks(const HostFigures &figures, ordered_json &links, ordered_json &classes) {
  for (size_t number = 0; number < figures.distances.size(); ++number) {
    const CoreDistance &distance = figures.distances[number];
    ordered_json linkClass = {
        {"name", figures.distances.size() == 1 ? "pair" : fmt::format("pair at distance {}", number + 1)}};
    linkClass.update(bandwidthJson(distance.rates));
    double latency = microseconds(distance.latency);
    linkClass["latencyMicroseconds"] = {{"bulk", latency}, {"ll", latency}, {"ll128", latency}};
    auto [first, second] = distance.pairs.front();
    linkClass["source"] = fmt::format("Latency: median of {} pairs. Bandwidth: of core {} and core {}",
                                      distance.pairs.size(), first, second);
    for (auto [from, to] : distance.pairs)
      links.push_back({{"from", fmt::format("core {}", from)},
                       {"to", fmt::format("core {}", to)},
                       {"class", linkClass["name"]},
                       {"count", 1}});
    classes.push_back(std::move(linkClass));
  }
}

} // namespace

HostFigures probeHost(const ProbeOptions &options) {
  HostFigures figures;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    throw ToolError(ExitCode::Failed, "the kernel does not say which cores this process may use");
  std::vector<int> cores = coresOf(allowed);
  figures.usableCores = int(cores.size());
  cores.resize(size_t(std::min(figures.usableCores, options.mostCores)));
  figures.cores = int(cores.size());
  if (figures.cores < 2)
    throw ToolError(ExitCode::Usage, "this process has one core; what ranks do to each other shows on two at least");
  figures.distances = measureDistances(cores);
  measureRates(cores, options, figures);
  return figures;
}

std::string hostMachineFile(const HostFigures &figures, const Provenance &provenance) {
  ordered_json memory = bandwidthJson(figures.memory), lane = bandwidthJson(figures.lane);
  memory["isShared"] = true;
  memory["writes"] = bandwidthJson(figures.writes);
  lane["reduction"] = bandwidthJson(figures.reduction);
  ordered_json links = ordered_json::array(), classes = ordered_json::array();
  addLinks(figures, links, classes);
  std::string cores = figures.cores == figures.usableCores
                          ? fmt::format("{} cores", figures.cores)
                          : fmt::format("{} of {} cores", figures.cores, figures.usableCores);
  ordered_json file = {{"version", 1},
                       {"name", "host"},
                       {"title", fmt::format("{}, {}", provenance.processor, cores)},
                       {"source", fmt::format("{}, Kolo {}, {}, kernel {}", provenance.command, provenance.koloVersion,
                                              provenance.date, provenance.kernel)},
                       {"nodes", 1},
                       {"node",
                        {{"devices",
                          {{"name", "core"},
                           {"count", figures.cores},
                           {"memory", memory},
                           {"lane", lane},
                           {"launchMicroseconds", microseconds(figures.launch)}}},
                         {"links", links}}},
                       {"linkClasses", classes},
                       {"payloadShare", {{"ll", 0.5}, {"ll128", 0.9375}}}};
  return file.dump(1) + "\n";
}

} // namespace kolo::tools
