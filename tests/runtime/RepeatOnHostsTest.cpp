// Repeated calls among several hosts: ranks send no message to agree on them, whatever buffers they bring, and a rank
// that does something else is named by all.
#include "Ranks.h"
#include "TestPlugin.h"

#include "kolo/runtime/Plugin.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int timeoutMs = 15000;

std::string together(int rank) { return rank < 2 ? "a" : "b"; }
const std::vector<std::pair<int, HostOf>> placements = {{3, alone}, {4, pairs}, {3, together}};

/// Memory that is nowhere once its owner is gone: whoever writes there then is killed.
class Pages {
public:
  explicit Pages(int64_t numInts)
      : sizeBytes(static_cast<size_t>(numInts + 1) * sizeof(int)),
        memory(mmap(nullptr, sizeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { munmap(memory, sizeBytes); }
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;
  int *data() const { return static_cast<int *>(memory); }

private:
  size_t sizeBytes;
  void *memory;
};

CallArguments callOf(const Communicator &communicator, const char *program, int64_t count) {
  CallArguments arguments;
  arguments.program = program;
  arguments.mesh = std::move(Mesh::parse("rank=" + std::to_string(communicator.size()))).value();
  arguments.count = count;
  arguments.type = DataType::I32;
  return arguments;
}

/// Gathers at this memory, and checks it.
Status gatherAt(Communicator &communicator, const Plugin &plugin, CallArguments arguments, int *input, int *output,
                int call) {
  const int64_t count = arguments.count;
  std::fill_n(output, count * communicator.size(), -1);
  for (int64_t i = 0; i < count; ++i)
    input[i] = valueAt(communicator.rank(), i, call);
  arguments.input = input;
  arguments.output = output;
  if (Status status = communicator.run(plugin, arguments); !status.isOk())
    return status;
  for (int rank = 0; rank < communicator.size(); ++rank)
    for (int64_t i = 0; i < count; ++i)
      if (output[rank * count + i] != valueAt(rank, i, call))
        return Status(StatusCode::SystemError, "call " + std::to_string(call) + ": wrong element " + std::to_string(i) +
                                                   " of rank " + std::to_string(rank));
  return {};
}

Status gather(Communicator &communicator, const Plugin &plugin, int64_t count) {
  std::vector<int> input(static_cast<size_t>(count)), output(input.size() * static_cast<size_t>(communicator.size()));
  CallArguments arguments = callOf(communicator, "ringAllGather", count);
  arguments.input = input.data();
  arguments.output = output.data();
  return communicator.run(plugin, arguments);
}

/// Calls of one kind, each rank with buffers of its own choice and at its own pace.
std::string gatherAnywhere(Communicator &communicator, int64_t count) {
  constexpr int numCalls = 40;
  Plugin plugin = loadTestPlugin();
  std::mt19937 random(static_cast<unsigned>(18 + communicator.rank()));
  const int64_t whole = count * communicator.size(), own = count * communicator.rank();
  std::optional<Window> window;
  int64_t before = 0;
  for (int call = 0; call < numCalls; ++call) {
    if (call == 1)
      before = communicator.traffic().messages;
    if (random() % 4 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 8));
    if (call == numCalls / 2) { // a barrier has messages of its own, and ends nothing
      int64_t soFar = communicator.traffic().messages;
      if (Status status = communicator.barrier(); !status.isOk())
        return status.message();
      before += communicator.traffic().messages - soFar;
    }
    window.reset();
    Pages input(count), output(whole);
    int *from = input.data() + random() % 2, *to = output.data() + random() % 2;
    switch (random() % 4) {
    case 0: // in place
      from = to + own;
      break;
    case 1: // the output begins one element after the input
      from = to + std::max<int64_t>(own - 1, 0);
      break;
    case 2:
      window = std::move(communicator.allocate(static_cast<size_t>(whole) * sizeof(int))).value();
      to = static_cast<int *>(window->data());
      break;
    default:
      break;
    }
    CallArguments arguments = callOf(communicator, "ringAllGather", count);
    if (Status status = gatherAt(communicator, plugin, arguments, from, to, call); !status.isOk())
      return status.message();
  }
  int64_t messages = communicator.traffic().messages - before;
  Status status = communicator.barrier();
  return status.message() + (messages == 0 ? "" : std::to_string(messages) + " messages");
}

/// All ranks gather five times; then rank 1 does something else. All must name it long before the timeout.
std::string departs(const std::function<Status(Communicator &, const Plugin &)> &otherCall, StatusCode code,
                    const std::vector<std::string> &texts) {
  std::string said;
  for (const auto &[numRanks, hostOf] : placements)
    said += onHosts(numRanks, hostOf, {timeoutMs, 1}, [&](Communicator &communicator) -> std::string {
      Plugin plugin = loadTestPlugin();
      std::vector<int> input(10, 1), output(40);
      CallArguments arguments = callOf(communicator, "ringAllGather", 10);
      const bool isOther = communicator.rank() == 1;
      Status status;
      // A rank may be inside of the fifth call when the others have failed already.
      for (int call = 0; call < (isOther ? 5 : 6) && status.isOk(); ++call)
        status = gatherAt(communicator, plugin, arguments, input.data(), output.data(), call);
      std::vector<int> last = output;
      auto start = Clock::now();
      status = isOther && status.isOk() ? otherCall(communicator, plugin) : status;
      // It may also begin the sixth one only then: that call repeats the cause.
      std::string wrong = isOther ? expectStatus(status, code, texts) : expectFailure(status, code, texts);
      if (Clock::now() - start > std::chrono::milliseconds(timeoutMs / 2))
        wrong += " late";
      if (isOther && output != last)
        wrong += " bytes were stored where no call lent them";
      return wrong + expectStatus(communicator.barrier(), StatusCode::Aborted);
    });
  return said;
}

} // namespace

