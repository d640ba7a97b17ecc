// Ranks that agree on groups of sends and receives: all of them decide alike, however late they come.
#include "doors/nccl/GroupHub.h"
#include "doors/nccl/Process.h"
#include "doors/nccl/RemoteBoard.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

using namespace kolo::nccl;
using std::chrono::milliseconds;

/// What a hub says of memory that it cannot open.
void kolo::nccl::print(const std::string &text) { ADD_FAILURE() << text; }

namespace {

constexpr PeerUse both = sendsTo | receivesFrom;
constexpr uint64_t host = 1;

std::unique_ptr<GroupBoard> openBoard(const Key &key, int rank, int size) {
  auto board = GroupBoard::open(key, host, rank, size);
  EXPECT_TRUE(board.isOk()) << board.status().message();
  return std::move(board).value();
}

EnteredGroup groupOf(std::vector<PeerUse> peers, int64_t longest = 1) { return {std::move(peers), longest, {}}; }

GroupVerdict await(GroupAgreement &board) {
  for (int numLooks = 0;; pause(numLooks))
    if (std::optional<GroupVerdict> verdict = board.look())
      return *verdict;
}

/// What a step of a program does between two ranks: the same on both, but for the direction.
struct Step {
  std::vector<std::vector<bool>> sends; // by sender and receiver
  int splitting;                        // the rank that calls without a group; -1: none does

  std::vector<PeerUse> peersOf(size_t rank) const {
    std::vector<PeerUse> peers;
    for (size_t peer = 0; peer < sends.size(); ++peer)
      peers.push_back(static_cast<PeerUse>((sends[rank][peer] ? sendsTo : 0) | (sends[peer][rank] ? receivesFrom : 0)));
    return peers;
  }
  bool namesAll(size_t rank) const {
    const std::vector<PeerUse> peers = peersOf(rank);
    for (size_t peer = 0; peer < peers.size(); ++peer)
      if (peer != rank && peers[peer] == 0)
        return false;
    return true;
  }
  bool isComplete() const {
    bool all = splitting < 0;
    for (size_t rank = 0; rank < sends.size(); ++rank)
      all &= namesAll(rank);
    return all;
  }
};

std::vector<Step> makeSteps(size_t numRanks, unsigned seed) {
  std::minstd_rand random(seed + 1);
  random.discard(7);
  std::vector<Step> steps;
  for (int number = 0; number < 200; ++number) {
    const unsigned share = std::vector<unsigned>{10, 10, 8, 5}[random() % 4]; // of 10 blocks that are not empty
    Step step{std::vector(numRanks, std::vector<bool>(numRanks)), -1};
    for (std::vector<bool> &row : step.sends)
      for (size_t peer = 0; peer < numRanks; ++peer)
        row[peer] = random() % 10 < share;
    if (random() % 6 == 0)
      step.splitting = static_cast<int>(random() % numRanks);
    steps.push_back(std::move(step));
  }
  return steps;
}

/// The ranks of a communicator. The last `numRemote` of them are as on other hosts.
struct AgreeingRanks {
  Key key = freshKey().value();
  int size, numRemote;
  std::barrier<> meeting{size};
  std::vector<std::byte> bytes = std::vector<std::byte>(static_cast<size_t>(size) * 512);

