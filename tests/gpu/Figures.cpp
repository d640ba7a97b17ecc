// kolo_gpu_figures PART [--largest BYTES] [--seconds NUMBER] [--plain IMAGE]: how fast packed collectives are on one
// device, and what else moves the same bytes there. One line of JSON per figure. Nothing that gives a wrong result is
// measured. The part `once` runs [--program NAME] [--protocol NAME] [--ranks N] [--lanes N] [--threads N] for a
// profiler. Exit codes: 0 success; 1 a result was wrong; 2 bad arguments, or no device; 3 the time was over.
#include "Bench.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <span>

using namespace kolo;
using namespace kolo::test;
using nlohmann::json;

namespace {

struct Settings {
  int64_t largestBytes = int64_t(1) << 30;
  double seconds = 60;
  std::string plainImage;
  std::string program = "ringAllReduce", protocol = "bulk"; // of `once`
  int ranks = Bench::maxRanks, lanes = 8, threads = 512;
};

/// As Job in plain.cu.
struct PlainJob {
  uint32_t collective, numRanks;
  uint64_t blockVectors;
  const void *inputs[Bench::maxRanks];
  void *outputs[Bench::maxRanks];
};

constexpr runtime::CollectiveKind collectives[] = {
    runtime::CollectiveKind::AllGather, runtime::CollectiveKind::ReduceScatter, runtime::CollectiveKind::AllReduce,
    runtime::CollectiveKind::Broadcast, runtime::CollectiveKind::AllToAll}; // in the order of plain.cu

/// A call on f32 whose larger buffer has so many bytes.
DeviceCall callOf(runtime::CollectiveKind collective, int numRanks, int64_t numBytes) {
  DeviceCall call{collective, {0}, *runtime::Mesh::create({{"rank", numRanks}}), numBytes / 4};
  runtime::CollectiveFacts facts = runtime::factsOf(collective);
  if (runtime::isPerRank(facts.input) || runtime::isPerRank(facts.output))
    call.count /= numRanks;
  return call;
}

/// What has to be read and written: each input and each output once.
int64_t leastBytes(const DeviceCall &call) {
  int64_t numRanks = call.mesh.numRanks();
  auto times = [&](KoloExtent extent) { return runtime::isAtRoot(extent) ? 1 : numRanks; };
  runtime::CollectiveFacts facts = runtime::factsOf(call.collective);
  return times(facts.input) * int64_t(call.inputBytes()) + times(facts.output) * int64_t(call.outputBytes());
}

class Figures {
public:
  Figures(const Settings &chosen) : settings(chosen), bench(size_t(chosen.largestBytes), chosen.seconds) {}

  void limits();
  void collectivesBySize();
  void smallSizes();
  void lanes();
  void rivals();
  /// Three calls of one program, the larger buffer as large as the largest. For profilers.
  void once();

  bool isRight = true;

private:
  using Way = Spread (Bench::*)(const Bench::Body &);
  struct NamedWay {
    const char *name;
    Way measure;
  };
  static constexpr NamedWay onDevice[] = {{"device", &Bench::onDevice}};
  static constexpr NamedWay allWays[] = {
      {"device", &Bench::onDevice}, {"queued", &Bench::queued}, {"graph", &Bench::inGraph}, {"host", &Bench::onHost}};

  /// Launches matter to small sizes only.
  static std::span<const NamedWay> waysFor(int64_t numBytes) {
    return numBytes <= 1 << 20 ? std::span<const NamedWay>(allWays) : onDevice;
  }

  /// How a program is run.
  struct Setup {
    const DeviceAlgorithm *algorithm;
    std::string protocol;
    int numRanks, lanes, threads;
  };
  void measureProgram(const Setup &setup, const std::vector<int64_t> &sizes, std::span<const NamedWay> ways);
  void measureAll(json line, std::span<const NamedWay> ways, const Bench::Body &body);
  void measureCopies(const DeviceCall &call, int64_t numBytes);
  void measureKernel(const DeviceCall &call, int64_t numBytes);
  bool isVerified(json line, const DeviceCall &call, const Bench::Body &body);
  void print(const json &line) { std::printf("%s\n", line.dump().c_str()), std::fflush(stdout); }