TEST(RepeatOnHosts, EachRankBringsItsOwnBuffersAtItsOwnPaceAndNoMessageIsSent) {
  for (const auto &[numRanks, hostOf] : placements)
    EXPECT_EQ(onHosts(numRanks, hostOf, {timeoutMs, 1},
                      [](Communicator &communicator) { return gatherAnywhere(communicator, 1000); }),
              "")
        << hostOf(0);
}

TEST(RepeatOnHosts, SoItIsWithLanesAndPieces) {
  ScopedVariable memory("KOLO_ORDINARY_MEMORY", "staged"); // large buffers, where ranks share a host
  for (const auto &[numRanks, hostOf] : placements)
    for (int64_t count : {1000, 40'000})
      EXPECT_EQ(onHosts(numRanks, hostOf, {timeoutMs, 3},
                        [&](Communicator &communicator) { return gatherAnywhere(communicator, count); }),
                "")
          << hostOf(0) << " " << count;
}

TEST(RepeatOnHosts, OtherCallsInBetweenAreAgreedOnAndSoIsTheNextRepetition) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    std::vector<int> input(500), output(2000), sums(500);
    for (int call = 0; call < 60; ++call) {
      CallArguments arguments = callOf(communicator, "ringAllGather", 100 + call / 7 % 3 * 100);
      if (Status status = gatherAt(communicator, plugin, arguments, input.data(), output.data(), call); !status.isOk())
        return status.message();
      if (call % 5 == 4) {
        CallArguments reduction = callOf(communicator, "scratchAllReduce", arguments.count);
        reduction.input = input.data();
        reduction.output = sums.data();
        Status status = communicator.run(plugin, reduction);
        int sum = 0;
        for (int rank = 0; rank < communicator.size(); ++rank)
          sum += valueAt(rank, 99, call);
        if (!status.isOk() || sums[99] != sum)
          return "all-reduce: " + status.message();
      }
      if (Status status = call % 11 == 10 ? communicator.barrier() : Status(); !status.isOk())
        return status.message();
    }
    return "";
  };
  EXPECT_EQ(onHosts(3, alone, {timeoutMs, 1}, body), "");
  EXPECT_EQ(onHosts(4, pairs, {timeoutMs, 2}, body), "");
}