  std::vector<int> remote() const {
    std::vector<int> ranks;
    for (int rank = size - numRemote; rank < size; ++rank)
      ranks.push_back(rank);
    return ranks;
  }
  kolo::runtime::AllGather allGather(int rank) {
    return [this, rank](const void *own, size_t sizeBytes, void *all) {
      std::memcpy(&bytes[static_cast<size_t>(rank) * sizeBytes], own, sizeBytes);
      meeting.arrive_and_wait();
      std::memcpy(all, bytes.data(), sizeBytes * static_cast<size_t>(size));
      meeting.arrive_and_wait();
      return kolo::runtime::Status();
    };
  }
};

/// A rank's way to agree, and on rank 0 the hub of the others.
struct Member {
  std::unique_ptr<GroupAgreement> board;
  std::unique_ptr<GroupHub> hub;
};

kolo::runtime::Hub connect(AgreeingRanks &ranks, int rank, kolo::runtime::HubHandler take) {
  auto made = kolo::runtime::Hub::create(rank, ranks.size, ranks.remote(), ranks.allGather(rank), std::move(take));
  EXPECT_TRUE(made.isOk()) << made.status().message();
  return std::move(made).value();
}

Member join(AgreeingRanks &ranks, int rank) {
  if (rank >= ranks.size - ranks.numRemote) {
    auto board = std::make_unique<RemoteBoard>(ranks.size);
    board->setHub(connect(ranks, rank, [own = board.get()](int, auto message) { return own->take(message); }));
    return {std::move(board), nullptr};
  }
  Member member;
  if (ranks.numRemote != 0 && rank == 0) {
    member.hub = std::make_unique<GroupHub>(ranks.key, host, ranks.size, ranks.remote());
    auto take = [own = member.hub.get()](int sender, auto message) { return own->take(sender, message); };
    EXPECT_TRUE(member.hub->start(connect(ranks, rank, take)).isOk());
  } else if (ranks.numRemote != 0) {
    (void)connect(ranks, rank, {});
  }
  member.board = openBoard(ranks.key, rank, ranks.size);
  return member;
}

/// Runs the steps as `rank`, at random times. What became of each: 1 if it was carried.
std::vector<int> runSteps(const std::vector<Step> &steps, AgreeingRanks &ranks, size_t rank, unsigned seed,
                          milliseconds most, int sleepsOneIn) {
  Member member = join(ranks, static_cast<int>(rank));
  GroupAgreement *board = member.board.get();
  std::minstd_rand random(seed * 64 + static_cast<unsigned>(rank) + 1);
  random.discard(7);
  std::vector<int> carried;
  for (const Step &step : steps) {
    if (random() % static_cast<unsigned>(sleepsOneIn) == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    const std::vector<PeerUse> peers = step.peersOf(rank);
    const bool isAlone = static_cast<size_t>(step.splitting) == rank;
    carried.push_back(0);
    if (isAlone || !step.namesAll(rank)) {
      board->count(peers);
      continue;
    }
    const size_t numRanks = peers.size(), longest = 100 * ((rank + 1) % numRanks + 1); // not that of the last rank
    board->enter(groupOf(peers, static_cast<int64_t>(longest)), most);
    const GroupVerdict verdict = await(*board);
    carried.back() = verdict.isCarried;
    if (verdict.isCarried)
      EXPECT_EQ(verdict.bound, boundOf(static_cast<int64_t>(100 * numRanks)));
  }
  ranks.meeting.arrive_and_wait(); // without rank 0 there is no hub
  return carried;
}

std::vector<std::vector<int>> runAll(const std::vector<Step> &steps, unsigned seed, milliseconds most, int sleepsOneIn,
                                     int numRemote = 0) {
  AgreeingRanks ranks{.size = static_cast<int>(steps.front().sends.size()), .numRemote = numRemote};
  std::vector<std::vector<int>> carried(steps.front().sends.size());
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < carried.size(); ++rank)
    threads.emplace_back([&, rank] { carried[rank] = runSteps(steps, ranks, rank, seed, most, sleepsOneIn); });
  threads.clear();
  return carried;
}

/// What ranks hear for which one thread looks in turns.
std::vector<GroupVerdict> awaitAll(std::vector<GroupBoard *> boards) {
  std::vector<GroupVerdict> verdicts(boards.size());
  for (size_t numKnown = 0, numLooks = 0; numKnown < boards.size() && numLooks < 100000000; ++numLooks)
    for (size_t rank = 0; rank < boards.size(); ++rank)
      if (std::optional<GroupVerdict> verdict = boards[rank] ? boards[rank]->look() : std::nullopt) {
        verdicts[rank] = *verdict;
        boards[rank] = nullptr;
        ++numKnown;
      }
  return verdicts;
}

void expectAlike(const std::vector<std::vector<int>> &carried, unsigned seed) {
  for (const std::vector<int> &each : carried)
    EXPECT_EQ(each, carried.front()) << "seed " << seed;
}

/// Exactly the steps are carried in which all ranks name each other.
void expectWhole(const std::vector<int> &carried, const std::vector<Step> &steps, unsigned seed) {
  for (size_t number = 0; number < steps.size(); ++number)
    EXPECT_EQ(carried[number], steps[number].isComplete()) << "seed " << seed << ", step " << number;
}

/// Of ranks that may give up.
struct Decided {
  int numCarried = 0, numGivenUp = 0;

