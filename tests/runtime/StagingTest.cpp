// Staging: ordinary memory of processes is copied through the runtime's memory, piece by piece. Any buffer of any rank
// may be in a window or not.
#include "../support/Sanitizers.h"
#include "Ranks.h"
#include "TestPlugin.h"
#include "kolo/runtime/PluginAbi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

/// Bytes in a window or on the heap, not aligned to anything, with poison around what a call may write to.
class GuardedBuffer {
public:
  GuardedBuffer(Communicator &communicator, bool inWindow, int64_t sizeBytes) : size(sizeBytes) {
    auto all = static_cast<size_t>(sizeBytes + 2 * margin);
    if (inWindow)
      window.emplace(std::move(communicator.allocate(all)).value());
    else
      heap = std::make_unique<uint8_t[]>(all);
    std::fill_n(base(), all, poison);
  }
  uint8_t *data() { return base() + margin; }
  bool isPoisonWhole() {
    auto isPoison = [](uint8_t byte) { return byte == poison; };
    return std::all_of(base(), data(), isPoison) && std::all_of(data() + size, data() + size + margin, isPoison);
  }

private:
  static constexpr int64_t margin = 133;
  static constexpr uint8_t poison = 0xa5;
  uint8_t *base() { return window ? static_cast<uint8_t *>(window->data()) : heap.get(); }

  int64_t size;
  std::optional<Window> window;
  std::unique_ptr<uint8_t[]> heap;
};

/// One collective of bytes among all ranks.
struct Kind {
  const char *program;
  int inputBlocks, outputBlocks; // 0: as many as ranks
  int64_t inPlaceBlock;          // where the input is in the output; -1: this rank's own block
};
constexpr Kind kinds[] = {{"ringAllGather", 1, 0, -1},
                          {"scratchAllReduce", 1, 1, 0},
                          {"pullAllReduce", 1, 1, 0}, // not proved on 3 ranks, so not cut there
                          {"pullAllToAll", 0, 0, 0}};

/// Bytes begin to begin + size of a rank's input. A row of 256 is like another one, but for what is added to all of it.
/// So there is no store for each byte, which under sanitizers would take most of the time of these tests.
std::vector<uint8_t> inputOf(int rank, int64_t begin, int64_t size, int call) {
  static const std::vector<std::array<uint8_t, 256>> rows = [] {
    std::vector<std::array<uint8_t, 256>> all(256);
    for (size_t added = 0; added < all.size(); ++added)
      for (size_t i = 0; i < all.size(); ++i)
        all[added][i] = static_cast<uint8_t>(added + i * 7);
    return all;
  }();
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  for (int64_t at = begin; at < begin + size;) {
    const int64_t row = at >> 8, end = std::min((row + 1) << 8, begin + size);
    const auto added = static_cast<uint8_t>(rank * 59 + row * 3 + (row >> 8) + call * 31);
    std::memcpy(&bytes[static_cast<size_t>(at - begin)], &rows[added][at & 255], static_cast<size_t>(end - at));
    at = end;
  }
  return bytes;
}

/// sum[i] += added[i], eight bytes at once: their upper bits are added apart, so that nothing is carried to the next
/// byte.
void addBytes(std::vector<uint8_t> &sum, const std::vector<uint8_t> &added) {
  constexpr uint64_t upperBits = 0x8080808080808080;
  for (size_t at = 0; at < sum.size(); at += sizeof(uint64_t)) {
    const size_t numBytes = std::min(sizeof(uint64_t), sum.size() - at);
    uint64_t left = 0, right = 0;
    std::memcpy(&left, &sum[at], numBytes);
    std::memcpy(&right, &added[at], numBytes);
    left = ((left & ~upperBits) + (right & ~upperBits)) ^ ((left ^ right) & upperBits);
    std::memcpy(&sum[at], &left, numBytes);
  }
}

struct Checker {
  Communicator &communicator;
  const Kind &kind;
  int64_t count;
  int call;