  /// An algorithm that was packed; else says that it is missing.
  const DeviceAlgorithm *find(const std::string &name, const std::string &protocol);
  /// From a smallest size to the largest, each four times the one before.
  std::vector<int64_t> sizesFrom(int64_t smallest) const;
  std::vector<runtime::RankBuffers> buffersOf(int numRanks) const;

  bool loadPlain();
  /// With the job in `jobMemory`.
  void launchPlain(const char *name, int numBlocks);

  const Settings &settings;
  Bench bench;
  std::map<std::string, DeviceAlgorithm> algorithms; // by name and protocol
  CUmodule plain = nullptr;
  std::optional<runtime::DeviceBuffer> jobMemory;
};

const DeviceAlgorithm *Figures::find(const std::string &name, const std::string &protocol) {
  std::string key = name + "." + protocol;
  if (auto found = algorithms.find(key); found != algorithms.end())
    return &found->second;
  if (std::vector<std::string> names = algorithmNames(protocol); std::ranges::find(names, name) == names.end()) {
    print({{"missing", key}});
    return nullptr;
  }
  return &algorithms.emplace(key, DeviceAlgorithm(name, protocol)).first->second;
}

std::vector<int64_t> Figures::sizesFrom(int64_t smallest) const {
  std::vector<int64_t> sizes;
  for (int64_t size = smallest; size <= settings.largestBytes; size *= 4)
    sizes.push_back(size);
  return sizes;
}

std::vector<runtime::RankBuffers> Figures::buffersOf(int numRanks) const {
  std::vector<runtime::RankBuffers> buffers;
  for (size_t rank = 0; rank < size_t(numRanks); ++rank)
    buffers.push_back({bench.inputs[rank].data(), bench.outputs[rank].data()});
  return buffers;
}

void Figures::measureAll(json line, std::span<const NamedWay> ways, const Bench::Body &body) {
  for (const NamedWay &way : ways) {
    Spread spread = (bench.*way.measure)(body);
    line["way"] = way.name;
    auto rounded = [](double us) { return std::round(us * 1000) / 1000; };
    line["us"] = rounded(spread.median), line["lowUs"] = rounded(spread.low), line["highUs"] = rounded(spread.high);
    line["repetitions"] = spread.repetitions;
    print(line);
  }
}

/// On a small call; says so when the result is wrong.
bool Figures::isVerified(json line, const DeviceCall &call, const Bench::Body &body) {
  std::string wrong = bench.verify(call, body);
  if (wrong.empty())
    return true;
  line["wrong"] = wrong;
  print(line);
  return isRight = false;
}

void Figures::measureProgram(const Setup &setup, const std::vector<int64_t> &sizes, std::span<const NamedWay> ways) {
  const runtime::ProgramInfo &info = setup.algorithm->info();
  StandInThreads threads(setup.protocol == "ll128" ? threadsPerLine : standInThreads);
  json line = {{"figure", "collective"},   {"collective", runtime::toString(info.collective)},
               {"program", info.name},     {"protocol", setup.protocol},
               {"ranks", setup.numRanks},  {"lanes", setup.lanes},
               {"threads", setup.threads}, {"bytes", 0}};
  auto communicator = valueOf(runtime::DeviceCommunicator::createLocal(
      std::vector<int>(size_t(setup.numRanks), 0), {.lanes = setup.lanes, .threads = setup.threads}));
  std::vector<runtime::RankBuffers> buffers = buffersOf(setup.numRanks);
  std::vector<runtime::StreamHandle> streams(buffers.size(), bench.stream.handle());
  auto run = [&](const DeviceCall &call) {
    return communicator.run(setup.algorithm->plugin, argumentsOf(call), buffers, streams);
  };
  DeviceCall small = callOf(info.collective, setup.numRanks, std::min<int64_t>(settings.largestBytes, 64 << 10));
  if (runtime::Status status = run(small); status.code() == runtime::StatusCode::InvalidArgument) {
    line["refused"] = status.message();
    return print(line);
  }
  if (!isVerified(line, small, [&] { expectOk(run(small)); }))
    return;
  for (int64_t numBytes : sizes) {
    DeviceCall call = callOf(info.collective, setup.numRanks, numBytes);
    line["bytes"] = numBytes, line["leastBytes"] = leastBytes(call);
    measureAll(line, ways, [&] { expectOk(run(call)); });
    expectOk(communicator.synchronize());
  }
}

void Figures::collectivesBySize() {
  for (int numRanks : {8, 4, 2})
    for (const char *name :
         {"allPairsAllGather", "twoShotAllReduce", "allPairsReduceScatter", "directAllToAll", "directBroadcast",
          "oneShotAllReduce", "ringAllGather", "ringAllReduce", "ringReduceScatter", "scatterAllGatherBroadcast"})
      if (const DeviceAlgorithm *algorithm = find(name, "bulk"))
        for (int lanes :
             isStandIn() ? std::set<int>{2} : std::set<int>{8, 16, 128 / numRanks}) // the last: a whole device
          measureProgram({algorithm, "bulk", numRanks, lanes, 512}, sizesFrom(1 << 10), onDevice);
}

void Figures::smallSizes() {
  std::vector<int64_t> sizes = sizesFrom(512); // with 8 KiB
  std::erase_if(sizes, [](int64_t size) { return size > 128 << 10; });
  for (int numRanks : {8, 2})
    for (const char *name : {"oneShotAllReduce", "twoShotAllReduce", "allPairsAllGather", "directAllToAll"})
      for (const char *protocol : {"ll", "ll128", "bulk"})
        if (const DeviceAlgorithm *algorithm = find(name, protocol))
          for (int lanes : isStandIn() ? std::vector<int>{1} : std::vector<int>{1, 4, 8, 16})
            measureProgram({algorithm, protocol, numRanks, lanes, 256}, sizes, allWays);
}

void Figures::lanes() {
  std::vector<int64_t> sizes = sizesFrom(64 << 10); // 64 KiB, 4 MiB, 256 MiB of 1 GiB
  std::erase_if(sizes, [](int64_t size) { return size != 64 << 10 && size != 4 << 20 && size != 256 << 20; });
  if (isStandIn())
    sizes = {settings.largestBytes};
  for (const char *name : {"twoShotAllReduce", "allPairsAllGather", "directAllToAll"})
    if (const DeviceAlgorithm *algorithm = find(name, "bulk"))
      // The stand-in refuses 64 lanes of 512 threads, as devices refuse what does not fit.
      for (int threads : isStandIn() ? std::vector<int>{512} : std::vector<int>{128, 256, 512})
        for (int lanes : isStandIn() ? std::vector<int>{1, 2, 64} : std::vector<int>{1, 2, 4, 8, 16, 32, 64})
          measureProgram({algorithm, "bulk", 8, lanes, threads}, sizes, onDevice);
}

bool Figures::loadPlain() {
  if (plain)
    return true;
  std::ifstream stream(settings.plainImage, std::ios::binary);
  std::string image((std::istreambuf_iterator<char>(stream)), {});
  if (image.empty()) {
    print({{"missing", "the plain kernel"}});
    return false;
  }
  expectDriver(driverFunction<decltype(cuModuleLoadData)>("cuModuleLoadData")(&plain, image.c_str()),
               "loading the plain kernel");
  jobMemory = valueOf(bench.home.allocate(0, sizeof(PlainJob)));
  return true;
}

void Figures::launchPlain(const char *name, int numBlocks) {
  CUfunction function = nullptr;
  expectDriver(driverFunction<decltype(cuModuleGetFunction)>("cuModuleGetFunction")(&function, plain, name), name);
  void *argument = jobMemory->data(), *arguments[] = {&argument};
  expectDriver(driverFunction<decltype(cuLaunchKernel)>("cuLaunchKernel")(
                   function, unsigned(numBlocks), 1, 1, 512, 1, 1, 0, static_cast<CUstream>(bench.stream.handle()),
                   arguments, nullptr),
               name);
}

void Figures::limits() {
  for (int64_t numBytes : sizesFrom(1 << 10))
    measureAll({{"figure", "copy"}, {"bytes", numBytes}, {"leastBytes", 2 * numBytes}}, onDevice,
               [&] { bench.copy(bench.outputs[0].data(), bench.inputs[0].data(), size_t(numBytes)); });
  if (!loadPlain())
    return;
  for (int blocks : {1, isStandIn() ? 8 : 64})
    measureAll({{"figure", "launch"}, {"blocks", blocks}, {"threads", 512}}, allWays,
               [&] { launchPlain("plainNothing", blocks); });
}

/// As many copies as a caller of cudaMemcpyAsync needs.
void Figures::measureCopies(const DeviceCall &call, int64_t numBytes) {
  json line = {{"figure", "copies"},
               {"collective", runtime::toString(call.collective)},
               {"ranks", call.mesh.numRanks()},
               {"bytes", numBytes},
               {"leastBytes", leastBytes(call)}};
  auto move = [&](const DeviceCall &called) {
    const bool isBroadcast = called.collective == runtime::CollectiveKind::Broadcast;
    const size_t numRanks = size_t(called.mesh.numRanks()), block = size_t(called.count) * 4;
    for (size_t to = 0; to < numRanks; ++to)
      for (size_t from = 0; from < (isBroadcast ? 1 : numRanks); ++from) {
        size_t offset = called.collective == runtime::CollectiveKind::AllToAll ? to * block : 0;
        bench.copy(static_cast<std::byte *>(bench.outputs[to].data()) + from * block,
                   static_cast<std::byte *>(bench.inputs[from].data()) + offset, block);
      }
  };
  DeviceCall small = callOf(call.collective, call.mesh.numRanks(), 1 << 10);
  if (isVerified(line, small, [&] { move(small); }))
    measureAll(line, waysFor(numBytes), [&] { move(call); });
}

void Figures::measureKernel(const DeviceCall &call, int64_t numBytes) {
  json line = {{"figure", "kernel"},
               {"collective", runtime::toString(call.collective)},
               {"ranks", call.mesh.numRanks()},
               {"bytes", numBytes},
               {"leastBytes", leastBytes(call)}};
  const int numBlocks = isStandIn() ? 2 : 528; // four for each of 132 multiprocessors
  auto prepare = [&](const DeviceCall &called) {
    PlainJob job = {uint32_t(std::ranges::find(collectives, called.collective) - collectives),
                    uint32_t(called.mesh.numRanks()),
                    uint64_t(called.count) / 4,
                    {},
                    {}};
    for (size_t rank = 0; rank < job.numRanks; ++rank)
      job.inputs[rank] = bench.inputs[rank].data(), job.outputs[rank] = bench.outputs[rank].data();
    expectOk(jobMemory->write(0, &job, sizeof(job)));
  };
  DeviceCall small = callOf(call.collective, call.mesh.numRanks(), 1 << 10);
  prepare(small);
  if (!isVerified(line, small, [&] { launchPlain("plainMove", numBlocks); }))
    return;
  prepare(call);
  measureAll(line, waysFor(numBytes), [&] { launchPlain("plainMove", numBlocks); });
}

void Figures::rivals() {
  bool havePlain = loadPlain();
  for (int numRanks : {8, 4, 2})
    for (runtime::CollectiveKind collective : collectives)
      for (int64_t numBytes : sizesFrom(1 << 10)) {
        DeviceCall call = callOf(collective, numRanks, numBytes);
        if (!runtime::factsOf(collective).reduces)
          measureCopies(call, numBytes);
        if (havePlain)
          measureKernel(call, numBytes);
      }
}

void Figures::once() {
  const DeviceAlgorithm *algorithm = find(settings.program, settings.protocol);
  if (!algorithm)
    throw std::runtime_error(settings.program + "." + settings.protocol + " was not packed");
  auto communicator = valueOf(runtime::DeviceCommunicator::createLocal(
      std::vector<int>(size_t(settings.ranks), 0), {.lanes = settings.lanes, .threads = settings.threads}));
  std::vector<runtime::StreamHandle> streams(size_t(settings.ranks), bench.stream.handle());
  DeviceCall call = callOf(algorithm->info().collective, settings.ranks, settings.largestBytes);
  for (int number = 0; number < 3; ++number) {
    expectOk(communicator.run(algorithm->plugin, argumentsOf(call), buffersOf(settings.ranks), streams));
    expectOk(communicator.synchronize());
  }
}

struct Part {
  const char *name;
  void (Figures::*measure)();
};
constexpr Part parts[] = {{"limits", &Figures::limits},    {"collectives", &Figures::collectivesBySize},
                          {"small", &Figures::smallSizes}, {"lanes", &Figures::lanes},
                          {"rivals", &Figures::rivals},    {"once", &Figures::once}};

/// Nothing when an argument is not as it must be.
std::optional<Settings> parse(std::span<char *> flags) {
  Settings settings;
  for (size_t at = 0; at + 1 < flags.size(); at += 2) {
    std::string flag = flags[at], value = flags[at + 1];
    if (flag == "--largest")
      settings.largestBytes = std::atoll(value.c_str());
    else if (flag == "--seconds")
      settings.seconds = std::atof(value.c_str());
    else if (flag == "--plain")
      settings.plainImage = value;
    else if (flag == "--program")
      settings.program = value;
    else if (flag == "--protocol")
      settings.protocol = value;
    else if (flag == "--ranks")
      settings.ranks = std::clamp(std::atoi(value.c_str()), 2, Bench::maxRanks);
    else if (flag == "--lanes")
      settings.lanes = std::atoi(value.c_str());
    else if (flag == "--threads")
      settings.threads = std::atoi(value.c_str());
    else
      return std::nullopt;
  }
  bool isWhole = flags.size() % 2 == 0 && settings.largestBytes >= 1 << 10 && settings.seconds > 0;
  return isWhole ? std::optional(settings) : std::nullopt;
}

int describe() {
  auto device = runtime::describeDevice(runtime::DeviceKind::Cuda, 0);
  if (!device.isOk())
    return std::fprintf(stderr, "%s\n", device.status().message().c_str()), 2;
  json line = {{"name", device->name}, {"architecture", device->architecture}, {"memoryBytes", device->memoryBytes}};
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

int measure(const Part &part, const Settings &settings) {
  try {
    Figures figures(settings);
    (figures.*part.measure)();
    return figures.isRight ? 0 : 1;
  } catch (const OutOfTime &) {
    return std::fprintf(stderr, "the time was over\n"), 3;
  } catch (const std::exception &problem) {
    return std::fprintf(stderr, "%s\n", problem.what()), 1;
  }
}

} // namespace

int main(int argc, char **argv) {
  std::string name = argc > 1 ? argv[1] : "";
  if (name == "device" && argc == 2)
    return describe();
  auto part = std::ranges::find_if(parts, [&](const Part &known) { return name == known.name; });
  std::optional<Settings> settings = parse(std::span(argv, size_t(argc)).subspan(std::min(argc, 2)));
  if (part == std::end(parts) || !settings)
    return std::fprintf(stderr, "usage: kolo_gpu_figures device|limits|collectives|small|lanes|rivals|once "
                                "[--largest BYTES] [--seconds NUMBER] [--plain IMAGE]\n"),
           2;
  if (std::string why = whyNoDevice(); !why.empty())
    return std::fprintf(stderr, "%s\n", why.c_str()), 2;
  return measure(*part, *settings);
}
