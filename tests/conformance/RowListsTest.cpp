// Calls whose blocks are rows that lists choose: mistakes in lists, and programs that take none.
#include "Shipped.h"

#include <numeric>

using namespace kolo::conformance;
using namespace kolo::runtime;
using kolo::test::expectStatus;
using kolo::test::Launch;
using kolo::test::ScopedVariable;

namespace {

constexpr int64_t rowElements = 4, numRows = 6;

/// An all-to-all of two ranks: each gives one row to itself and two to the other one.
struct CallWithRows {
  std::vector<int64_t> givenCounts, takenCounts;
  std::vector<int32_t> input = std::vector<int32_t>(numRows * rowElements),
                       output = std::vector<int32_t>(numRows * rowElements, -1);
  std::vector<int32_t> inputRows = {5, 0, 5}, outputRows, landing;
  BlockTables tables;
  RowLists rows;
  CallArguments arguments;

  void set() {
    tables = {{givenCounts, {}}, {takenCounts, {}}};
    rows = {rowElements, inputRows, outputRows, numRows, numRows, landing};
    arguments.blocks = &tables;
    arguments.rows = &rows;
    arguments.input = input.data();
    arguments.output = output.data();
    arguments.type = DataType::I32;
  }
};

CallWithRows rightCall(int rank, const Mesh &mesh) {
  CallWithRows given;
  given.givenCounts = given.takenCounts = rank == 0 ? std::vector<int64_t>{4, 8} : std::vector<int64_t>{8, 4};
  for (size_t i = 0; i < given.input.size(); ++i)
    given.input[i] = int32_t(100 * rank + int(i));
  // What comes from rank 0 lands in rows 4, then 1; what comes from rank 1 in rows 2, then 0.
  given.outputRows = rank == 0 ? std::vector<int32_t>{4, 2, 0} : std::vector<int32_t>{4, 1, 2};
  given.landing = rank == 0 ? std::vector<int32_t>{4, 4, 1} : std::vector<int32_t>{2, 0, 2};
  given.arguments.mesh = mesh;
  given.set();
  return given;
}

std::string runRight(Communicator &communicator, const Plugin &plugin, const Mesh &mesh) {
  CallWithRows given = rightCall(communicator.rank(), mesh);
  if (Status status = communicator.run(plugin, given.arguments); !status.isOk())
    return status.message();
  std::vector<int32_t> expected(size_t(numRows * rowElements), -1);
  auto put = [&](int64_t to, int source, int64_t from) {
    for (int64_t i = 0; i < rowElements; ++i)
      expected[size_t(to * rowElements + i)] = int32_t(100 * source + from * rowElements + i);
  };
  if (communicator.rank() == 0)
    put(4, 0, 5), put(2, 1, 5), put(0, 1, 0);
  else
    put(4, 0, 0), put(1, 0, 5), put(2, 1, 5);
  return given.output == expected ? "" : "a right call gave something else; ";
}

const Plugin &allToAll() {
  static const CompiledAlgorithm algorithm("directAllToAll", /*optimize=*/true);
  return algorithm.plugin();
}

/// Rank 0 makes a change.
void expectRefusal(const std::function<void(CallWithRows &)> &change, const std::string &text) {
  const Mesh mesh = *Mesh::parse("rank=2");
  for (Launch launch : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(kolo::test::runRanks(launch, 2, {20000, 1},
                                   [&](Communicator &communicator) {
                                     CallWithRows given = rightCall(communicator.rank(), mesh);
                                     if (communicator.rank() == 0) {
                                       change(given);
                                       given.set();
                                     }
                                     std::string said = expectStatus(communicator.run(allToAll(), given.arguments),
                                                                     StatusCode::InvalidArgument, {text});
                                     if (given.output != std::vector<int32_t>(numRows * rowElements, -1))
                                       said += "something was written; ";
                                     return said + runRight(communicator, allToAll(), mesh);
                                   }),
              "")
        << text;
}

} // namespace

TEST(RowLists, OfWhichSomethingIsWrongAreToldToAllRanks) {
  expectRefusal([](CallWithRows &given) { given.inputRows[1] = 6; },
                "row 1 of the list of the input is 6; the input has 6 rows");
  expectRefusal([](CallWithRows &given) { given.inputRows[2] = -1; }, "row 2 of the list of the input is -1");
  expectRefusal([](CallWithRows &given) { given.inputRows.pop_back(); },
                "the list of the input has 2 rows, and block 1 ends with row 3");
  expectRefusal([](CallWithRows &given) { given.outputRows[0] = 99; },
                "row 0 of the list of the output is 99; the output has 6 rows");
  expectRefusal([](CallWithRows &given) { given.outputRows[2] = 4; }, "the list of the output names row 4 twice");
  expectRefusal([](CallWithRows &given) { given.landing[0] = -3; }, "row 0 of the list of landing rows is -3");
  expectRefusal([](CallWithRows &given) { given.landing.pop_back(); },
                "the list of landing rows has 2 rows, and block 1 ends with row 3");
}

TEST(RowLists, OfAnOutputNeedLandingRowsAtTheGiver) {
  const Mesh mesh = *Mesh::parse("rank=2");
  auto expectMismatch = [&](int rank, const std::function<void(CallWithRows &)> &change, const std::string &text) {
    auto body = [&](Communicator &communicator) {
      CallWithRows given = rightCall(communicator.rank(), mesh);
      if (communicator.rank() == rank)
        change(given);
      if (given.arguments.rows)
        given.set();
      std::string said = expectStatus(communicator.run(allToAll(), given.arguments), StatusCode::Mismatch, {text});
      if (given.output != std::vector<int32_t>(numRows * rowElements, -1))
        said += "something was written; ";
      return said + runRight(communicator, allToAll(), mesh);
    };
    for (Launch launch : {Launch::Threads, Launch::Forked})
      EXPECT_EQ(kolo::test::runRanks(launch, 2, {20000, 1}, body), "") << text;
  };
  const std::string of = "ranks disagree on row lists: rank ";
  // Rank 0 gives itself a block, too, and is named first.
  expectMismatch(
      0, [](CallWithRows &given) { given.landing.clear(); },
      of + "0 gives a block to rank 0 without landing rows, and that rank has a list of its output");
  expectMismatch(
      0, [](CallWithRows &given) { given.outputRows.clear(); },
      of + "0 gives a block to rank 0 with landing rows, and that rank has no list of its output");
  expectMismatch(
      0, [](CallWithRows &given) { given.landing.clear(), given.outputRows.clear(); },
      of + "0 gives a block to rank 1 without landing rows, and that rank has a list of its output");
  expectMismatch(
      1, [](CallWithRows &given) { given.arguments.rows = nullptr; },
      of + "0 gives a block to rank 1 with landing rows, and that rank has no list of its output");
}

TEST(RowLists, HaveRowsThatFitTheTables) {
  const Mesh mesh = *Mesh::parse("rank=2");
  auto expectRefused = [&](const std::function<void(CallWithRows &)> &change, const std::string &text) {
    auto body = [&](Communicator &communicator) {
      CallWithRows given = rightCall(communicator.rank(), mesh);
      if (communicator.rank() == 0)
        change(given);
      return expectStatus(communicator.run(allToAll(), given.arguments), StatusCode::InvalidArgument, {text}) +
             runRight(communicator, allToAll(), mesh);
    };
    EXPECT_EQ(kolo::test::runRanks(Launch::Threads, 2, {20000, 1}, body), "") << text;
  };
  expectRefused([](CallWithRows &given) { given.rows.elements = 0; }, "rows have 0 elements");
  expectRefused([](CallWithRows &given) { given.rows.elements = 3; },
                "block 0 of the input has 4 elements at 0; rows of 3 elements have multiples of that");
  expectRefused([](CallWithRows &given) { given.rows.inputRows = -1; }, "the input has -1 rows of 16 bytes");
  expectRefused([](CallWithRows &given) { given.arguments.output = given.input.data(); },
                "input and output of a call with row lists overlap");
  expectRefused([](CallWithRows &given) { given.arguments.blocks = nullptr; },
                "a call with row lists needs block tables");
  expectRefused([](CallWithRows &given) { given.arguments.input = nullptr; }, "input is null");
}

namespace {

/// Each rank gives rows 2 and 0 of its input. They land in rows 2 r + 1 and 2 r of rank 0's output, r being its number.
std::string gatherRows(Communicator &communicator, const Plugin &plugin) {
  const int rank = communicator.rank(), numRanks = communicator.size();
  const bool isOutputHere = rank == 0;
  const std::vector<int64_t> given = {2 * rowElements};
  const std::vector<int64_t> taken(isOutputHere ? size_t(numRanks) : 0, 2 * rowElements);
  const std::vector<int32_t> inputRows = {2, 0}, landing = {2 * rank + 1, 2 * rank};
  std::vector<int32_t> outputRows, input(size_t(3 * rowElements)),
      output(size_t(isOutputHere ? 2 * numRanks * rowElements : 0), -1), expected(output.size());
  for (size_t i = 0; i < input.size(); ++i)
    input[i] = int32_t(100 * rank + int(i));
  for (int source = 0; source < numRanks && isOutputHere; ++source)
    for (int row : {1, 0}) {
      outputRows.push_back(2 * source + row);
      for (int64_t i = 0; i < rowElements; ++i)
        expected[size_t((2 * source + row) * rowElements + i)] = int32_t(100 * source + 2 * row * rowElements + i);
    }
  const BlockTables tables = {{given, {}}, {taken, {}}};
  const RowLists rows = {rowElements, inputRows, outputRows, 3, 2 * numRanks, landing};
  CallArguments arguments{"", *Mesh::create({{"rank", numRanks}}), 0, DataType::I32};
  arguments.input = input.data();
  arguments.output = output.data();
  arguments.blocks = &tables;
  arguments.rows = &rows;
  Status status = communicator.run(plugin, arguments);
  return !status.isOk() ? status.message() : output == expected ? "" : "other rows arrived";
}

} // namespace

/// Not in all-to-alls alone.
TEST(RowLists, SayWhereGatheredRowsLie) {
  const CompiledAlgorithm algorithm("directGather", /*optimize=*/true, {.transfers = kolo::Transfers::Push});
  ASSERT_TRUE(algorithm.info().proved.front().takesRows);
  auto body = [&](Communicator &communicator) { return gatherRows(communicator, algorithm.plugin()); };
  for (int numRanks : {1, 3, 4}) {
    EXPECT_EQ(kolo::test::runRanks(Launch::Threads, numRanks, {20000, 2}, body), "");
    for (const char *memory : {"attach", "staged"}) {
      ScopedVariable ordinary("KOLO_ORDINARY_MEMORY", memory);
      EXPECT_EQ(kolo::test::runRanks(Launch::Forked, numRanks, {20000, 1}, body), "") << memory;
    }
  }
}

namespace {

/// Two nodes of two ranks. Rank r gives rank p one row or two, and p puts what it takes into its rows, last row first.
std::string exchangeRows(Communicator &communicator, const Plugin &plugin) {
  constexpr int numRanks = 4, rowsTaken = 6;
  const int rank = communicator.rank();
  auto rowsOf = [](int giver, int taker) { return 1 + (giver + taker) % 2; };
  auto valueOf = [](int giver, int row) {
    return float(row % 2 ? -448 : 448) * float(1 << giver);
  }; // codecs keep these
  std::vector<int64_t> given, taken;
  std::vector<int32_t> inputRows, outputRows, landing;
  std::vector<float> input, output(size_t(rowsTaken * rowElements)), expected(output.size());
  for (int row = 0; row < numRanks; ++row)
    input.insert(input.end(), size_t(rowElements), valueOf(rank, row));
  for (int peer = 0; peer < numRanks; ++peer) {
    given.push_back(rowsOf(rank, peer) * rowElements), taken.push_back(rowsOf(peer, rank) * rowElements);
    int32_t last = rowsTaken;
    for (int before = 0; before < rank; ++before)
      last -= rowsOf(before, peer);
    for (int row = 0; row < rowsOf(rank, peer); ++row)
      inputRows.push_back((peer + 3 * row) % numRanks), landing.push_back(last - 1 - row);
    for (int row = 0; row < rowsOf(peer, rank); ++row) {
      outputRows.push_back(rowsTaken - 1 - int32_t(outputRows.size()));
      std::fill_n(expected.begin() + outputRows.back() * rowElements, rowElements,
                  valueOf(peer, (rank + 3 * row) % numRanks));
    }
  }
  const BlockTables tables = {{given, {}}, {taken, {}}};
  const RowLists rows = {rowElements, inputRows, outputRows, numRanks, rowsTaken, landing};
  CallArguments arguments{"", *Mesh::parse("node=2,gpu=2"), 0, DataType::F32};
  arguments.input = input.data();
  arguments.output = output.data();
  arguments.blocks = &tables;
  arguments.rows = &rows;
  Status status = communicator.run(plugin, arguments);
  return !status.isOk() ? status.message() : output == expected ? "" : "other rows arrived";
}

} // namespace

/// Of those only the first and the last rank know the lists.
TEST(RowLists, SayWhereForwardedRowsLie) {
  const CompiledAlgorithm algorithm("quantisedTwoLevelAllToAll", /*optimize=*/true);
  auto body = [&](Communicator &communicator) { return exchangeRows(communicator, algorithm.plugin()); };
  EXPECT_EQ(kolo::test::runRanks(Launch::Threads, 4, {20000, 2}, body), "");
  for (const char *memory : {"attach", "staged"}) {
    ScopedVariable ordinary("KOLO_ORDINARY_MEMORY", memory);
    EXPECT_EQ(kolo::test::runRanks(Launch::Forked, 4, {20000, 1}, body), "") << memory;
  }
}

/// Rank 0 gives rows of a list; rank 1 has none, and a plain output. The call is staged in several pieces.
TEST(RowLists, MayBeOfSomeRanksAlone) {
  constexpr int64_t count = 40000;
  const Mesh mesh = *Mesh::parse("rank=2");
  const Plugin &plugin = allToAll(); // compiled before the ranks fork
  auto body = [&](Communicator &communicator) -> std::string {
    const int rank = communicator.rank();
    const std::vector<int64_t> counts = {count, count};
    std::vector<int32_t> input(2 * count), output(2 * count, -1), list(2 * count / rowElements);
    for (size_t i = 0; i < input.size(); ++i)
      input[i] = int32_t(i) + (rank << 20);
    std::iota(list.rbegin(), list.rend(), 0); // the rows in reverse order
    const auto numListed = int64_t(list.size());
    const BlockTables tables = {{counts, {}}, {counts, {}}};
    const RowLists rows = {rowElements, list, {}, numListed, 0, {}};
    CallArguments arguments{"", mesh, 0, DataType::I32};
    arguments.input = input.data();
    arguments.output = output.data();
    arguments.blocks = &tables;
    arguments.rows = rank == 0 ? &rows : nullptr;
    if (Status status = communicator.run(plugin, arguments); !status.isOk())
      return status.message();
    for (int64_t i = 0; i < 2 * count; ++i) {
      const int64_t giver = i / count, at = rank * count + i % count;
      const int64_t from = giver == 0 ? (numListed - 1 - at / rowElements) * rowElements + at % rowElements : at;
      if (output[size_t(i)] != int32_t(from) + int32_t(giver << 20))
        return "element " + std::to_string(i) + " is wrong";
    }
    return "";
  };
  for (const char *memory : {"attach", "staged"}) {
    ScopedVariable ordinary("KOLO_ORDINARY_MEMORY", memory);
    EXPECT_EQ(kolo::test::runRanks(Launch::Forked, 2, {20000, 1}, body), "") << memory;
  }
}

/// What lands beyond a peer's output would be written there: the call ends on all ranks, and with it the communicator.
TEST(RowLists, LandInsideOfTheOutput) {
  const Mesh mesh = *Mesh::parse("rank=2");
  for (Launch launch : {Launch::Threads, Launch::Forked})
    for (int32_t landing : {6, INT32_MAX}) {
      auto body = [&](Communicator &communicator) {
        CallWithRows given = rightCall(communicator.rank(), mesh);
        if (communicator.rank() == 0)
          given.landing[1] = landing;
        given.set();
        return expectStatus(
            communicator.run(allToAll(), given.arguments), StatusCode::InvalidArgument,
            {"the list of landing rows of rank 0 leads ", "into the output of rank 1, which is shorter"});
      };
      ScopedVariable attach("KOLO_ORDINARY_MEMORY", "attach");
      EXPECT_EQ(kolo::test::runRanks(launch, 2, {20000, 1}, body), "") << landing;
    }
}

/// A program takes lists if each rank moves its input itself and nothing reads an output.
TEST(RowLists, AreForProgramsThatMoveEachBlockOnce) {
  auto takesRows = [](const char *name, const kolo::Schedule &schedule = {}) {
    return CompiledAlgorithm(name, /*optimize=*/true, schedule).info().proved.front().takesRows;
  };
  EXPECT_TRUE(takesRows("directAllToAll"));
  EXPECT_TRUE(takesRows("railAllToAll"));
  EXPECT_TRUE(takesRows("nodeAllToAll"));
  EXPECT_FALSE(takesRows("directAllToAll", {.transfers = kolo::Transfers::Pull}));
  EXPECT_FALSE(takesRows("directAllToAll", {.protocol = kolo::Protocol::LL}));
  EXPECT_FALSE(takesRows("twoLevelAllToAll"));
  EXPECT_TRUE(takesRows("quantisedAllToAll"));
  EXPECT_TRUE(takesRows("quantisedTwoLevelAllToAll"));
  EXPECT_FALSE(takesRows("ringAllGather"));
  EXPECT_FALSE(takesRows("ringReduceScatter"));
  const CompiledAlgorithm pulling("directAllToAll", /*optimize=*/true, {.transfers = kolo::Transfers::Pull});
  const Mesh mesh = *Mesh::parse("rank=2");
  auto body = [&](Communicator &communicator) {
    CallWithRows given = rightCall(communicator.rank(), mesh);
    return expectStatus(communicator.run(pulling.plugin(), given.arguments), StatusCode::InvalidArgument,
                        {"program 'directAllToAll' takes no row lists on mesh rank=2"});
  };
  EXPECT_EQ(kolo::test::runRanks(Launch::Threads, 2, {20000, 1}, body), "");
}