TEST(RepeatOnHosts, GroupsGoOnWithoutEachOther) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    std::vector<int> input(100), output(100);
    CallArguments arguments = callOf(communicator, "rowBroadcast", 100);
    arguments.mesh = std::move(Mesh::parse("node=2,gpu=2")).value();
    arguments.root = 1;
    arguments.input = input.data();
    arguments.output = output.data();
    const int row = communicator.rank() / 2;
    auto start = Clock::now();
    for (int call = 0; call < 6; ++call) {
      if (row == 1 && call == 3)
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      std::ranges::fill(input, valueAt(communicator.rank(), 0, call));
      std::ranges::fill(output, -1);
      if (Status status = communicator.run(plugin, arguments); !status.isOk())
        return status.message();
      if (output[99] != valueAt(2 * row + 1, 0, call))
        return "wrong element in call " + std::to_string(call);
    }
    bool hasWaited = row == 0 && Clock::now() - start > std::chrono::milliseconds(400);
    return communicator.barrier().message() + (hasWaited ? "waited for another group" : "");
  };
  EXPECT_EQ(onHosts(4, alone, {timeoutMs, 1}, body), "");
}

TEST(RepeatOnHosts, GroupsDriftApartBySixtyFourCallsAtMost) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    int value = 0;
    CallArguments arguments = callOf(communicator, "rowBroadcast", 1);
    arguments.mesh = std::move(Mesh::parse("node=2,gpu=2")).value();
    arguments.input = arguments.output = &value;
    for (int call = 0; call < 200; ++call) {
      if (communicator.rank() / 2 == 1) // in all longer than the timeout
        std::this_thread::sleep_for(std::chrono::milliseconds(8));
      if (Status status = communicator.run(plugin, arguments); !status.isOk())
        return "call " + std::to_string(call) + ": " + status.message();
    }
    return communicator.barrier().message();
  };
  EXPECT_EQ(onHosts(4, alone, {1200, 1}, body), "");
}

TEST(RepeatOnHosts, EachSixtyFifthRepetitionIsAgreedOn) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    std::vector<int> input(10), output(40), moved(40);
    CallArguments arguments = callOf(communicator, "ringAllGather", 10);
    for (int call = 0; call < 200; ++call) {
      int64_t before = communicator.traffic().messages;
      int *to = call / 5 % 2 ? output.data() : moved.data();
      if (Status status = gatherAt(communicator, plugin, arguments, input.data(), to, call); !status.isOk())
        return status.message();
      int64_t messages = communicator.traffic().messages - before;
      bool speaks = communicator.size() == 3 || communicator.rank() % 2 == 0;
      int64_t expected = speaks ? communicator.size() == 3 ? 2 : 1 : 0; // one in each round
      if (call > 0 && messages != (call % 65 == 0 ? expected : 0))
        return std::to_string(messages) + " messages in call " + std::to_string(call);
    }
    return communicator.barrier().message();
  };
  EXPECT_EQ(onHosts(3, alone, {timeoutMs, 1}, body), "");
  EXPECT_EQ(onHosts(4, pairs, {timeoutMs, 1}, body), "");
}

TEST(RepeatOnHosts, ARankMayPassAnotherRootAndReductionWhereTheyAreIgnored) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    std::vector<int> input(10), output(30);
    for (int call = 0; call < 8; ++call) {
      CallArguments arguments = callOf(communicator, "ringAllGather", 10);
      if (communicator.rank() == 1 && call >= 3) {
        arguments.root = call;
        arguments.reduction = call % 2 ? Reduction::Max : Reduction::Product;
      }
      if (Status status = gatherAt(communicator, plugin, arguments, input.data(), output.data(), call); !status.isOk())
        return status.message();
    }
    return communicator.barrier().message();
  };
  EXPECT_EQ(onHosts(3, alone, {timeoutMs, 1}, body), "");
}

