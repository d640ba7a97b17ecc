// Calls with block tables that cannot be right: all ranks are told, nothing is written, and the next call works.
#include "Shipped.h"

#include <functional>
#include <numeric>

using namespace kolo::conformance;
using namespace kolo::runtime;
using kolo::test::expectStatus;
using kolo::test::Launch;

namespace {

constexpr int64_t most = 16;

/// A call of two ranks, each with tables of its own.
struct CallWithTables {
  std::vector<int64_t> inputCounts, inputPlaces, outputCounts, outputPlaces;
  std::vector<int32_t> input = std::vector<int32_t>(64), output = std::vector<int32_t>(64, -1);
  BlockTables tables;
  CallArguments arguments;

  void setTables() {
    tables = {{inputCounts, inputPlaces}, {outputCounts, outputPlaces}};
    arguments.blocks = &tables;
    arguments.input = input.data();
    arguments.output = output.data();
    arguments.type = DataType::I32;
  }
};

/// Of an all-to-all: rank r gives 2 + r + p elements to rank p.
CallWithTables rightCallWithTables(int rank, const Mesh &mesh) {
  CallWithTables given;
  for (int peer = 0; peer < 2; ++peer) {
    given.inputCounts.push_back(2 + rank + peer);
    given.outputCounts.push_back(2 + rank + peer);
  }
  std::iota(given.input.begin(), given.input.end(), 100 * rank);
  given.arguments.mesh = mesh;
  given.setTables();
  return given;
}

std::string runRightTables(Communicator &communicator, const Plugin &plugin, const Mesh &mesh) {
  const int rank = communicator.rank();
  CallWithTables given = rightCallWithTables(rank, mesh);
  if (Status status = communicator.run(plugin, given.arguments); !status.isOk())
    return status.message();
  std::vector<int32_t> expected(64, -1);
  size_t next = 0;
  for (int peer = 0; peer < 2; ++peer)
    for (int i = 0; i < 2 + rank + peer; ++i)
      expected[next++] = 100 * peer + (rank == 1 ? 2 + peer : 0) + i;
  return given.output == expected ? "" : "a right call gave something else; ";
}

const Plugin &allToAllWithTables() {
  static const CompiledAlgorithm algorithm("directAllToAll", /*optimize=*/true);
  return algorithm.plugin();
}

/// Rank 0 makes a change.
void expectRefusal(const std::function<void(CallWithTables &)> &change, StatusCode code, const std::string &text) {
  const Plugin &plugin = allToAllWithTables();
  const Mesh mesh = *Mesh::parse("rank=2");
  for (Launch launch : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(kolo::test::runRanks(launch, 2, {20000, 1},
                                   [&](Communicator &communicator) {
                                     CallWithTables given = rightCallWithTables(communicator.rank(), mesh);
                                     if (communicator.rank() == 0)
                                       change(given);
                                     std::string said =
                                         expectStatus(communicator.run(plugin, given.arguments), code, {text});
                                     if (given.output != std::vector<int32_t>(64, -1))
                                       said += "something was written; ";
                                     return said + runRightTables(communicator, plugin, mesh);
                                   }),
              "")
        << text;
}

} // namespace

TEST(BlockTableMistakes, AreToldToAllRanks) {
  const auto invalid = StatusCode::InvalidArgument;
  auto withTables = [](auto change) {
    return [change](CallWithTables &given) {
      change(given);
      given.setTables();
    };
  };
  expectRefusal(withTables([](CallWithTables &given) { given.inputCounts.push_back(1); }), invalid,
                "the table of the input has 3 counts, for 2 blocks on this rank");
  expectRefusal(withTables([](CallWithTables &given) { given.outputPlaces = {0}; }), invalid,
                "the table of the output has 1 places, for 2 blocks on this rank");
  expectRefusal(withTables([](CallWithTables &given) { given.inputCounts[1] = -1; }), invalid,
                "block 1 of the input has -1 elements");
  expectRefusal(withTables([](CallWithTables &given) { given.outputPlaces = {-4, 8}; }), invalid,
                "block 0 of the output begins at element -4");
  expectRefusal(withTables([](CallWithTables &given) { given.inputPlaces = {0, INT64_MAX / 4}; }), invalid,
                "block 1 of the input ends beyond 2^63 bytes");
  expectRefusal(withTables([](CallWithTables &given) { given.inputCounts = {INT64_MAX / 4, INT64_MAX / 4}; }), invalid,
                "block 1 of the input ends beyond 2^63 bytes");
  expectRefusal(withTables([](CallWithTables &given) { given.inputCounts = {INT64_MAX / 4, 0}; }), invalid,
                "elements in a block are too many");
  expectRefusal(withTables([](CallWithTables &given) { given.outputPlaces = {1, 0}; }), invalid,
                "blocks 0 and 1 of the output overlap");
  expectRefusal([](CallWithTables &given) { given.arguments.output = nullptr; }, invalid, "output is null");
}

TEST(BlockTableMistakes, OfTwoRanksAreNamed) {
  const auto mismatch = StatusCode::Mismatch;
  expectRefusal(
      [](CallWithTables &given) {
        given.inputCounts[1] = 7;
        given.setTables();
      },
      mismatch, "ranks disagree on a block: rank 0 gives 7 elements to rank 1, which takes 3");
  expectRefusal(
      [](CallWithTables &given) {
        given.outputCounts[1] = 0;
        given.setTables();
      },
      mismatch, "ranks disagree on a block: rank 1 gives 3 elements to rank 0, which takes 0");
  expectRefusal(
      [](CallWithTables &given) {
        given.arguments.blocks = nullptr;
        given.arguments.count = 3;
      },
      mismatch, "ranks disagree on block tables: rank 0 called with none, rank 1 with some");
}

TEST(BlockTableMistakes, OfProgramsThatTakeNone) {
  const CompiledAlgorithm allReduce("ringAllReduce", /*optimize=*/true);
  const CompiledAlgorithm reduceScatter("allPairsReduceScatter", /*optimize=*/true);
  const Mesh mesh = *Mesh::parse("rank=2");
  EXPECT_EQ(kolo::test::runRanks(Launch::Threads, 2, {20000, 1},
                                 [&](Communicator &communicator) {
                                   CallWithTables given = rightCallWithTables(communicator.rank(), mesh);
                                   std::string said =
                                       expectStatus(communicator.run(allReduce.plugin(), given.arguments),
                                                    StatusCode::InvalidArgument, {"all_reduce has one block"});
                                   given.outputCounts = {2 + communicator.rank()};
                                   given.setTables();
                                   given.arguments.type = DataType::F16;
                                   given.arguments.reduction = Reduction::Average;
                                   return said + expectStatus(communicator.run(reduceScatter.plugin(), given.arguments),
                                                              StatusCode::InvalidArgument,
                                                              {"averages of f16 and bf16 take no block tables"});
                                 }),
            "");
}

/// The output lies across the input, so that blocks are written where others are yet to be read.
TEST(BlockTableMistakes, AreNotBuffersThatOverlap) {
  const Mesh mesh = *Mesh::parse("rank=2");
  const Plugin &plugin = allToAllWithTables();
  for (const char *memory : {"attach", "staged"})
    for (int64_t count : {most, int64_t(100000)}) {
      kolo::test::ScopedVariable ordinary("KOLO_ORDINARY_MEMORY", memory);
      EXPECT_EQ(kolo::test::runRanks(Launch::Forked, 2, {20000, 1},
                                     [&](Communicator &communicator) -> std::string {
                                       const int rank = communicator.rank();
                                       const int64_t counts[] = {count, count / 2}, own = counts[rank],
                                                     other = counts[1 - rank];
                                       const std::vector<int64_t> inputCounts = {own, own},
                                                                  outputCounts = {counts[0], counts[1]},
                                                                  inputPlaces = {own, 0};
                                       std::vector<int32_t> all(size_t(4 * count));
                                       const size_t begin = size_t(count / 3);
                                       for (size_t i = 0; i < size_t(2 * own); ++i)
                                         all[begin + i] = int32_t(i) + 1000000 * rank;
                                       const BlockTables tables = {{inputCounts, inputPlaces}, {outputCounts, {}}};
                                       CallArguments arguments;
                                       arguments.mesh = mesh;
                                       arguments.type = DataType::I32;
                                       arguments.blocks = &tables;
                                       arguments.input = all.data() + begin;
                                       arguments.output = all.data();
                                       if (Status status = communicator.run(plugin, arguments); !status.isOk())
                                         return status.message();
                                       for (int giver = 0; giver < 2; ++giver)
                                         for (int64_t i = 0; i < counts[giver]; ++i) {
                                           int64_t at = (giver == 1 ? counts[0] : 0) + i;
                                           int64_t from = (rank == 0 ? counts[giver] : 0) + i + 1000000 * giver;
                                           if (all[size_t(at)] != from)
                                             return "element " + std::to_string(at) + " is " +
                                                    std::to_string(all[size_t(at)]) + ", not " + std::to_string(from) +
                                                    " of " + std::to_string(other);
                                         }
                                       return "";
                                     }),
                "")
          << memory << ", count " << count;
    }
}