  int numRanks() const { return communicator.size(); }
  int64_t inputBytes() const { return count * (kind.inputBlocks ? kind.inputBlocks : numRanks()); }
  int64_t outputBytes() const { return count * (kind.outputBlocks ? kind.outputBlocks : numRanks()); }
  int64_t inPlaceOffset() const { return (kind.inPlaceBlock < 0 ? communicator.rank() : kind.inPlaceBlock) * count; }

  std::vector<uint8_t> expected(int block) const {
    if (kind.inputBlocks == 0)
      return inputOf(block, communicator.rank() * count, count, call);
    if (kind.outputBlocks == 0)
      return inputOf(block, 0, count, call);
    std::vector<uint8_t> sum = inputOf(0, 0, count, call);
    for (int rank = 1; rank < numRanks(); ++rank)
      addBytes(sum, inputOf(rank, 0, count, call));
    return sum;
  }

  std::string run(uint8_t *input, uint8_t *output) const {
    std::fill_n(output, outputBytes(), uint8_t(0xee));
    const std::vector<uint8_t> own = inputOf(communicator.rank(), 0, inputBytes(), call);
    std::memcpy(input, own.data(), own.size());
    CallArguments arguments{kind.program, *Mesh::parse("rank=" + std::to_string(numRanks())), count, DataType::U8};
    arguments.input = input;
    arguments.output = output;
    if (Status status = communicator.run(testPlugin(), arguments); !status.isOk())
      return where() + status.message();
    for (int block = 0; block < outputBytes() / count; ++block) {
      const std::vector<uint8_t> wanted = expected(block);
      const uint8_t *found = output + block * count;
      if (std::memcmp(found, wanted.data(), wanted.size()) == 0)
        continue;
      const auto at = std::mismatch(wanted.begin(), wanted.end(), found).first - wanted.begin();
      return where() + "block " + std::to_string(block) + ", byte " + std::to_string(at) + " is " +
             std::to_string(found[at]) + ", not " + std::to_string(wanted[static_cast<size_t>(at)]) + "; ";
    }
    return {};
  }
  std::string where() const {
    return std::string(kind.program) + ", count " + std::to_string(count) + ", call " + std::to_string(call) + ": ";
  }
};

// Below, at and beyond one piece and several.
constexpr int64_t counts[] = {1, 63, 65537, 131072, 349525, 1048577, 1400003};

/// All of them. Under sanitizers, which take ten times as long, those with which all pairs of ranks, lanes and counts
/// occur.
std::vector<int64_t> countsFor(int numRanks, int lanes) {
  std::vector<int64_t> some;
  for (size_t i = 0; i < std::size(counts); ++i)
    if (!(isThreadSanitized || isAddressSanitized) || (i + size_t(numRanks) + size_t(lanes)) % 2 == 0)
      some.push_back(counts[i]);
  return some;
}

} // namespace

/// Every rank has its input, and its output, in a window or not, as it falls.
TEST(Staging, OfSomeBuffersOfSomeRanks) {
  (void)testPlugin();
  ScopedVariable memory("KOLO_ORDINARY_MEMORY", "staged");
  for (int numRanks : {2, 3})
    for (int lanes : {1, 2})
      EXPECT_EQ(runRanks(Launch::Forked, numRanks, {15000, lanes},
                         [&](Communicator &communicator) {
                           std::minstd_rand random(static_cast<unsigned>(communicator.rank() + 41));
                           std::string said;
                           int call = 0;
                           for (int64_t count : countsFor(numRanks, lanes))
                             for (const Kind &kind : kinds) {
                               Checker checker{communicator, kind, count, ++call};
                               GuardedBuffer in(communicator, random() % 2 == 0, checker.inputBytes());
                               GuardedBuffer out(communicator, random() % 2 == 0, checker.outputBytes());
                               for (int again = 0; again < 2 && said.empty(); ++again)
                                 said += checker.run(in.data(), out.data());
                               if (said.empty() && !(in.isPoisonWhole() && out.isPoisonWhole()))
                                 said += checker.where() + "wrote beyond a buffer; ";
                             }
                           return said;
                         }),
                "");
}