TEST(RepeatOnHosts, AnotherRootIsNamedWhereItCounts) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    int value = 0;
    CallArguments arguments = callOf(communicator, "rowBroadcast", 1);
    arguments.mesh = std::move(Mesh::parse("node=2,gpu=2")).value();
    arguments.input = arguments.output = &value;
    Status status;
    for (int call = 0; call < 4 && status.isOk(); ++call) {
      arguments.root = communicator.rank() == 1 && call == 3 ? 1 : 0;
      status = communicator.run(plugin, arguments);
    }
    if (status.isOk())
      status = communicator.barrier();
    return expectFailure(status, StatusCode::Mismatch, {"ranks disagree on", "rank 1"});
  };
  EXPECT_EQ(onHosts(4, alone, {timeoutMs, 1}, body), "");
}

TEST(RepeatOnHosts, ARankMayLoadThePluginAgain) {
  auto body = [](Communicator &communicator) -> std::string {
    mallopt(M_PERTURB, 0xa5); // what is freed is overwritten
    Plugin plugin = loadTestPlugin();
    std::vector<int> input(100), output(400);
    for (int call = 0; call < 9; ++call) {
      if (communicator.rank() == 1 && call % 3 == 2)
        plugin = loadTestPlugin(); // the former one is unloaded
      CallArguments arguments = callOf(communicator, "ringAllGather", 100);
      if (Status status = gatherAt(communicator, plugin, arguments, input.data(), output.data(), call); !status.isOk())
        return status.message();
    }
    return "";
  };
  EXPECT_EQ(onHosts(3, alone, {timeoutMs, 2}, body), "");
  EXPECT_EQ(onHosts(4, pairs, {timeoutMs, 1}, body), "");
}

TEST(RepeatOnHosts, AnotherCountIsNamedByAll) {
  EXPECT_EQ(departs([](Communicator &communicator, const Plugin &plugin) { return gather(communicator, plugin, 9); },
                    StatusCode::Mismatch, {"ranks disagree on count", "with 10", "rank 1", "with 9"}),
            "");
}

TEST(RepeatOnHosts, AnotherOperationIsNamedByAll) {
  EXPECT_EQ(
      departs([](Communicator &communicator, const Plugin &) { return communicator.barrier(); }, StatusCode::Mismatch,
              {"ranks disagree on the operation", "repeated a call of program ringAllGather", "rank 1 called barrier"}),
      "");
}

TEST(RepeatOnHosts, ARefusalIsReturnedByAll) {
  auto unknown = [](Communicator &communicator, const Plugin &plugin) {
    return communicator.run(plugin, callOf(communicator, "noSuchProgram", 10));
  };
  EXPECT_EQ(departs(unknown, StatusCode::InvalidArgument, {"rank 1", "noSuchProgram"}), "");
  auto null = [](Communicator &communicator, const Plugin &plugin) {
    return communicator.run(plugin, callOf(communicator, "ringAllGather", 10));
  };
  EXPECT_EQ(departs(null, StatusCode::InvalidArgument, {"rank 1", "input is null, this rank reads 40 bytes"}), "");
}

/// The ranks that repeat the call need nothing of the one that does not.
TEST(RepeatOnHosts, AnExchangeComparesHowOftenACallWasRepeated) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    std::vector<int> input(10), output(20);
    CallArguments arguments = callOf(communicator, "standAlone", 10);
    arguments.input = input.data();
    arguments.output = output.data();
    for (int call = 0; call < (communicator.rank() == 0 ? 4 : 2); ++call)
      if (Status status = communicator.run(plugin, arguments); !status.isOk())
        return status.message();
    return expectStatus(communicator.barrier(), StatusCode::Mismatch,
                        {"how often they repeated a call: rank 1 did so 1 times, rank 0 3"});
  };
  EXPECT_EQ(onHosts(2, alone, {timeoutMs, 1}, body), "");
}

