// Calls with block tables: what the runtime checks, and what it hands to kernels.
#include "device/Graph.h"
#include "device/Member.h"

#include <barrier>
#include <memory>

using namespace kolo::test;
using kolo::runtime::BlockTable;
using kolo::runtime::BlockTables;

namespace {

using Numbers = std::vector<int64_t>;
constexpr int32_t unwritten = -1;

/// Elements that each of three ranks gives to each other one.
using Matrix = std::array<std::array<int64_t, numRanks>, numRanks>;
constexpr Matrix skewed = {{{500, 0, 3}, {1, 70, 0}, {0, 900, 17}}};
constexpr Matrix oneHot = {{{0, 0, 0}, {0, 0, 777}, {0, 0, 0}}};
constexpr Matrix empty = {};
constexpr Matrix equal = {{{100, 100, 100}, {100, 100, 100}, {100, 100, 100}}};
/// Of an all-gather: each rank gives the same to all.
constexpr Matrix gathered = {{{300, 300, 300}, {0, 0, 0}, {41, 41, 41}}};

int32_t valueOf(int giver, int taker, int64_t index, int turn) {
  return elementOf(giver, index, turn) + taker * 100000;
}

/// One rank's tables, and what belongs to them. Blocks of the output lie in reverse order, with gaps.
struct MemberBlocks {
  MemberBlocks(const Matrix &matrix, int ofRank, bool isGather) : rank(ofRank), isAllGather(isGather) {
    const auto own = static_cast<size_t>(rank);
    for (size_t peer = 0; peer < numRanks; ++peer) {
      if (!isGather || peer == 0)
        counts[0].push_back(matrix[own][peer]);
      counts[1].push_back(matrix[peer][own]);
    }
    for (int64_t next = 3; size_t side : {0, 1}) {
      places[side].resize(counts[side].size());
      for (size_t block = counts[side].size(); block-- > 0; next += 2) {
        places[side][block] = next;
        next += counts[side][block];
      }
      lengths[side] = next;
      next = rank + 1;
    }
  }
  BlockTables tables() const { return {{counts[0], places[0]}, {counts[1], places[1]}}; }

  std::vector<int32_t> input(int turn) const {
    std::vector<int32_t> content(static_cast<size_t>(lengths[0]), unwritten);
    for (size_t block = 0; block < counts[0].size(); ++block)
      for (int64_t i = 0; i < counts[0][block]; ++i)
        content[static_cast<size_t>(places[0][block] + i)] =
            valueOf(rank, isAllGather ? 0 : static_cast<int>(block), i, turn);
    return content;
  }
  std::vector<int32_t> output(int turn) const {
    std::vector<int32_t> content(static_cast<size_t>(lengths[1]), unwritten);
    for (size_t block = 0; block < counts[1].size(); ++block)
      for (int64_t i = 0; i < counts[1][block]; ++i)
        content[static_cast<size_t>(places[1][block] + i)] =
            valueOf(static_cast<int>(block), isAllGather ? 0 : rank, i, turn);
    return content;
  }

  int rank;
  bool isAllGather;
  Numbers counts[2], places[2];
  int64_t lengths[2] = {}; // elements of each buffer
};

constexpr int root = 1;
constexpr size_t memoryBytes = size_t(1) << 20, outputPlace = memoryBytes / 2;

/// One rank with memory for its buffers, in a window or not. Where they begin differs from rank to rank.
struct BlocksMember {
  BlocksMember(Communicator &host, bool inWindow) : member(host, jobOf("directAllToAll", 1000)) {
    memory.emplace(std::move(*member.communicator.allocate(rank(), memoryBytes)));
    void *base = memory->data();
    if (inWindow)
      EXPECT_EQ(member.communicator.registerWindow({&base, 1}, memoryBytes).message(), "");
  }
  int rank() const { return member.communicator.ranks().front(); }
  size_t inputOffset() const { return static_cast<size_t>(rank()) * 64; }
  size_t outputOffset() const { return outputPlace + static_cast<size_t>(rank()) * 20; }