TEST(Staging, OfCallsInPlace) {
  (void)testPlugin();
  for (const char *mode : {"auto", "staged"}) {
    ScopedVariable memory("KOLO_ORDINARY_MEMORY", mode);
    EXPECT_EQ(runRanks(Launch::Forked, 3, {},
                       [](Communicator &communicator) {
                         std::string said;
                         int call = 0;
                         for (int64_t count : counts)
                           for (const Kind &kind : kinds) {
                             Checker checker{communicator, kind, count, ++call};
                             // One rank has another idea of in place: it is not.
                             GuardedBuffer out(communicator, false, checker.outputBytes());
                             GuardedBuffer in(communicator, false, checker.inputBytes());
                             bool isInPlace = communicator.rank() != 1;
                             said +=
                                 checker.run(isInPlace ? out.data() + checker.inPlaceOffset() : in.data(), out.data());
                           }
                         return said;
                       }),
              "");
  }
}

/// The input lies across the output on one rank only; what a piece writes there is what a later piece would read.
TEST(Staging, OfAnInputThatOverlapsTheOutput) {
  (void)testPlugin();
  ScopedVariable memory("KOLO_ORDINARY_MEMORY", "staged");
  for (bool inWindow : {false, true})
    EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                       [&](Communicator &communicator) {
                         std::string said;
                         int call = 0;
                         for (int64_t count : counts)
                           for (const Kind &kind : kinds)
                             for (int64_t shift : {int64_t(1), count / 3 + 1}) {
                               Checker checker{communicator, kind, count, ++call};
                               GuardedBuffer both(communicator, inWindow,
                                                  2 * std::max(checker.inputBytes(), checker.outputBytes()));
                               bool isBehind = call % 2 == 0;
                               bool isOverlapping = communicator.rank() == call / 2 % 2;
                               int64_t far = std::max(checker.inputBytes(), checker.outputBytes());
                               uint8_t *in = both.data() + (isOverlapping ? (isBehind ? 0 : shift) : 0);
                               uint8_t *out = both.data() + (isOverlapping ? (isBehind ? shift : 0) : far);
                               said += checker.run(in, out);
                             }
                         return said;
                       }),
              "");
}

/// The same call from memory to memory, which the peers need not be told of, and then from windows, and back.
TEST(Staging, OfBuffersThatMove) {
  (void)testPlugin();
  ScopedVariable memory("KOLO_ORDINARY_MEMORY", "staged");
  EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                     [](Communicator &communicator) {
                       std::string said;
                       for (int call = 0; call < 60 && said.empty(); ++call) {
                         Checker checker{communicator, kinds[call / 20], 200001, call};
                         bool inWindow = call % 20 >= 10 && (communicator.rank() == 0 || call % 20 >= 15);
                         int64_t shift = call % 7 == 3 ? 17 : checker.inputBytes(); // now and then across the output
                         GuardedBuffer both(communicator, inWindow,
                                            shift + checker.inputBytes() + checker.outputBytes());
                         said += checker.run(both.data(), both.data() + shift);
                       }
                       return said;
                     }),
            "");
}

/// Only the root has an input, and only its own is in no window.
TEST(Staging, OfTheRootsInputAlone) {
  (void)testPlugin();
  ScopedVariable memory("KOLO_ORDINARY_MEMORY", "staged");
  EXPECT_EQ(runRanks(Launch::Forked, 4, {},
                     [](Communicator &communicator) -> std::string {
                       int row = communicator.rank() / 2, column = communicator.rank() % 2;
                       for (int64_t count : counts)
                         for (int root : {0, 1}) {
                           GuardedBuffer in(communicator, false, count), out(communicator, true, count);
                           const std::vector<uint8_t> sent = inputOf(row, 0, count, root);
                           std::memcpy(in.data(), sent.data(), sent.size());
                           CallArguments arguments{"rowBroadcast", *Mesh::parse("node=2,gpu=2"), count, DataType::U8};
                           arguments.root = root;
                           arguments.input = column == root ? in.data() : nullptr;
                           arguments.output = out.data();
                           if (Status status = communicator.run(testPlugin(), arguments); !status.isOk())
                             return status.message();
                           if (std::memcmp(out.data(), sent.data(), sent.size()) != 0)
                             return "count " + std::to_string(count) + ", root " + std::to_string(root) +
                                    ": wrong bytes; ";
                           if (!out.isPoisonWhole())
                             return "wrote beyond the output; ";
                         }
                       return {};
                     }),
            "");
}