TEST(RepeatOnHosts, SoDoesAChannelWhenThePluginIsUnloaded) {
  auto body = [](Communicator &communicator) -> std::string {
    mallopt(M_PERTURB, 0xa5); // what is freed is overwritten
    std::optional<Plugin> plugin = loadTestPlugin();
    std::vector<int> input(10), output(20);
    CallArguments arguments = callOf(communicator, "standAlone", 10);
    arguments.input = input.data();
    arguments.output = output.data();
    const bool isFirst = communicator.rank() == 0;
    for (int call = 0; call < (isFirst ? 4 : 2); ++call)
      if (Status status = communicator.run(*plugin, arguments); !status.isOk())
        return status.message();
    plugin.reset();
    return isFirst ? expectStatus(communicator.channel(1, 0).wait(), StatusCode::Mismatch,
                                  {"repeated a call of program standAlone, rank 1 called barrier"})
                   : expectStatus(communicator.barrier(), StatusCode::Mismatch, {"ranks disagree"});
  };
  EXPECT_EQ(onHosts(2, alone, {timeoutMs, 1}, body), "");
}

/// Its new plan takes the place of the repeated one, to whose memory its peer has put already.
TEST(RepeatOnHosts, ARankThatDropsThePlanIsStillNamedForItsCall) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    std::vector<int> input(1000), output(2000);
    auto call = [&](int64_t count) {
      return gatherAt(communicator, plugin, callOf(communicator, "slotAllGather", count), input.data(), output.data(),
                      0);
    };
    Status status = call(1000);                                    // later calls need no more scratch memory
    for (int64_t count = 10; count < 26 && status.isOk(); ++count) // as many plans as are kept
      status = call(count);
    for (int repetition = 0; repetition < 3 && status.isOk(); ++repetition)
      status = call(10);
    const bool isOther = communicator.rank() == 1;
    if (isOther)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (status.isOk())
      status = call(isOther ? 9 : 10);
    return expectStatus(status, StatusCode::Mismatch, {"ranks disagree on count", "with 10", "rank 1", "with 9"});
  };
  EXPECT_EQ(onHosts(2, alone, {timeoutMs, 1}, body), "");
}

TEST(RepeatOnHosts, ARankThatLeavesIsNamedByAll) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    const bool isLeaving = communicator.rank() == 2;
    Status status; // one may be inside of the fourth call when another has noticed it
    for (int call = 0; call < (isLeaving ? 4 : 5) && status.isOk(); ++call)
      status = gather(communicator, plugin, 10);
    return isLeaving ? "" : expectFailure(status, StatusCode::PeerLost, {"rank 2", "has ended or left"});
  };
  EXPECT_EQ(onHosts(3, alone, {timeoutMs, 1}, body), "");
  EXPECT_EQ(onHosts(4, pairs, {timeoutMs, 1}, body), "");
}

TEST(RepeatOnHosts, ARankThatDoesNotComeIsATimeoutOnAllOthers) {
  auto body = [](Communicator &communicator) -> std::string {
    Plugin plugin = loadTestPlugin();
    for (int call = 0; call < 4; ++call)
      if (Status status = gather(communicator, plugin, 10); !status.isOk())
        return status.message();
    if (communicator.rank() == 2)
      std::this_thread::sleep_for(std::chrono::seconds(2));
    auto start = Clock::now();
    Status status = gather(communicator, plugin, 10);
    if (Clock::now() - start > std::chrono::milliseconds(1900))
      return "late: " + status.message();
    return communicator.rank() == 2 ? "" : expectStatus(status, StatusCode::Timeout, {"waited", "timed out"});
  };
  EXPECT_EQ(onHosts(3, alone, {1000, 1}, body), "");
}