  /// A null input: the one that `fill` writes.
  Status start(const MemberBlocks &tabled, int64_t count = 1000, const std::byte *input = nullptr) {
    return start(tabled.isAllGather ? "ringAllGather" : "directAllToAll", tabled.tables(), count, input);
  }
  Status start(const char *program, const BlockTables &tables, int64_t count, const std::byte *input = nullptr) {
    CallArguments arguments = member.job.arguments();
    arguments.program = program;
    if (arguments.program == "ownAllGather")
      arguments.mesh = *kolo::runtime::Mesh::create({{"node", numRanks}, {"gpu", 1}});
    arguments.root = root;
    arguments.count = count;
    arguments.blocks = &tables;
    arguments.input = input ? input : static_cast<std::byte *>(memory->data()) + inputOffset();
    arguments.output = static_cast<std::byte *>(memory->data()) + outputOffset();
    return member.communicator.run(member.plugin, arguments, member.stream.handle());
  }
  /// A call whose buffers have these contents before and after. The output is `unwritten` before.
  std::string run(const char *program, const BlockTables &tables, int64_t count, const std::vector<int32_t> &input,
                  const std::vector<int32_t> &output) {
    const std::vector<int32_t> spoilt(output.size(), unwritten);
    std::vector<int32_t> found(output.size());
    EXPECT_EQ(memory->write(inputOffset(), input.data(), input.size() * 4).message(), "");
    EXPECT_EQ(memory->write(outputOffset(), spoilt.data(), spoilt.size() * 4).message(), "");
    Status status = start(program, tables, count);
    if (status.isOk())
      status = member.communicator.synchronize();
    EXPECT_EQ(memory->read(outputOffset(), found.data(), found.size() * 4).message(), "");
    return status.message() + (found == output ? "" : std::string(program) + " is wrong; ");
  }
  void fill(const MemberBlocks &tabled, int turn) {
    const std::vector<int32_t> input = tabled.input(turn), output(static_cast<size_t>(tabled.lengths[1]), unwritten);
    EXPECT_EQ(memory->write(inputOffset(), input.data(), input.size() * 4).message(), "");
    EXPECT_EQ(memory->write(outputOffset(), output.data(), output.size() * 4).message(), "");
  }
  std::string check(const MemberBlocks &tabled, int turn) const {
    std::vector<int32_t> found(static_cast<size_t>(tabled.lengths[1]));
    EXPECT_EQ(memory->read(outputOffset(), found.data(), found.size() * 4).message(), "");
    const std::vector<int32_t> wanted = tabled.output(turn);
    const auto place = std::ranges::mismatch(found, wanted).in1 - found.begin();
    return found == wanted ? "" : "element " + std::to_string(place) + " is wrong; ";
  }
  std::string run(const MemberBlocks &tabled, int turn) {
    fill(tabled, turn);
    Status status = start(tabled);
    if (status.isOk())
      status = member.communicator.synchronize();
    return status.message() + (status.isOk() ? check(tabled, turn) : "");
  }

