// Correct results for all kinds of ranks and memory, and for several numbers of lanes and counts.
#include "Ranks.h"
#include "TestPlugin.h"
#include "kolo/runtime/Plugin.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

Mesh mesh(const std::string &text) { return *Mesh::parse(text); }

/// Memory of one call, in a window or on the heap.
class Block {
public:
  Block(Communicator &communicator, bool inWindow, size_t elements) : heap(inWindow ? 0 : elements + 1) {
    if (inWindow)
      window.emplace(std::move(communicator.allocate((elements + 1) * sizeof(int32_t))).value());
  }
  int32_t *data() { return window ? static_cast<int32_t *>(window->data()) : heap.data(); }

private:
  std::optional<Window> window;
  std::vector<int32_t> heap;
};

int32_t valueOf(int rank, int64_t index, int call) {
  return static_cast<int32_t>(rank * 1000003 + index * 7 + call * 31 + 1);
}

std::string compare(const int32_t *found, int64_t count, const std::function<int32_t(int64_t)> &expected) {
  for (int64_t i = 0; i < count; ++i)
    if (found[i] != expected(i)) {
      std::ostringstream text;
      text << "element " << i << " of " << count << " is " << found[i] << ", not " << expected(i) << "; ";
      return text.str();
    }
  return {};
}

struct Setting {
  bool inWindow = false;
  bool isInPlace = false;
};

std::string allGather(Communicator &communicator, int64_t count, Setting setting, int call) {
  int n = communicator.size(), me = communicator.rank();
  Block in(communicator, setting.inWindow, static_cast<size_t>(count));
  Block out(communicator, setting.inWindow, static_cast<size_t>(count * n));
  int32_t *input = setting.isInPlace ? out.data() + me * count : in.data();
  std::fill_n(out.data(), count * n + 1, -1);
  for (int64_t i = 0; i < count; ++i)
    input[i] = valueOf(me, i, call);
  CallArguments arguments{"ringAllGather", mesh("rank=" + std::to_string(n)), count, DataType::I32};
  arguments.input = input;
  arguments.output = out.data();
  if (Status status = communicator.run(testPlugin(), arguments); !status.isOk())
    return status.message();
  if (out.data()[count * n] != -1)
    return "wrote past the end; ";
  return compare(out.data(), count * n,
                 [&](int64_t i) { return valueOf(static_cast<int>(i / count), i % count, call); });
}

std::string allReduce(const char *program, Communicator &communicator, int64_t count, Setting setting, int call) {
  int n = communicator.size(), me = communicator.rank();
  Block in(communicator, setting.inWindow, static_cast<size_t>(count));
  Block out(communicator, setting.inWindow, static_cast<size_t>(count));
  int32_t *input = setting.isInPlace ? out.data() : in.data();
  std::fill_n(out.data(), count + 1, -1);
  for (int64_t i = 0; i < count; ++i)
    input[i] = valueOf(me, i, call);
  CallArguments arguments{program, mesh("rank=" + std::to_string(n)), count, DataType::I32, Reduction::Sum};
  arguments.input = input;
  arguments.output = out.data();
  if (Status status = communicator.run(testPlugin(), arguments); !status.isOk())
    return status.message();
  return compare(out.data(), count, [&](int64_t i) {
    uint32_t sum = 0;
    for (int rank = 0; rank < n; ++rank)
      sum += static_cast<uint32_t>(valueOf(rank, i, call));
    return static_cast<int32_t>(sum);
  });
}

std::string broadcast(Communicator &communicator, int64_t count, Setting setting, int call) {
  int me = communicator.rank(), row = me / 2, column = me % 2, root = call % 2;
  Block in(communicator, setting.inWindow, static_cast<size_t>(count));
  Block out(communicator, setting.inWindow, static_cast<size_t>(count));
  std::fill_n(out.data(), count + 1, -1);
  bool isRoot = column == root;
  int32_t *input = setting.isInPlace ? out.data() : in.data();
  for (int64_t i = 0; isRoot && i < count; ++i)
    input[i] = valueOf(row, i, call);
  CallArguments arguments{"rowBroadcast", mesh("node=2,gpu=2"), count, DataType::I32, Reduction::Sum, root};
  arguments.input = isRoot ? input : nullptr;
  arguments.output = out.data();
  if (Status status = communicator.run(testPlugin(), arguments); !status.isOk())
    return status.message();
  return compare(out.data(), count, [&](int64_t i) { return valueOf(row, i, call); });
}

