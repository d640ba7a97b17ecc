// What the communicators of a rank hold together, and who gives back to whom.
#include "memory/Holding.h"
#include "Ranks.h"
#include "kolo/runtime/Plugin.h"

#include <gtest/gtest.h>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

constexpr size_t mebibyte = size_t(1) << 20;

/// A communicator as the budget of one rank sees it.
struct Holder {
  explicit Holder(Budget &budget, size_t limitBytes = 4 * mebibyte)
      : holding(budget, limitBytes, [this] { return isFinished.load(); }) {}
  ~Holder() {
    for (std::unique_ptr<Segment> &segment : segments)
      holding.drop(std::move(segment));
  }

  /// A call that needs one more segment.
  Status take(size_t sizeBytes) {
    Result<std::unique_ptr<Segment>> created = holding.create(*table, sizeBytes);
    if (!created.isOk())
      return created.status();
    std::memset((*created)->data(), 1, sizeBytes);
    segments.push_back(std::move(*created));
    return {};
  }
  bool isThere(size_t index) const { return segments[index]->data()[5] == std::byte(1); }

  std::atomic<bool> isFinished = true;
  std::shared_ptr<SegmentTable> table = std::make_shared<SegmentTable>(RankKind::Processes);
  std::vector<std::unique_ptr<Segment>> segments;
  Holding holding;
};

/// Of this process, and there.
int64_t sharedBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssShmem:"))
      return std::stoll(line.substr(sizeof("RssShmem:"))) * 1024;
  return -1;
}

} // namespace

TEST(Holding, TheOldestGivesBackWhatTheNewestNeeds) {
  Budget budget;
  std::vector<std::unique_ptr<Holder>> holders;
  for (int i = 0; i < 20; ++i) {
    holders.push_back(std::make_unique<Holder>(budget));
    EXPECT_EQ(expectStatus(holders.back()->take(mebibyte), StatusCode::Ok), "");
    holders.back()->holding.end();
    EXPECT_LE(budget.heldBytes(), 4 * mebibyte);
  }
  for (size_t i = 0; i < holders.size(); ++i)
    EXPECT_EQ(holders[i]->isThere(0), i >= 16) << i;
  EXPECT_EQ(expectStatus(holders[3]->holding.begin(), StatusCode::Ok), "");
  holders[3]->holding.end();
  EXPECT_FALSE(holders[16]->isThere(0)); // the oldest now
  EXPECT_TRUE(holders[17]->isThere(0));
  holders.clear();
  EXPECT_EQ(budget.heldBytes(), 0u);
}

TEST(Holding, NobodyTakesWhatACallUsesOrAPeerMayAccess) {
  Budget budget;
  Holder running(budget), unfinished(budget), late(budget);
  ASSERT_TRUE(unfinished.take(mebibyte).isOk());
  unfinished.holding.end();
  unfinished.isFinished = false;
  ASSERT_TRUE(running.take(2 * mebibyte).isOk());
  EXPECT_EQ(expectStatus(late.take(2 * mebibyte), StatusCode::OutOfMemory,
                         {"needs 2048 KiB", "3072 KiB that nobody gives back now", "of the 4 MiB", "KOLO_MEMORY_MIB"}),
            "");
  EXPECT_TRUE(running.isThere(0) && unfinished.isThere(0));
  EXPECT_EQ(budget.heldBytes(), 3 * mebibyte);
  unfinished.isFinished = true;
  EXPECT_EQ(expectStatus(late.take(2 * mebibyte), StatusCode::Ok), "");
  EXPECT_FALSE(unfinished.isThere(0));
  EXPECT_EQ(expectStatus(unfinished.holding.begin(), StatusCode::OutOfMemory, {"KOLO_MEMORY_MIB"}), "");
  running.holding.end();
  EXPECT_EQ(expectStatus(unfinished.holding.begin(), StatusCode::Ok), "");
}

TEST(Holding, ACallThatNeedsMoreThanAllMayHoldTakesItAlone) {
  Budget budget;
  Holder small(budget), large(budget);
  ASSERT_TRUE(small.take(mebibyte).isOk());
  small.holding.end();
  EXPECT_EQ(expectStatus(large.take(6 * mebibyte), StatusCode::Ok), "");
  EXPECT_FALSE(small.isThere(0));
  EXPECT_EQ(budget.heldBytes(), 6 * mebibyte);
  large.holding.end();
  EXPECT_EQ(expectStatus(small.holding.begin(), StatusCode::Ok), "");
  EXPECT_FALSE(large.isThere(0));
  EXPECT_EQ(budget.heldBytes(), mebibyte);
  small.holding.end();
  EXPECT_EQ(expectStatus(large.holding.begin(), StatusCode::Ok), "");
  EXPECT_EQ(budget.heldBytes(), 6 * mebibyte);
}