  std::optional<DeviceBuffer> memory; // outlives the communicator: peers access it until that is gone
  Member member;
};

/// All ranks in one communicator, on two devices, each with memory for its buffers.
struct LocalBlocks {
  LocalBlocks() : communicator(std::move(*DeviceCommunicator::createLocal(devices, {.lanes = 2}))) {
    for (int rank = 0; rank < numRanks; ++rank) {
      memories.push_back(std::move(*communicator.allocate(rank, memoryBytes)));
      streams.push_back(std::move(*communicator.createStream(rank)));
    }
  }
  void set(const Matrix &matrix, bool isGather = false) {
    ranks.clear();
    job = jobOf(isGather ? "ringAllGather" : "directAllToAll", 0);
    for (int rank = 0; rank < numRanks; ++rank)
      ranks.emplace_back(matrix, rank, isGather);
  }
  Status start() {
    std::vector<BlockTables> tables;
    std::vector<RankBuffers> buffers;
    std::vector<StreamHandle> handles;
    for (const MemberBlocks &each : ranks)
      tables.push_back(each.tables());
    for (size_t rank = 0; rank < numRanks; ++rank) {
      auto *base = static_cast<std::byte *>(memories[rank].data());
      buffers.push_back({base, base + outputPlace, &tables[rank]});
      handles.push_back(streams[devices[rank] == 0 ? 0 : 1].handle());
    }
    return communicator.run(devicePlugin(), arguments(), buffers, handles);
  }
  CallArguments arguments() const { return job.arguments(); }
  void fill(int turn) {
    for (size_t rank = 0; rank < numRanks; ++rank) {
      const std::vector<int32_t> input = ranks[rank].input(turn),
                                 output(static_cast<size_t>(ranks[rank].lengths[1]), unwritten);
      EXPECT_EQ(memories[rank].write(0, input.data(), input.size() * 4).message(), "");
      EXPECT_EQ(memories[rank].write(outputPlace, output.data(), output.size() * 4).message(), "");
    }
  }
  std::string check(int turn) const {
    std::string wrong;
    for (size_t rank = 0; rank < numRanks; ++rank) {
      std::vector<int32_t> found(static_cast<size_t>(ranks[rank].lengths[1]));
      EXPECT_EQ(memories[rank].read(outputPlace, found.data(), found.size() * 4).message(), "");
      wrong += found == ranks[rank].output(turn) ? "" : "rank " + std::to_string(rank) + " is wrong; ";
    }
    return wrong;
  }
  std::string run(int turn) {
    fill(turn);
    Status status = start();
    if (status.isOk())
      status = communicator.synchronize();
    return status.message() + (status.isOk() ? check(turn) : "");
  }

  const std::vector<int> devices = {0, 1, 0};
  DeviceCommunicator communicator;
  std::vector<DeviceBuffer> memories;
  std::vector<DeviceStream> streams;
  std::vector<MemberBlocks> ranks;
  Job job;
};

} // namespace

TEST(LocalTables, SayWhatEachRankGivesAndTakes) {
  LocalBlocks local;
  int turn = 0;
  for (const Matrix *matrix : {&skewed, &oneHot, &empty, &equal, &skewed}) {
    local.set(*matrix);
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(local.run(turn++), "");
  }
  local.set(gathered, true);
  EXPECT_EQ(local.run(turn), "");
}

TEST(LocalTables, OfARepeatedCallAllocateNothing) {
  LocalBlocks local;
  local.set(skewed);
  EXPECT_EQ(local.run(0), "");
  const int64_t alive = liveHandles();
  for (int turn = 1; turn < 5; ++turn)
    EXPECT_EQ(local.run(turn), "");
  EXPECT_EQ(liveHandles(), alive);
}

TEST(LocalTables, OfMoreCallsThanAreKeptUseTheMemoryOfEarlierOnes) {
  LocalBlocks local;
  int64_t alive = 0;
  for (int64_t call = 0; call < 700; ++call) {
    Matrix matrix = skewed;
    matrix[0][1] = call; // other tables than those of the calls before
    local.set(matrix);
    ASSERT_EQ(local.start().message(), "");
    if (call % 50 == 0)
      ASSERT_EQ(local.communicator.synchronize().message(), "");
    if (call == 600)
      alive = liveHandles();
  }
  EXPECT_EQ(local.run(7), "");
  EXPECT_EQ(liveHandles(), alive);
}