/// All programs, counts and settings, back to back, with ranks out of step.
std::string runEverything(Communicator &communicator, int64_t largest) {
  std::minstd_rand random(static_cast<unsigned>(communicator.rank() + 1));
  std::string said;
  int call = 0;
  for (int64_t count : {int64_t(0), int64_t(1), int64_t(7), int64_t(1001), largest})
    for (Setting setting : {Setting{false, false}, Setting{true, false}, Setting{false, true}, Setting{true, true}}) {
      if (random() % 3 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      said += allGather(communicator, count, setting, ++call);
      said += allReduce("pullAllReduce", communicator, count, setting, ++call);
      said += allReduce("scratchAllReduce", communicator, count, setting, ++call);
      if (communicator.size() == 4)
        said += broadcast(communicator, count, setting, ++call);
      if (!said.empty())
        return said + "at count " + std::to_string(count) + (setting.inWindow ? " in windows" : "") +
               (setting.isInPlace ? " in place" : "");
    }
  return said;
}

struct Case {
  Launch kind;
  int ranks;
  int lanes;
  const char *memory;
};

void PrintTo(const Case &c, std::ostream *out) {
  *out << c.kind << " ranks " << c.ranks << " lanes " << c.lanes << " " << c.memory;
}

class EveryLaunch : public testing::TestWithParam<Case> {};

} // namespace

TEST_P(EveryLaunch, GivesEveryRankTheRightResult) {
  ASSERT_TRUE(Plugin::load(KOLO_TEST_PLUGIN).isOk());
  (void)testPlugin(); // before the fork
  ScopedVariable memory("KOLO_ORDINARY_MEMORY", GetParam().memory);
  CommunicatorOptions options{15000, GetParam().lanes};
  EXPECT_EQ(runRanks(GetParam().kind, GetParam().ranks, options,
                     [](Communicator &communicator) { return runEverything(communicator, 70001); }),
            "");
}

INSTANTIATE_TEST_SUITE_P(, EveryLaunch,
                         testing::Values(Case{Launch::Threads, 1, 1, "auto"}, Case{Launch::Threads, 2, 2, "auto"},
                                         Case{Launch::Threads, 4, 1, "auto"}, Case{Launch::Threads, 3, 4, "auto"},
                                         Case{Launch::Threads, 8, 1, "auto"}, Case{Launch::Forked, 1, 1, "auto"},
                                         Case{Launch::Forked, 2, 1, "attach"}, Case{Launch::Forked, 4, 3, "attach"},
                                         Case{Launch::Forked, 4, 2, "staged"}, Case{Launch::Forked, 8, 1, "auto"},
                                         Case{Launch::Environment, 1, 1, "auto"},
                                         Case{Launch::Environment, 4, 1, "auto"},
                                         Case{Launch::Environment, 3, 2, "staged"}));

TEST(Collective, WorksWithEveryWayOfWaiting) {
  (void)testPlugin();
  for (const char *mode : {"spin", "yield", "sleep"}) {
    ScopedVariable wait("KOLO_WAIT", mode);
    for (Launch kind : {Launch::Threads, Launch::Forked})
      EXPECT_EQ(runRanks(kind, 2, {}, [](Communicator &communicator) { return runEverything(communicator, 2000); }), "")
          << mode;
  }
}

TEST(Collective, LargeOrdinaryMemoryIsAttachedOrStagedAlike) {
  (void)testPlugin();
  EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                     [](Communicator &communicator) {
                       return allGather(communicator, 2200001, {}, 1) +
                              allReduce("pullAllReduce", communicator, 4300001, {false, true}, 2) +
                              allReduce("pullAllReduce", communicator, 4300001, {}, 3);
                     }),
            "");
}

TEST(Collective, AnAverageIsDividedByTheNumberOfRanks) {
  (void)testPlugin();
  EXPECT_EQ(runRanks(Launch::Threads, 4, {},
                     [](Communicator &communicator) -> std::string {
                       float in = static_cast<float>(communicator.rank() * 8), out = -1;
                       CallArguments arguments{"pullAllReduce", mesh("rank=4"), 1, DataType::F32, Reduction::Average};
                       arguments.input = &in;
                       arguments.output = &out;
                       Status status = communicator.run(testPlugin(), arguments);
                       return !status.isOk() ? status.message() : out == 12 ? "" : "average is " + std::to_string(out);
                     }),
            "");
}

TEST(Collective, AnyOtherOverlapIsCopiedAside) {
  (void)testPlugin();
  EXPECT_EQ(runRanks(Launch::Threads, 2, {},
                     [](Communicator &communicator) -> std::string {
                       constexpr int64_t count = 1000;
                       std::vector<int32_t> memory(2 * count + 1);
                       int32_t *input = memory.data() + count / 2; // nowhere near this rank's place in the output
                       for (int64_t i = 0; i < count; ++i)
                         input[i] = valueOf(communicator.rank(), i, 5);
                       CallArguments arguments{"ringAllGather", mesh("rank=2"), count, DataType::I32};
                       arguments.input = input;
                       arguments.output = memory.data();
                       if (Status status = communicator.run(testPlugin(), arguments); !status.isOk())
                         return status.message();
                       return compare(memory.data(), 2 * count,
                                      [](int64_t i) { return valueOf(static_cast<int>(i / count), i % count, 5); });
                     }),
            "");
}

TEST(Collective, ManyCommunicatorsInOneProcessDoNotMeet) {
  (void)testPlugin();
  EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                     [](Communicator &communicator) {
                       std::string inner = runRanks(Launch::Threads, 2, {}, [](Communicator &thread) {
                         return allReduce("pullAllReduce", thread, 100, {}, 1);
                       });
                       return inner + allReduce("pullAllReduce", communicator, 100, {}, 2);
                     }),
            "");
}
