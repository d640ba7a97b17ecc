// Generated code under the thread sanitizer, ranks as threads: what the compiler leaves out of the synchronisation must
// not be missed. Plugins come from the folder that KOLO_RACE_PLUGINS names, made by compile_plugins.py; without it all
// is skipped.
//
// Every program runs in two hosts. The runtime exchanges records among all ranks at the entry of each call. That orders
// everything before a call before everything in it, on every rank. So it hides a missing entry credit, and every hazard
// between calls. The bare host adds nothing to the program's own signals, and shows these too. A signal or a credit
// that is missing inside a call shows in both.
#include "../Ranks.h"
#include "Host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string_view>
#include <thread>

using namespace kolo::race;
using namespace kolo::runtime;

namespace {

std::atomic<int> numReports, numCalls;

constexpr int callsPerJob = 3;

std::vector<std::string> pluginsIn(const std::string &folder) {
  std::vector<std::string> paths;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".so")
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Null when there are no plugins.
const char *pluginFolder() { return std::getenv("KOLO_RACE_PLUGINS"); }

unsigned seed() {
  static const unsigned value = [] {
    const char *given = std::getenv("KOLO_SEED");
    return given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device()();
  }();
  return value;
}

/// The memory of one job, one block per rank and buffer, or per rank where a call is in place.
template <class T> class JobMemory {
public:
  JobMemory(const CallShape &shape, bool isInPlace) {
    for (int rank = 0; rank < shape.numRanks(); ++rank) {
      int64_t in = shape.inputElements(rank), out = shape.outputElements(rank), offset = shape.inPlaceOffset(rank);
      bool isShared = isInPlace && in > 0 && out > 0;
      T *first = allocate(isShared ? std::max(in, out) : in);
      T *output = isShared ? first + std::max<int64_t>(0, -offset) : allocate(out);
      ranks.push_back({in ? first + (isShared ? std::max<int64_t>(0, offset) : 0) : nullptr, out ? output : nullptr});
    }
  }
  std::vector<RankBuffers> buffers() const { return ranks; }

private:
  T *allocate(int64_t elements) { return blocks.emplace_back(new T[static_cast<size_t>(elements)]()).get(); }

  std::vector<std::unique_ptr<T[]>> blocks;
  std::vector<RankBuffers> ranks;
};

/// The first element of a rank's output that is wrong, in words.
template <class T> std::string compare(const CallShape &shape, int rank, int number, const T *out) {
  const std::vector<int32_t> expected = shape.output(rank, number);
  for (size_t i = 0; i < expected.size(); ++i)
    if (out[i] != static_cast<T>(expected[i]))
      return "rank " + std::to_string(rank) + ", call " + std::to_string(number) + ": element " + std::to_string(i) +
             " is " + std::to_string(out[i]) + ", not " + std::to_string(expected[i]) + "; ";
  return {};
}

/// One rank's application: it writes its buffers, calls, and reads its output, again and again, at its own pace. It
/// goes on after a wrong result, since its peers do.
template <class T> std::string runRank(Host &host, const Job &job, int rank, unsigned pace) {
  std::minstd_rand random(pace);
  auto dawdle = [&] {
    if (random() % 3 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  };
  auto *in = static_cast<T *>(job.buffers[static_cast<size_t>(rank)].input);
  auto *out = static_cast<T *>(job.buffers[static_cast<size_t>(rank)].output);
  std::string problems;
  for (int number = 0; number < callsPerJob; ++number) {
    dawdle();
    std::fill_n(out, job.shape.outputElements(rank), T(-1));
    for (int64_t i = 0, end = job.shape.inputElements(rank); i < end; ++i)
      in[i] = static_cast<T>(CallShape::input(rank, i, number));
    dawdle();
    if (std::string failure = host.call(rank); !failure.empty())
      return problems + failure;
    ++numCalls;
    if (!job.info->granule) // a codec rounds
      problems += compare(job.shape, rank, number, out);
  }
  return problems;
}

/// What one program is run with.
struct Run {
  Host &host;
  const ProgramInfo &info;
  int lanes;
  std::minstd_rand &random;

  template <class T> std::string job(const CallShape &shape, DataType type, bool isInPlace);
  std::string jobs(CallShape shape);
};

template <class T> std::string Run::job(const CallShape &shape, DataType type, bool isInPlace) {
  JobMemory<T> memory(shape, isInPlace);
  Job job{&info, shape, type, lanes, memory.buffers()};
  host.prepare(job);
  std::vector<std::string> said(job.buffers.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < said.size(); ++rank)
    threads.emplace_back([&, rank, pace = static_cast<unsigned>(random())] {
      said[rank] = runRank<T>(host, job, static_cast<int>(rank), pace);
    });
  for (std::thread &thread : threads)
    thread.join();
  std::string all;
  for (const std::string &text : said)
    all += text;
  return all.empty() ? all
                     : "count " + std::to_string(shape.count) + ", root " + std::to_string(shape.root) +
                           (shape.hasTables ? ", with tables" : "") + (isInPlace ? ", in place: " : ": ") + all;
}

/// All roots, with and without block tables, and in place where the program itself runs in place, up to the first that
/// goes wrong. Counts and numbers of lanes take turns, and types, which change nothing but the kernel.
std::string Run::jobs(CallShape shape) {
  int numRoots = shape.isRooted() ? shape.groupSize() : 1, turn = 0, countTurn = lanes;
  const Proof *proof = info.proofOf(shape.mesh); // programs that race have none
  const bool takesTables = proof && proof->takesTables;
  for (auto [count, hasTables] :
       {std::pair(1, false), {7, false}, {333, false}, {1500, false}, {7, true}, {1500, true}}) {
    if (++countTurn % 2)
      continue;
    for (int root = 0; root < numRoots; ++root)
      for (bool isInPlace : {false, true}) {
        // An all-to-all in place has the same tables for input and output: the oracle's differ.
        const bool hasOnePlace = isInPlace && hasTables && info.collective == CollectiveKind::AllToAll;
        if ((isInPlace && info.inPlace != InPlace::Direct) || (hasTables && !takesTables) || hasOnePlace)
          continue;
        shape.hasTables = hasTables;
        shape.count = count;
        shape.root = root;
        const bool isFloat = info.granule || ++turn % 2; // codecs store no integers
        std::string problem =
            isFloat ? job<float>(shape, DataType::F32, isInPlace) : job<int32_t>(shape, DataType::I32, isInPlace);
        if (!problem.empty())
          return problem;
      }
  }
  return {};
}

enum class HostKind { Runtime, Bare };

/// The bare host shows what the runtime shows of a program, and takes one lane and two. In the runtime they take turns,
/// by the number of the plugin and of the mesh, but with KOLO_SWEEP=all.
std::vector<int> lanesFor(HostKind kind, size_t turn) {
  const char *sweep = std::getenv("KOLO_SWEEP");
  if (kind == HostKind::Bare || (sweep && std::string_view(sweep) == "all"))
    return {1, 2};
  return {1 + int(turn % 2)};
}

/// Everything about the programs of a plugin in one host; says what went wrong with results.
std::string runPlugin(const std::string &path, HostKind kind, size_t turn) {
  auto plugin = Plugin::load(path);
  if (!plugin.isOk())
    return plugin.status().message();
  std::minstd_rand random(seed());
  std::string problems;
  for (const ProgramInfo &info : plugin->programs())
    for (const std::vector<int64_t> &mesh : info.meshes)
      for (int lanes : lanesFor(kind, turn++)) {
        std::unique_ptr<Host> host =
            kind == HostKind::Bare ? makeBareHost(path, info) : makeRuntimeHost(*plugin, info, mesh, lanes);
        problems += Run{*host, info, lanes, random}.jobs({info.collective, mesh, info.groupDims});
      }
  return problems;
}

class GeneratedCode : public testing::TestWithParam<HostKind> {
protected:
  void SetUp() override {
    if (!pluginFolder())
      GTEST_SKIP() << "KOLO_RACE_PLUGINS names no folder of plugins compiled with --sanitize thread";
    std::cout << "KOLO_SEED=" << seed() << " repeats this run\n";
  }
};

/// Ends the process as the sanitizer then decides: with its own code when it has seen a race.
[[noreturn]] void runAndExit(const std::string &path, HostKind kind) {
  for (size_t turn : {0u, 1u})
    std::string ignored = runPlugin(path, kind, turn); // with a race the results may be right or wrong
  std::exit(0);
}

constexpr int exitCodeOfRaces = 66; // the sanitizer's own

/// Runs a plugin in a process of its own, which ends at the first race.
void expectRace(const std::string &path, HostKind kind) {
  SCOPED_TRACE(path);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  kolo::test::ScopedVariable options("TSAN_OPTIONS", "halt_on_error=1");
  EXPECT_EXIT(runAndExit(path, kind), testing::ExitedWithCode(exitCodeOfRaces), "ThreadSanitizer: data race");
}

} // namespace

/// Called by the sanitizer for every report.
extern "C" void __tsan_on_report(void *) { ++numReports; }

TEST_P(GeneratedCode, HasNoRaces) {
  std::vector<std::string> paths = pluginsIn(pluginFolder());
  ASSERT_FALSE(paths.empty()) << pluginFolder() << " has no plugins";
  numCalls = 0;
  for (size_t number = 0; const std::string &path : paths) {
    SCOPED_TRACE(path);
    numReports = 0;
    EXPECT_EQ(runPlugin(path, GetParam(), number++), "");
    EXPECT_EQ(numReports, 0) << "the thread sanitizer has found races";
  }
  std::cout << paths.size() << " plugins, " << numCalls << " calls of a rank\n";
}

TEST_P(GeneratedCode, IsSeenToRaceWhereASignalIsMissing) {
  std::vector<std::string> paths = pluginsIn(std::string(pluginFolder()) + "/racy");
  ASSERT_FALSE(paths.empty());
  for (const std::string &path : paths)
    expectRace(path, GetParam());
}

TEST_P(GeneratedCode, IsSeenToRaceWhereAnEntryCreditIsMissingUnlessTheHostOrdersEntries) {
  std::vector<std::string> paths = pluginsIn(std::string(pluginFolder()) + "/eager");
  ASSERT_FALSE(paths.empty());
  for (const std::string &path : paths) {
    if (GetParam() == HostKind::Bare)
      expectRace(path, GetParam());
    else
      EXPECT_EQ(runPlugin(path, GetParam(), 0) + runPlugin(path, GetParam(), 1), "");
  }
  EXPECT_EQ(numReports, 0);
}

INSTANTIATE_TEST_SUITE_P(Hosts, GeneratedCode, testing::Values(HostKind::Runtime, HostKind::Bare),
                         [](const auto &host) { return host.param == HostKind::Bare ? "Bare" : "Runtime"; });