TEST(LocalTables, AreCopiedWhenACallIsCaptured) {
  LocalBlocks local;
  local.set(skewed);
  local.communicator = std::move(*DeviceCommunicator::createLocal(std::vector<int>(numRanks, 0), {.lanes = 2}));
  local.memories.clear();
  for (int rank = 0; rank < numRanks; ++rank)
    local.memories.push_back(std::move(*local.communicator.allocate(rank, memoryBytes)));
  DeviceStream stream = std::move(*local.communicator.createStream(0));
  std::vector<StreamHandle> handles(numRanks, stream.handle());
  Graph graph(stream.handle(), [&] {
    std::vector<BlockTables> tables;
    std::vector<RankBuffers> buffers;
    for (const MemberBlocks &each : local.ranks)
      tables.push_back(each.tables());
    for (size_t rank = 0; rank < numRanks; ++rank) {
      auto *base = static_cast<std::byte *>(local.memories[rank].data());
      buffers.push_back({base, base + outputPlace, &tables[rank]});
    }
    EXPECT_EQ(local.communicator.run(devicePlugin(), local.arguments(), buffers, handles).message(), "");
    for (MemberBlocks &each : local.ranks) // the caller's tables go
      for (Numbers &numbers : each.counts)
        std::ranges::fill(numbers, 0);
  });
  local.set(skewed);
  for (int turn = 0; turn < 3; ++turn) {
    local.fill(turn);
    graph.launchAndWait(stream);
    EXPECT_EQ(local.check(turn), "");
  }
}

TEST(LocalTables, ThatMakeNoSenseAreRefusedAndStopNothing) {
  LocalBlocks local;
  auto refused = [&](auto change, StatusCode code, const std::vector<std::string> &texts) {
    local.set(skewed);
    change(local.ranks[1]);
    EXPECT_EQ(expectStatus(local.start(), code, texts), "");
  };
  using enum StatusCode;
  refused([](MemberBlocks &rank) { rank.counts[0].pop_back(); }, InvalidArgument,
          {"rank 1: the table of the input has 2 counts, for 3 blocks on this rank"});
  refused([](MemberBlocks &rank) { rank.places[1].pop_back(); }, InvalidArgument,
          {"rank 1: the table of the output has 2 places, for 3 blocks on this rank"});
  refused([](MemberBlocks &rank) { rank.counts[1][2] = -1; }, InvalidArgument,
          {"rank 1: block 2 of the output has -1 elements"});
  refused([](MemberBlocks &rank) { rank.places[0][0] = INT64_MAX / 8; }, InvalidArgument,
          {"rank 1: input has 46116860184273879", "bytes, and only"});
  refused([](MemberBlocks &rank) { rank.places[0][0] = INT64_MAX - 1; }, InvalidArgument,
          {"rank 1: block 0 of the input ends beyond 2^63 bytes"});
  refused([](MemberBlocks &rank) { rank.places[1][2] = rank.places[1][1]; }, InvalidArgument, {"overlap"});
  refused([](MemberBlocks &rank) { rank.counts[1][2] += 1; }, Mismatch,
          {"ranks disagree on a block: rank 2 gives 900 elements to rank 1, which takes 901"});
  refused([](MemberBlocks &rank) { rank.places[0][0] = int64_t(memoryBytes) / 4; }, InvalidArgument,
          {"rank 1: input has 1048580 bytes, and only 1048576 are left in its memory"});
  local.set(skewed);
  EXPECT_EQ(local.run(3), "");
}

TEST(LocalTables, MustBeOfAllRanksOrOfNone) {
  LocalBlocks local;
  local.set(gathered, true);
  std::vector<RankBuffers> buffers;
  std::vector<StreamHandle> handles;
  const BlockTables tables = local.ranks[1].tables();
  for (size_t rank = 0; rank < numRanks; ++rank) {
    auto *base = static_cast<std::byte *>(local.memories[rank].data());
    buffers.push_back({base, base + outputPlace, rank == 1 ? &tables : nullptr});
    handles.push_back(local.streams[local.devices[rank] == 0 ? 0 : 1].handle());
  }
  EXPECT_EQ(expectStatus(local.communicator.run(devicePlugin(), local.arguments(), buffers, handles),
                         StatusCode::Mismatch, {"ranks disagree on block tables"}),
            "");
}