  void add(const std::vector<int> &carried, const std::vector<Step> &steps) {
    for (size_t number = 0; number < steps.size(); ++number) {
      numCarried += carried[number];
      numGivenUp += steps[number].isComplete() && !carried[number];
      EXPECT_LE(carried[number], steps[number].isComplete());
    }
  }
};

} // namespace

TEST(GroupBoard, CarriesExactlyTheStepsInWhichAllRanksNameEachOther) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const std::vector<Step> steps = makeSteps(2 + seed, seed);
    const auto carried = runAll(steps, seed, milliseconds(60000), 20);
    expectAlike(carried, seed);
    expectWhole(carried.front(), steps, seed);
  }
}

/// Ranks that wait too shortly give up at any time.
TEST(GroupBoard, DecidesAlikeWhenRanksGiveUp) {
  Decided decided;
  for (unsigned seed = 0; seed < 12; ++seed) {
    const std::vector<Step> steps = makeSteps(2 + seed % 4, seed);
    const auto carried = runAll(steps, seed, milliseconds(seed % 3), 3);
    expectAlike(carried, seed);
    decided.add(carried.front(), steps);
  }
  EXPECT_GT(decided.numCarried, 0);
  EXPECT_GT(decided.numGivenUp, 0);
}

TEST(GroupHub, CarriesExactlyTheStepsInWhichAllRanksNameEachOther) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    const std::vector<Step> steps = makeSteps(2 + seed, seed);
    const auto carried = runAll(steps, seed, milliseconds(60000), 20, seed == 2 ? 2 : 1);
    expectAlike(carried, seed);
    expectWhole(carried.front(), steps, seed);
  }
}

TEST(GroupHub, DecidesAlikeWhenRanksGiveUp) {
  Decided decided;
  for (unsigned seed = 0; seed < 4; ++seed) {
    const std::vector<Step> steps = makeSteps(3, seed);
    const auto carried = runAll(steps, seed, milliseconds(1), 4, 1 + static_cast<int>(seed % 2));
    expectAlike(carried, seed);
    decided.add(carried.front(), steps);
  }
  EXPECT_GT(decided.numCarried, 0);
  EXPECT_GT(decided.numGivenUp, 0);
}

/// Rank 1 waits on another host for rank 0, which comes, or goes away before that.
TEST(GroupHub, TellsARankThatWaitsWhenAnotherComesOrLeaves) {
  for (bool comes : {true, false}) {
    AgreeingRanks ranks{.size = 2, .numRemote = 1};
    Member first, second;
    std::jthread other([&] { second = join(ranks, 1); });
    first = join(ranks, 0);
    other.join();
    second.board->enter(groupOf({both, 0}), milliseconds(60000));
    EXPECT_FALSE(second.board->look());
    if (comes)
      first.board->enter(groupOf({0, both}), milliseconds(60000));
    else
      first.hub.reset();
    const GroupVerdict verdict = await(*second.board);
    EXPECT_EQ(verdict.isCarried, comes);
    EXPECT_TRUE(verdict.failure.isOk() && !verdict.isTimeout);
    EXPECT_EQ(comes && await(*first.board).isCarried, comes);
  }
}

TEST(GroupHub, ARankThatLeavesWaitsForNobodyNorIsItAwaited) {
  AgreeingRanks ranks{.size = 3, .numRemote = 2};
  std::vector<Member> members(3);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] { members[static_cast<size_t>(rank)] = join(ranks, rank); });
  threads.clear();
  members[0].board->enter(groupOf({0, both, both}), milliseconds(60000));
  members[1].board->enter(groupOf({both, 0, both}), milliseconds(60000));
  members[1].board->leave();
  EXPECT_TRUE(members[1].board->hasLeft());
  for (size_t rank : {size_t(0), size_t(1)}) {
    const GroupVerdict verdict = await(*members[rank].board);
    EXPECT_FALSE(verdict.isCarried || verdict.isTimeout);
  }
}

