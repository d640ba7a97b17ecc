#include "driver/Probe.h"
#include "driver/Compile.h"
#include "driver/RankRunner.h"
#include "driver/TemporaryFile.h"

#include "kolo/runtime/Communicator.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <thread>

#include <sched.h>

namespace kolo::tools {

using nlohmann::ordered_json;

namespace {

constexpr int64_t smallBytes = 64, leastBytes = 32 << 10, mostBytes = int64_t(128) << 20;
constexpr int64_t mostMemoryBytes = int64_t(1) << 30; // of all ranks together
constexpr int roundTrips = 400, batches = 7;
constexpr size_t rounds = 3; // seconds apart: a virtual machine is in one of several states for a while
constexpr int mostCores = 64;
constexpr const char *programs[] = {"directBroadcast", "directReduce", "allPairsAllGather"};

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double medianOf(std::vector<double> values) {
  auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// The slowest of the fastest tenth.
double fastestTenthOf(std::vector<double> values) {
  auto place = values.begin() + std::ptrdiff_t(values.size() / 10);
  std::ranges::nth_element(values, place);
  return *place;
}

/// Those that this process may use.
std::vector<int> usableCores() {
  cpu_set_t allowed;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
    for (int core = 0; core < CPU_SETSIZE && int(cores.size()) < mostCores; ++core)
      if (CPU_ISSET(core, &allowed))
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
    throw ToolError(ExitCode::Failed, status.message());
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
    throw ToolError(ExitCode::Failed, ranks.status().message());
  std::vector<double> seconds;
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
  return medianOf(seconds);
}

/// Runs shipped programs of one plugin.
class ProgramTimer {
public:
  ProgramTimer(HostFigures &figures, const ProbeOptions &options) : figures(figures), options(options), file("so") {
    CompileRequest request;
    for (const char *name : programs)
      request.definitions.push_back(findShipped(name));
    request.meshes = {meshOf(2)};
    if (figures.cores > 2)
      request.meshes.push_back(meshOf(figures.cores));
    request.output = file.path();
    compile(request);
    auto loaded = runtime::Plugin::load(file.path());
    if (!loaded.isOk())
      throw ToolError(ExitCode::Failed, loaded.status().message());
    plugin = std::move(loaded).value();
  }

  /// Seconds of one call in place, for each size of the larger buffer of a rank; medians.
  std::vector<double> time(const std::string &program, int ranks, const std::vector<int64_t> &sizes) {
    RankJob job{*plugin, program, meshOf(ranks)};
    job.isInPlace = true;
    job.check = false;
    int64_t blocks = program == "allPairsAllGather" ? ranks : 1;
    double secondsPerRound = options.seconds / double(std::size(programs) * sizes.size() * rounds);
    for (size_t round = 0; round < rounds; ++round)
      for (int64_t bytes : sizes) {
        double guess = 5e-6 + double(bytes) * double(blocks) / 5e9;
        job.sizes.push_back(
            {bytes / blocks / int64_t(sizeof(float)), 2, int(std::clamp(secondsPerRound / guess, 3.0, 500.0))});
      }
    std::vector<Timings> timings = runRanks(job, [](size_t) {});
    std::vector<double> seconds;
    for (size_t size = 0; size < sizes.size(); ++size) {
      Timings all;
      for (size_t round = 0; round < rounds; ++round) {
        const Timings &once = timings[round * sizes.size() + size];
        all.insert(all.end(), once.begin(), once.end());
      }
      seconds.push_back(medianOf(all) / 1e6);
      ++figures.numSeries;
      figures.numUnsteady += medianOf(all) > 2 * fastestTenthOf(all);
    }
    return seconds;
  }

private:
  static runtime::Mesh meshOf(int ranks) { return *runtime::Mesh::create({{"rank", ranks}}); }

  HostFigures &figures;
  ProbeOptions options;
  TemporaryFile file;
  std::optional<runtime::Plugin> plugin;
};

std::vector<int64_t> sizesFor(int cores) {
  std::vector<int64_t> sizes = {smallBytes * cores};
  for (int64_t bytes = leastBytes; bytes <= std::min(mostBytes, mostMemoryBytes / cores); bytes *= 2)
    sizes.push_back(bytes);
  return sizes;
}

/// Bytes per second, without what a small call takes too. Where that is most of the time, the rest is too small a
/// difference, and a quarter is taken.
double rateOf(double bytes, double seconds, double smallSeconds) {
  return bytes / std::max(seconds - smallSeconds, seconds / 4);
}

ordered_json bandwidthJson(const std::vector<ProbedRates> &rates, double ProbedRates::*rate) {
  auto gigabytes = [&](const ProbedRates &row) { return std::stod(fmt::format("{:.4g}", row.*rate / 1e9)); };
  ordered_json steps = ordered_json::array();
  for (size_t number = 0; number + 1 < rates.size(); ++number)
    // A size between two measured ones goes by the nearer, by ratio.
    steps.push_back({{"upToBytes", int64_t(double(rates[number].bytes) * std::sqrt(2))},
                     {"gigabytesPerSecond", gigabytes(rates[number])}});
  return {{"gigabytesPerSecond", gigabytes(rates.back())}, {"bySize", steps}};
}

} // namespace

HostFigures probeHost(const ProbeOptions &options) {
  HostFigures figures;
  std::vector<int> cores = usableCores();
  figures.cores = int(cores.size());
  if (figures.cores < 2)
    throw ToolError(ExitCode::Usage, "this process has one core; what ranks do to each other shows on two at least");
  std::vector<double> latencies;
  for (int other : std::span(cores).subspan(1))
    latencies.push_back(signalLatency(cores[0], other));
  figures.latency = medianOf(latencies);
  figures.leastLatency = std::ranges::min(latencies);
  figures.mostLatency = std::ranges::max(latencies);
  ProgramTimer timer(figures, options);
  std::vector<int64_t> sizes = sizesFor(figures.cores);
  std::vector<double> broadcast = timer.time("directBroadcast", 2, sizes),
                      reduce = timer.time("directReduce", 2, sizes),
                      gather = timer.time("allPairsAllGather", figures.cores, sizes);
  figures.launch = std::max(0.0, broadcast.front() - 2 * figures.latency);
  for (size_t number = 1; number < sizes.size(); ++number) {
    auto bytes = double(sizes[number]);
    double lane = rateOf(bytes, broadcast[number], broadcast.front()),
           reduction = rateOf(bytes, reduce[number], reduce.front()),
           // Every rank reads its block, and writes it, for each of the others.
        memory = rateOf(2 * (figures.cores - 1) * bytes, gather[number], gather.front());
    // One rank alone reads and writes twice what it moves, and three times what it reduces.
    figures.rates.push_back({sizes[number], lane, reduction, std::max({memory, 2 * lane, 3 * reduction})});
  }
  return figures;
}

std::string hostMachineFile(const HostFigures &figures, const Provenance &provenance) {
  auto microseconds = [](double seconds) { return std::stod(fmt::format("{:.4g}", seconds * 1e6)); };
  double half = microseconds(figures.latency / 2);
  ordered_json memory = bandwidthJson(figures.rates, &ProbedRates::memory);
  ordered_json bus = {{"name", "bus"}};
  bus.update(memory);
  bus["latencyMicroseconds"] = {{"bulk", half}, {"ll", half}, {"ll128", half}};
  bus["source"] =
      "Bandwidth: the memory's, which all cores share. Latency: half of a signal's, since a way has two links";
  memory["isShared"] = true;
  ordered_json lane = bandwidthJson(figures.rates, &ProbedRates::lane);
  lane["reduction"] = bandwidthJson(figures.rates, &ProbedRates::reduction);
  ordered_json links = ordered_json::array();
  for (int core = 0; core < figures.cores; ++core)
    links.push_back({{"from", fmt::format("core {}", core)}, {"to", "memory"}, {"class", "bus"}, {"count", 1}});
  ordered_json file = {{"version", 1},
                       {"name", "host"},
                       {"title", fmt::format("{}, {} cores", provenance.processor, figures.cores)},
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
                         {"switches", ordered_json::array({{{"name", "memory"}}})},
                         {"links", links}}},
                       {"linkClasses", ordered_json::array({bus})},
                       {"payloadShare", {{"ll", 0.5}, {"ll128", 0.9375}}}};
  return file.dump(1) + "\n";
}

} // namespace kolo::tools