TEST(LocalTables, NeedAKernelForThem) {
  LocalRanks local({0, 0}, {"hang", 10}, {.lanes = 1});
  const int64_t counts[] = {10, 10}, own[] = {10};
  const BlockTables tables{{own, {}}, {counts, {}}};
  std::vector<RankBuffers> buffers = {local.ranks[0].buffers(), local.ranks[1].buffers()};
  for (RankBuffers &each : buffers)
    each.blocks = &tables;
  const StreamHandle streams[] = {local.streams[0].handle(), local.streams[0].handle()};
  EXPECT_EQ(expectStatus(local.communicator->run(devicePlugin(), local.job.arguments(), buffers, streams),
                         StatusCode::BadPlugin, {"program 'hang' takes no block tables on devices"}),
            "");
}

class MemberTables : public testing::TestWithParam<std::tuple<Launch, bool>> {
protected:
  static Launch launch() { return std::get<0>(GetParam()); }
  static bool inWindow() { return std::get<1>(GetParam()); }
};

TEST_P(MemberTables, SayWhatEachRankGivesAndTakes) {
  EXPECT_EQ(inAll(launch(),
                  [&](Communicator &host) -> std::string {
                    BlocksMember own(host, inWindow());
                    std::string wrong;
                    int turn = 0;
                    for (const Matrix *matrix : {&skewed, &oneHot, &empty, &equal, &skewed})
                      for (int again = 0; again < 2; ++again)
                        wrong += own.run({*matrix, own.rank(), false}, turn++);
                    for (int again = 0; again < 2; ++again)
                      wrong += own.run({gathered, own.rank(), true}, turn++);
                    return wrong;
                  }),
            "");
}

/// Ranks that are not the root have no table of its buffer.
TEST_P(MemberTables, GoToARootAndComeFromIt) {
  EXPECT_EQ(inAll(launch(),
                  [&](Communicator &host) -> std::string {
                    BlocksMember own(host, inWindow());
                    const auto rank = static_cast<size_t>(own.rank());
                    const Numbers counts = {5, 900, 7}, places = {910, 3, 920}, one = {counts[rank]};
                    std::vector<int32_t> part, whole(rank == root ? 930 : 0, unwritten);
                    for (int64_t i = 0; i < one[0]; ++i)
                      part.push_back(elementOf(own.rank(), i, 0));
                    for (size_t block = 0; rank == root && block < numRanks; ++block)
                      for (int64_t i = 0; i < counts[block]; ++i)
                        whole[static_cast<size_t>(places[block] + i)] = elementOf(static_cast<int>(block), i, 0);
                    const BlockTable ofPart = {one, {}},
                                     ofWhole = rank == root ? BlockTable{counts, places} : BlockTable{};
                    std::string wrong;
                    for (int again = 0; again < 2; ++again)
                      wrong += own.run("directGather", {ofPart, ofWhole}, 900, part, whole) +
                               own.run("directScatter", {ofWhole, ofPart}, 901, whole, part);
                    return wrong;
                  }),
            "");
}

/// What a rank does not know of other groups, `count` says.
TEST_P(MemberTables, OfGroupsHaveOtherLongestBlocks) {
  EXPECT_EQ(inAll(launch(),
                  [&](Communicator &host) -> std::string {
                    BlocksMember own(host, inWindow());
                    const Numbers one = {100 * own.rank() + 7};
                    const std::vector<int32_t> content(static_cast<size_t>(one[0]), own.rank());
                    return own.run("ownAllGather", {{one, {}}, {one, {}}}, 300, content, content);
                  }),
            "");
}

/// Rank 1's block to itself grows, and all ranks say so: those whose tables are as before, too.
TEST_P(MemberTables, OfARepeatedCallMayHaveAnotherBound) {
  EXPECT_EQ(inAll(launch(),
                  [&](Communicator &host) -> std::string {
                    BlocksMember own(host, inWindow());
                    Matrix grown = skewed;
                    grown[1][1] = 1500;
                    std::string wrong = own.run({skewed, own.rank(), false}, 0);
                    const MemberBlocks tabled(grown, own.rank(), false);
                    own.fill(tabled, 1);
                    Status status = own.start(tabled, 2000);
                    if (status.isOk())
                      status = own.member.communicator.synchronize();
                    return wrong + status.message() + own.check(tabled, 1);
                  }),
            "");
}