TEST(GroupWire, TakesWhatItWritesAndNothingElse) {
  constexpr int size = 3;
  const GroupMessage entry{GroupMessage::Kind::Enter, 100, 7, {{both, 0, sendsTo}, 1000, {1, 2}, {3, 4}}};
  const std::vector<std::byte> bytes = toBytes(entry);
  const auto parsed = parseMessage(bytes, size);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(toBytes(*parsed), bytes);
  EXPECT_EQ(parsed->group.peers, entry.group.peers);
  EXPECT_TRUE(parseMessage(toBytes({GroupMessage::Kind::Count, 0, 0, {{0, both, 0}, 0, {}, {}}}), size));
  EXPECT_TRUE(parseMessage(toBytes({GroupMessage::Kind::Leave, 0, 0, {}}), size));
  EXPECT_TRUE(parseReply(toBytes(GroupReply{7, 1024, 1, 1, 0})));

  for (size_t numBytes = 0; numBytes < bytes.size(); ++numBytes)
    EXPECT_FALSE(parseMessage(std::span(bytes).first(numBytes), size));
  EXPECT_FALSE(parseMessage(bytes, size + 1));
  EXPECT_FALSE(parseMessage(toBytes({GroupMessage::Kind(3), 0, 0, {{0, 0, 0}, 0, {}, {}}}), size));
  EXPECT_FALSE(parseMessage(toBytes({GroupMessage::Kind::Count, 0, 0, {{0, 4, 0}, 0, {}, {}}}), size));
  EXPECT_FALSE(parseMessage(toBytes({GroupMessage::Kind::Enter, 3600001, 1, {{0, 0, 0}, 0, {}, {}}}), size));
  EXPECT_FALSE(parseMessage(toBytes({GroupMessage::Kind::Enter, 1, 0, {{0, 0, 0}, 0, {}, {}}}), size));
  EXPECT_FALSE(parseMessage(toBytes({GroupMessage::Kind::Enter, 1, 1, {{0, 0, 0}, -1, {}, {}}}), size));
  EXPECT_FALSE(parseReply(bytes));
  EXPECT_FALSE(parseReply(toBytes(GroupReply{7, -1, 1, 1, 0})));
  EXPECT_FALSE(parseReply(toBytes(GroupReply{7, 1024, 2, 1, 0})));
}

TEST(GroupBoard, TellsWhetherEachBlockHasOneLength) {
  for (int64_t received : {102, 101}) {
    const Key key = freshKey().value();
    auto first = openBoard(key, 0, 2), second = openBoard(key, 1, 2);
    first->enter({{0, both}, 102, {}, {lengthDigestOf(0, 1, 102), lengthDigestOf(1, 0, 7)}}, milliseconds(60000));
    second->enter({{both, 0}, 102, {}, {lengthDigestOf(1, 0, 7), lengthDigestOf(0, 1, received)}}, milliseconds(60000));
    for (const GroupVerdict &verdict : awaitAll({first.get(), second.get()})) {
      EXPECT_TRUE(verdict.isCarried);
      EXPECT_EQ(verdict.hasOneLengthEach, received == 102);
    }
  }
}

TEST(GroupBoard, DoesNotCarryGroupsOfDifferentTransfers) {
  const Key key = freshKey().value();
  auto first = openBoard(key, 0, 2), second = openBoard(key, 1, 2);
  second->count(0, receivesFrom); // what rank 0 sends now comes to the group before this one
  first->enter(groupOf({0, both}), milliseconds(60000));
  second->enter(groupOf({both, 0}), milliseconds(100));
  for (const GroupVerdict &verdict : awaitAll({first.get(), second.get()}))
    EXPECT_FALSE(verdict.isCarried);
  first->count(1, sendsTo); // which rank 1's group has received
  first->enter(groupOf({0, both}), milliseconds(60000));
  second->enter(groupOf({both, 0}), milliseconds(60000));
  for (const GroupVerdict &verdict : awaitAll({first.get(), second.get()}))
    EXPECT_TRUE(verdict.isCarried);
}

TEST(GroupBoard, DoesNotCarryGroupsInDifferentWindows) {
  const Key key = freshKey().value();
  auto first = openBoard(key, 0, 2), second = openBoard(key, 1, 2);
  first->enter({{both, both}, 8, {1, 2}}, milliseconds(60000));
  second->enter({{both, both}, 8, {1, 1}}, milliseconds(60000));
  for (const GroupVerdict &verdict : awaitAll({first.get(), second.get()}))
    EXPECT_FALSE(verdict.isCarried || verdict.isTimeout);
}