TEST(Holding, AForkedChildTakesNothingFromItsParent) {
  Holder parents(Budget::ofRank(RankKind::Processes, 0));
  ASSERT_TRUE(parents.take(4 * mebibyte).isOk());
  parents.holding.end();
  pid_t child = fork();
  if (child == 0) {
    std::optional<Holder> own(Budget::ofRank(RankKind::Processes, 0));
    bool isRight = own->take(4 * mebibyte).isOk();
    own->holding.end();
    own.reset();
    _exit(isRight ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(parents.isThere(0));
}

namespace {

CallArguments argumentsOf(const char *program, DataType type, int64_t count) {
  CallArguments made;
  made.program = program;
  made.mesh = *Mesh::create({{"rank", 2}});
  made.type = type;
  made.count = count;
  return made;
}

/// Communicators of the same two ranks as `first`, or what went wrong.
std::string makeMore(Communicator &first, const Plugin &plugin, int number, std::vector<Communicator> &made) {
  auto exchange = [&](const void *own, size_t sizeBytes, void *all) {
    CallArguments gather = argumentsOf("ringAllGather", DataType::U8, static_cast<int64_t>(sizeBytes));
    gather.input = own;
    gather.output = all;
    return first.run(plugin, gather);
  };
  for (int i = 0; i < number; ++i) {
    Result<Communicator> one = Communicator::create(first.rank(), 2, exchange, {});
    if (!one.isOk())
      return one.status().message();
    made.push_back(std::move(*one));
  }
  return "";
}

/// A call that needs 1 MiB of memory of the runtime, staged.
struct Sum {
  static constexpr size_t count = size_t(1) << 18;
  std::vector<uint8_t> in = std::vector<uint8_t>(count), out = in;

  /// "": right, or refused for lack of memory, which `isRefused` says.
  std::string run(Communicator &communicator, const Plugin &plugin, size_t call, bool &isRefused) {
    for (size_t i = 0; i < count; ++i)
      in[i] = static_cast<uint8_t>(static_cast<size_t>(communicator.rank()) + call + i % 101);
    CallArguments sum = argumentsOf("scratchAllReduce", DataType::U8, count);
    sum.input = in.data();
    sum.output = out.data();
    Status status = communicator.run(plugin, sum);
    isRefused = status.code() == StatusCode::OutOfMemory;
    if (!status.isOk())
      return isRefused ? expectStatus(status, StatusCode::OutOfMemory, {"of the 2 MiB", "KOLO_MEMORY_MIB"})
                       : status.message();
    for (size_t i = 0; i < count; ++i)
      if (out[i] != static_cast<uint8_t>(1 + 2 * call + 2 * (i % 101)))
        return "call " + std::to_string(call) + ", element " + std::to_string(i);
    return "";
  }
};

} // namespace

/// Each call gives the right result, whoever gave back what before.
TEST(ManyCommunicators, HoldABoundedAmountTogether) {
  ScopedVariable limit("KOLO_MEMORY_MIB", "2");
  ScopedVariable staged("KOLO_ORDINARY_MEMORY", "staged");
  const Plugin plugin = *Plugin::load(KOLO_TEST_PLUGIN);
  auto body = [&](Communicator &first) -> std::string {
    std::vector<Communicator> communicators;
    if (std::string said = makeMore(first, plugin, 12, communicators); !said.empty())
      return said;
    Sum sum;
    for (size_t call = 0; call < 60; ++call) {
      bool isRefused = false;
      std::string said = sum.run(communicators[call * 7 % communicators.size()], plugin, call, isRefused);
      if (!said.empty() || isRefused)
        return isRefused ? "refused" : said;
    }
    int64_t shared = sharedBytes(); // of its own and of its peer
    return shared <= int64_t(2 * 2 * mebibyte + 2 * mebibyte) ? "" : std::to_string(shared) + " bytes are there";
  };
  EXPECT_EQ(runRanks(Launch::Forked, 2, {}, body), "");
}

namespace {

/// Of this process: what it has allocated, and its part of memory that it shares with peers.
int64_t bytesInUse() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  int64_t sharedKiB = 0;
  for (std::string line; std::getline(rollup, line);)
    if (line.starts_with("Pss_Shmem:"))
      sharedKiB = std::stoll(line.substr(sizeof("Pss_Shmem:")));
  const struct mallinfo2 heap = mallinfo2();
  return sharedKiB * 1024 + static_cast<int64_t>(heap.uordblks + heap.hblkhd);
}

/// Calls of a communicator of two ranks that each need a plan.
std::string runSizes(Communicator &communicator, const Plugin &plugin, int64_t numSizes) {
  std::vector<uint8_t> in(static_cast<size_t>(numSizes) + 1, 1), out(in.size());
  for (const char *program : {"scratchAllReduce", "publishedBroadcast"})
    for (int64_t count = 1; count <= numSizes; ++count) {
      CallArguments call = argumentsOf(program, DataType::U8, count);
      call.input = in.data();
      call.output = out.data();
      if (Status status = communicator.run(plugin, call); !status.isOk())
        return status.message();
    }
  return "";
}

} // namespace

/// What they keep until they end, plans of calls included, is within the limit, too. Those that would keep more are
/// refused, on all ranks.
TEST(ManyCommunicators, KeepABoundedAmountToo) {
  constexpr int64_t limitMiB = 4;
  ScopedVariable limit("KOLO_MEMORY_MIB", std::to_string(limitMiB).c_str());
  ScopedVariable staged("KOLO_ORDINARY_MEMORY", "staged");
  const Plugin plugin = *Plugin::load(KOLO_TEST_PLUGIN);
  auto body = [&](Communicator &first) -> std::string {
    Sum sum; // its own buffers are not counted
    const int64_t before = bytesInUse();
    std::vector<Communicator> communicators;
    size_t made = 0;
    for (int time = 0; time < 2; ++time) {
      const std::string refusal = makeMore(first, plugin, 100, communicators);
      const std::string who = std::to_string(communicators.size() + 1) + " communicators of this rank keep ";
      if (refusal.find(who) == std::string::npos || refusal.find("KOLO_MEMORY_MIB") == std::string::npos)
        return "refused by: " + refusal;
      if (communicators.size() < 20 || (time > 0 && communicators.size() != made))
        return std::to_string(communicators.size()) + " were made";
      made = communicators.size();
      bool isRefused = false;
      for (Communicator &each : communicators) {
        std::string said = runSizes(each, plugin, &each < &communicators[5] ? 12 : 3);
        said = said.empty() ? sum.run(each, plugin, 3, isRefused) : said;
        if (!said.empty() || isRefused)
          return "after that: " + said;
      }
      for (Communicator &each : communicators) // by whatever plans are left
        if (std::string said = runSizes(each, plugin, 2); !said.empty())
          return "again: " + said;
      if (Status status = first.barrier(); !status.isOk())
        return status.message();
      const int64_t inUse = bytesInUse() - before;
      if (time == 0 && inUse > limitMiB * int64_t(mebibyte))
        return std::to_string(inUse) + " bytes are in use";
      if (Status status = first.barrier(); !status.isOk())
        return status.message();
      communicators.clear(); // makes room
    }
    return "";
  };
  EXPECT_EQ(runRanks(Launch::Forked, 2, {}, body), "");
}

/// What threads need at the same time may be more than there is. All ranks of a call then refuse it, and it may be
/// repeated.
TEST(ManyCommunicators, RefuseCallsOnAllRanksWhereOthersHoldTheMemory) {
  ScopedVariable limit("KOLO_MEMORY_MIB", "2");
  ScopedVariable staged("KOLO_ORDINARY_MEMORY", "staged");
  const Plugin plugin = *Plugin::load(KOLO_TEST_PLUGIN);
  auto body = [&](Communicator &first) -> std::string {
    constexpr size_t numThreads = 6;
    std::vector<Communicator> communicators;
    if (std::string said = makeMore(first, plugin, numThreads, communicators); !said.empty())
      return said;
    std::vector<std::string> saids(numThreads);
    std::vector<std::thread> threads;
    for (size_t number = 0; number < numThreads; ++number)
      threads.emplace_back([&, number] {
        Sum sum;
        for (size_t call = 0; call < 10 && saids[number].empty(); ++call) {
          bool isRefused = true;
          for (int attempt = 0; attempt < 10000 && isRefused && saids[number].empty(); ++attempt)
            saids[number] = sum.run(communicators[number], plugin, call, isRefused);
          if (isRefused)
            saids[number] = "always refused";
        }
      });
    std::string all;
    for (size_t number = 0; number < numThreads; ++number) {
      threads[number].join();
      all += saids[number];
    }
    return all;
  };
  EXPECT_EQ(runRanks(Launch::Forked, 2, {}, body), "");
}