/// The input of each rank is its block of the output; that of rank 1 is empty.
TEST_P(MemberTables, ServeAnAllGatherInPlace) {
  EXPECT_EQ(inAll(launch(),
                  [&](Communicator &host) -> std::string {
                    BlocksMember own(host, inWindow());
                    MemberBlocks tabled(gathered, own.rank(), true);
                    tabled.places[0] = {0};
                    const size_t numBytes = static_cast<size_t>(tabled.counts[0][0]) * 4,
                                 begin = own.outputOffset() +
                                         static_cast<size_t>(tabled.places[1][static_cast<size_t>(own.rank())]) * 4;
                    std::string wrong;
                    for (int turn = 0; turn < 2; ++turn) {
                      own.fill(tabled, turn);
                      wrong += own.memory->write(begin, tabled.input(turn).data(), numBytes).message();
                      Status status = own.start(tabled, 1000, static_cast<std::byte *>(own.memory->data()) + begin);
                      if (status.isOk())
                        status = own.member.communicator.synchronize();
                      wrong += status.message() + own.check(tabled, turn);
                    }
                    return wrong;
                  }),
            "");
}

/// Rank 0 makes calls with new tables, and with known ones, before its peers make theirs: it waits for nobody.
TEST_P(MemberTables, NeedNoMeeting) {
  if (launch() != Launch::Threads)
    GTEST_SKIP() << "the barrier is of one process";
  std::barrier barrier(numRanks);
  EXPECT_EQ(inAll(launch(),
                  [&](Communicator &host) -> std::string {
                    BlocksMember own(host, inWindow());
                    const MemberBlocks first(skewed, own.rank(), false), second(equal, own.rank(), false);
                    std::string wrong = own.run(first, 0); // brings the internal memory
                    own.fill(second, 1);
                    barrier.arrive_and_wait();
                    if (own.rank() == 0)
                      for (const MemberBlocks *each : {&first, &second, &first, &second})
                        wrong += own.start(*each).message();
                    barrier.arrive_and_wait();
                    if (own.rank() != 0)
                      for (const MemberBlocks *each : {&first, &second, &first, &second})
                        wrong += own.start(*each).message();
                    return wrong + own.member.communicator.synchronize().message();
                  }),
            "");
}

TEST_P(MemberTables, WithTwoCountsOfOneBlockAreNamedOnAllRanks) {
  EXPECT_EQ(inAll(launch(),
                  [&](Communicator &host) -> std::string {
                    BlocksMember own(host, inWindow());
                    std::string wrong = own.run({equal, own.rank(), false}, 0);
                    MemberBlocks other(skewed, own.rank(), false);
                    if (own.rank() == 1)
                      other.counts[1][2] -= 1;
                    Status status = own.start(other);
                    if (status.isOk())
                      status = own.member.communicator.synchronize();
                    return wrong + expectFailure(status, StatusCode::Mismatch,
                                                 {"ranks disagree on a block: rank 2 gives 900 elements to rank 1, "
                                                  "which takes 899"});
                  }),
            "");
}

TEST_P(MemberTables, HaveNoBlockThatIsLongerThanTheCallSays) {
  EXPECT_EQ(inAll(launch(),
                  [&](Communicator &host) -> std::string {
                    BlocksMember own(host, inWindow());
                    const MemberBlocks equalRank(equal, own.rank(), false);
                    std::string wrong =
                        expectStatus(own.start(equalRank, 99), StatusCode::InvalidArgument,
                                     {"a block has 100 elements, and the call says that none has more than 99"});
                    return wrong + own.run(equalRank, 1);
                  }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Launches, MemberTables,
                         testing::Combine(testing::Values(Launch::Threads, Launch::Forked), testing::Bool()),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param) == Launch::Threads ? "Threads" : "Forked") +
                                  (std::get<1>(info.param) ? "InWindows" : "Staged");
                         });