/// Rank 2 comes to a group that the others have forwarded, when they have entered the next one. That is still carried.
TEST(GroupBoard, CarriesTheGroupAfterOneThatOneRankComesToLate) {
  const Key key = freshKey().value();
  std::vector<std::unique_ptr<GroupBoard>> boards;
  std::vector<GroupBoard *> all;
  for (int rank = 0; rank < 3; ++rank)
    all.push_back(boards.emplace_back(openBoard(key, rank, 3)).get());
  const std::vector<PeerUse> peers = {both, both, both};
  for (int rank : {0, 1}) {
    all[static_cast<size_t>(rank)]->count(peers);
    all[static_cast<size_t>(rank)]->enter(groupOf(peers), milliseconds(60000));
  }
  all[2]->enter(groupOf(peers), milliseconds(60000));
  EXPECT_FALSE(awaitAll({all[2]}).front().isCarried);
  all[2]->enter(groupOf(peers), milliseconds(60000));
  for (const GroupVerdict &verdict : awaitAll(all))
    EXPECT_TRUE(verdict.isCarried);
}

TEST(GroupBoard, WaitsForNobodyWhoHasLeft) {
  const Key key = freshKey().value();
  auto first = openBoard(key, 0, 2), second = openBoard(key, 1, 2);
  second->leave();
  first->enter(groupOf({0, both}), milliseconds(60000));
  const GroupVerdict verdict = await(*first);
  EXPECT_FALSE(verdict.isCarried || verdict.isTimeout);
}

TEST(GroupBoard, WaitsForLessTimeAfterItHasWaitedInVain) {
  const Key key = freshKey().value();
  auto first = openBoard(key, 0, 2), second = openBoard(key, 1, 2);
  const auto begin = std::chrono::steady_clock::now();
  for (int number = 0; number < 20; ++number) {
    first->enter(groupOf({0, both}), milliseconds(64));
    EXPECT_TRUE(await(*first).isTimeout);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(64 * 20 / 2));
  for (int number = 0; number < 20; ++number)
    second->count(0, both);
  first->enter(groupOf({0, both}), milliseconds(60000 << 10));
  second->enter(groupOf({both, 0}), milliseconds(60000));
  for (const GroupVerdict &verdict : awaitAll({first.get(), second.get()}))
    EXPECT_TRUE(verdict.isCarried);
}

TEST(GroupBoard, WaitsInFullForRanksThatComeToTheSameGroupsLate) {
  const Key key = freshKey().value();
  auto first = openBoard(key, 0, 2), second = openBoard(key, 1, 2);
  const auto begin = std::chrono::steady_clock::now();
  for (int number = 0; number < 5; ++number) {
    first->enter(groupOf({0, both}), milliseconds(20));
    EXPECT_TRUE(await(*first).isTimeout);
    second->enter(groupOf({both, 0}), milliseconds(60000));
    const GroupVerdict late = await(*second); // sees that it is late
    EXPECT_FALSE(late.isCarried || late.isTimeout);
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(5 * 20));
}

/// The numbers of rounds come again. The first one is as that of the last carried round of new memory.
TEST(GroupBoard, CarriesNothingUnasked) {
  const Key key = freshKey().value();
  auto memory = SharedMemory::open(childOf(key, Descent::Groups, 0, 0), host, 4096);
  ASSERT_TRUE(memory.isOk());
  static_cast<std::atomic<uint64_t> *>(memory->data())->store((uint64_t(1) << 28) - 1);
  auto first = openBoard(key, 0, 2), second = openBoard(key, 1, 2);
  for (int number = 0; number < 3; ++number) {
    first->enter(groupOf({0, both}), milliseconds(0));
    EXPECT_FALSE(await(*first).isCarried);
  }
}

TEST(GroupBoard, BoundsBlocksByPowersOfTwo) {
  EXPECT_EQ(boundOf(0), 1);
  EXPECT_EQ(boundOf(1), 1);
  EXPECT_EQ(boundOf(3), 4);
  EXPECT_EQ(boundOf(4096), 4096);
  EXPECT_EQ(boundOf(4097), 8192);
  EXPECT_EQ(boundOf((int64_t(1) << 58) + 1), int64_t(1) << 59);
}