/// What it is for: however large the call, the runtime's memory stays small.
TEST(Staging, TakesNoMoreMemoryForLargeCalls) {
  (void)testPlugin();
  ScopedVariable memory("KOLO_ORDINARY_MEMORY", "staged");
  EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                     [](Communicator &communicator) {
                       Checker checker{communicator, kinds[1], 24'000'001, 1};
                       GuardedBuffer in(communicator, false, checker.inputBytes()),
                           out(communicator, false, checker.outputBytes());
                       std::string said = checker.run(in.data(), out.data());
                       int64_t bytes = mappedBytes();
                       return said + (bytes < 16 << 20 ? "" : std::to_string(bytes) + " bytes mapped");
                     }),
            "");
}

/// Bytes of the runtime's memory that a staged call uses.
static int64_t bytesTaken(Communicator &communicator, const Kind &kind, int64_t count, std::string &said) {
  Checker checker{communicator, kind, count, 1};
  GuardedBuffer in(communicator, false, checker.inputBytes()), out(communicator, false, checker.outputBytes());
  int64_t before = mappedBytes();
  said += checker.run(in.data(), out.data());
  return mappedBytes() - before;
}

/// Where it is left to the runtime: what is only moved is attached from small sizes on, what is combined from large
/// ones.
TEST(Staging, EndsWhereAttachingIsFaster) {
  (void)testPlugin();
  {
    ScopedVariable memory("KOLO_ORDINARY_MEMORY", "attach");
    if (!runRanks(Launch::Forked, 2, {}, [](Communicator &) { return std::string(); }).empty())
      GTEST_SKIP() << "processes may not attach to each other here";
  }
  struct Case {
    Kind kind;
    int64_t count;
    bool isStaged;
  };
  // Among two ranks the larger buffer of an all-gather has twice the count.
  for (Case each : {Case{kinds[0], (1 << 14) - 1, true}, Case{kinds[0], 1 << 14, false},
                    Case{kinds[2], (1 << 18) - 1, true}, Case{kinds[2], 1 << 18, false}})
    EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                       [&](Communicator &communicator) {
                         std::string said;
                         int64_t taken = bytesTaken(communicator, each.kind, each.count, said);
                         bool isStaged = taken >= std::min<int64_t>(each.count, 1 << 17);
                         return said + (isStaged == each.isStaged ? "" : std::to_string(taken) + " bytes mapped");
                       }),
              "")
        << each.kind.program << " of " << each.count << " bytes";
}

/// The first stores other than ordinary ones that a program is asked for in 20 calls, which contain a trial.
static std::string triedStores(Communicator &communicator, bool inWindow, int64_t count) {
  CallArguments arguments{"storesAllGather", *Mesh::parse("rank=2"), count, DataType::U8};
  GuardedBuffer in(communicator, inWindow, count), out(communicator, inWindow, 2 * count);
  arguments.input = in.data();
  arguments.output = out.data();
  for (int call = 0; call < 20; ++call) {
    if (Status status = communicator.run(testPlugin(), arguments); !status.isOk())
      return status.message();
    if (*out.data() != 0)
      return std::to_string(*out.data());
  }
  return "ordinary";
}

/// Scratch memory always, and the output only where it is staged.
TEST(Staging, TriesNonTemporalStoresToMemoryOfTheRuntime) {
  (void)testPlugin();
  static_assert(KOLO_TO_OUTPUT == 1 && KOLO_TO_SCRATCH == 2);
  ScopedVariable memory("KOLO_ORDINARY_MEMORY", "staged");
  EXPECT_EQ(runRanks(Launch::Forked, 2, {},
                     [](Communicator &communicator) {
                       std::string said = triedStores(communicator, true, 1 << 14) + ", " +
                                          triedStores(communicator, false, 1 << 14) + ", " +
                                          triedStores(communicator, false, 1 << 10);
                       return said == "2, 3, ordinary" ? "" : said;
                     }),
            "");
}
