#include "GroupBoard.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <thread>
#include <utility>

namespace kolo::nccl {

using runtime::Result;

namespace {

constexpr std::memory_order relaxed = std::memory_order_relaxed;
constexpr std::chrono::milliseconds least{1}; // waits
constexpr int mostVain = 10;                  // after which waits get no shorter

/// The word that all ranks watch.
struct Rounds {
  uint32_t current = 1, lastCarried = 0; // of roundBits
  uint32_t shift = 0;                    // 1 << shift is the bound of the last one that was carried
  bool haveOneLengthEach = true;         // its blocks

  static constexpr int roundBits = 28, shiftBits = 6;
  static constexpr uint64_t roundMask = (uint64_t(1) << roundBits) - 1, shiftMask = (uint64_t(1) << shiftBits) - 1;
  static Rounds of(uint64_t word) {
    return {static_cast<uint32_t>(word & roundMask), static_cast<uint32_t>(word >> roundBits & roundMask),
            static_cast<uint32_t>(word >> (2 * roundBits) & shiftMask), (word >> (2 * roundBits + shiftBits)) != 0};
  }
  uint64_t word() const {
    return uint64_t(current) | uint64_t(lastCarried) << roundBits | uint64_t(shift) << (2 * roundBits) |
           uint64_t(haveOneLengthEach) << (2 * roundBits + shiftBits);
  }
  /// A number comes again after 2^28 rounds. Before that, the one of the last carried round becomes one that no rank is
  /// in.
  void advance() {
    current = static_cast<uint32_t>((current + uint64_t(1)) & roundMask);
    if (current == lastCarried)
      lastCarried = static_cast<uint32_t>((current + roundMask / 2) & roundMask);
  }
};
static_assert(2 * Rounds::roundBits + Rounds::shiftBits < 64);

uint64_t mix(uint64_t value) { // the finalizer of splitmix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

/// Of a transfer, by its place in the order between two ranks.
uint64_t digestOf(int sender, int receiver, uint64_t number) {
  return mix(mix(mix(static_cast<uint64_t>(sender)) + static_cast<uint64_t>(receiver)) + number);
}

uint32_t shiftOf(int64_t longest) {
  return static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(longest, 1)) - 1));
}

} // namespace

void pause(int &numLooks) {
  constexpr int spins = 200, yields = 2000;
  if (++numLooks < spins)
    return;
  if (numLooks < yields)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

uint64_t lengthDigestOf(int sender, int receiver, int64_t numBytes) {
  return digestOf(sender, receiver, ~static_cast<uint64_t>(numBytes));
}

int64_t boundOf(int64_t longest) { return int64_t(1) << shiftOf(longest); }

/// What one rank says. It alone writes here.
struct alignas(64) GroupRow {
  std::atomic<uint32_t> round;   // that it has entered last
  std::atomic<uint32_t> hasLeft; // 1: it will enter none
  std::atomic<uint32_t> shift;
  std::atomic<uint64_t> windows[2], lengths[2];
  std::atomic<uint64_t> sent, received; // sums of digests
  std::atomic<uint64_t> numEntered;     // groups
};

struct GroupBoardMemory {
  alignas(64) std::atomic<uint64_t> rounds;
  alignas(64) std::atomic<uint32_t> numOpened;
  GroupRow rows[GroupBoard::mostRanks];

  // Behind it, of each rank: its decided sends to each peer, and then its receives. Each is written by its rank alone.
  std::atomic<uint64_t> *counts(int size, int rank) {
    return reinterpret_cast<std::atomic<uint64_t> *>(this + 1) + size_t(2) * static_cast<size_t>(size * rank);
  }
  std::atomic<uint64_t> &sends(int size, int rank, int peer) { return counts(size, rank)[peer]; }
  std::atomic<uint64_t> &receives(int size, int rank, int peer) { return counts(size, rank)[size + peer]; }
};

GroupBoard::GroupBoard(SharedMemory opened, int ownRank, int numRanks)
    : memory(std::move(opened)), content(*static_cast<GroupBoardMemory *>(memory.data())), rank(ownRank),
      size(numRanks) {}

Result<std::unique_ptr<GroupBoard>> GroupBoard::open(const Key &key, uint64_t host, int rank, int size) {
  const auto number = static_cast<size_t>(size);
  Result<SharedMemory> opened =
      SharedMemory::open(childOf(key, Descent::Groups, 0, 0), host,
                         sizeof(GroupBoardMemory) + 2 * number * number * sizeof(std::atomic<uint64_t>));
  if (!opened.isOk())
    return opened.status();
  auto made = std::unique_ptr<GroupBoard>(new GroupBoard(std::move(opened).value(), rank, size));
  uint64_t none = 0;
  made->content.rounds.compare_exchange_strong(none, Rounds().word());
  if (made->content.numOpened.fetch_add(1) + 1 == static_cast<uint32_t>(size))
    made->memory.hide();
  return made;
}

void GroupBoard::count(int peer, PeerUse use) {
  auto raise = [](std::atomic<uint64_t> &own) { own.store(own.load(relaxed) + 1, std::memory_order_release); };
  if (use & sendsTo)
    raise(content.sends(size, rank, peer));
  if (use & receivesFrom)
    raise(content.receives(size, rank, peer));
}

void GroupBoard::count(std::span<const PeerUse> peers) {
  for (int peer = 0; peer < size; ++peer)
    count(peer, peers[static_cast<size_t>(peer)]);
}

void GroupBoard::enter(EnteredGroup group, std::chrono::milliseconds most) {
  entered = std::move(group);
  noteOthers();
  until = Clock::now() + std::clamp(most / (1 << numVain), std::min(most, least), most);
  givesUp = false;
  uint64_t sent = 0, received = 0;
  for (int peer = 0; peer < size; ++peer) {
    const PeerUse use = entered.peers[static_cast<size_t>(peer)];
    if (use & sendsTo)
      sent += digestOf(rank, peer, content.sends(size, rank, peer).load(relaxed));
    if (use & receivesFrom)
      received += digestOf(peer, rank, content.receives(size, rank, peer).load(relaxed));
  }
  // Nobody reads this for an earlier round to any effect: its word has changed.
  GroupRow &own = content.rows[rank];
  own.shift.store(shiftOf(entered.longest), relaxed);
  for (size_t role : {size_t(0), size_t(1)}) {
    own.windows[role].store(entered.windows[role], relaxed);
    own.lengths[role].store(entered.lengths[role], relaxed);
  }
  own.sent.store(sent, relaxed);
  own.received.store(received, relaxed);
  own.numEntered.store(own.numEntered.load(relaxed) + 1, relaxed);
  enterRound();
}

/// Where the others come to such groups as often as this rank, they are late, and no other kind of program.
void GroupBoard::noteOthers() {
  uint64_t others = 0;
  for (int peer = 0; peer < size; ++peer)
    others += peer == rank ? 0 : content.rows[peer].numEntered.load(relaxed);
  if (others - othersEntered >= static_cast<uint64_t>(size - 1))
    numVain = 0;
  othersEntered = others;
}

void GroupBoard::enterRound() {
  enteredRound = Rounds::of(content.rounds.load(std::memory_order_acquire)).current;
  content.rows[rank].round.store(enteredRound + 1, std::memory_order_release); // 0: none yet
}

/// Whether the group that this rank waits for will not be carried: a peer has decided a transfer of it, or has left.
bool GroupBoard::isOver() const {
  auto isBehind = [](const std::atomic<uint64_t> &own, const std::atomic<uint64_t> &theirs) {
    return theirs.load(std::memory_order_acquire) > own.load(relaxed);
  };
  for (int peer = 0; peer < size; ++peer) {
    const PeerUse use = entered.peers[static_cast<size_t>(peer)];
    if (content.rows[peer].hasLeft.load(std::memory_order_acquire) ||
        (use & sendsTo && isBehind(content.sends(size, rank, peer), content.receives(size, peer, rank))) ||
        (use & receivesFrom && isBehind(content.receives(size, rank, peer), content.sends(size, peer, rank))))
      return true;
  }
  return false;
}

/// What the groups are that all ranks have entered. Where a rank has gone on meanwhile, the word has changed, and what
/// was read of that rank has no effect.
GroupBoard::Entries GroupBoard::read() const {
  Entries entries;
  entries.areAllIn = entries.areInSameWindows = true;
  uint64_t sent = 0, received = 0, lengths = 0; // of lengths, what is sent without what is received
  for (const GroupRow *row = content.rows; row < content.rows + size; ++row) {
    entries.areAllIn &= row->round.load(std::memory_order_acquire) == enteredRound + 1;
    sent += row->sent.load(relaxed);
    received += row->received.load(relaxed);
    lengths += row->lengths[0].load(relaxed) - row->lengths[1].load(relaxed);
    entries.shift = std::max(entries.shift, row->shift.load(relaxed));
    for (size_t role : {size_t(0), size_t(1)})
      entries.areInSameWindows &= row->windows[role].load(relaxed) == content.rows->windows[role].load(relaxed);
  }
  entries.fit = sent == received;
  entries.haveOneLengthEach = lengths == 0;
  return entries;
}

/// Ends the round, if nobody has ended it. `carried`: what all ranks carry; null: some rank forwards its group.
void GroupBoard::end(uint64_t seen, const Entries *carried) {
  Rounds rounds = Rounds::of(seen);
  if (carried) {
    rounds.lastCarried = rounds.current;
    rounds.shift = carried->shift;
    rounds.haveOneLengthEach = carried->haveOneLengthEach;
  }
  rounds.advance();
  content.rounds.compare_exchange_strong(seen, rounds.word());
}

/// Ends the round where this rank knows its outcome. `seen`: the word of the round that it has entered.
void GroupBoard::decide(uint64_t seen) {
  const Entries entries = read();
  const bool isFull = entries.areAllIn && entries.fit;
  // Groups of all ranks that do not fit: some have come from the group before, and will see that it is over.
  givesUp = isFull ? !entries.areInSameWindows : isOver() || Clock::now() >= until;
  if (isFull || givesUp)
    end(seen, givesUp ? nullptr : &entries);
}

std::optional<GroupVerdict> GroupBoard::look() {
  if (uint64_t seen = content.rounds.load(std::memory_order_acquire); Rounds::of(seen).current == enteredRound)
    decide(seen);
  const Rounds rounds = Rounds::of(content.rounds.load(std::memory_order_acquire));
  if (rounds.current == enteredRound)
    return std::nullopt;
  GroupVerdict verdict{rounds.lastCarried == enteredRound, int64_t(1) << rounds.shift, rounds.haveOneLengthEach};
  if (!verdict.isCarried && !givesUp) { // it was ended for another group
    enterRound();
    return std::nullopt;
  }
  verdict.isTimeout = !verdict.isCarried && !isOver() && Clock::now() >= until;
  numVain = verdict.isCarried ? 0 : std::min(numVain + verdict.isTimeout, mostVain);
  count(entered.peers);
  return verdict;
}

void GroupBoard::leave() {
  content.rows[rank].hasLeft.store(1, std::memory_order_release);
  memory.hide();
}

bool GroupBoard::hasLeft() const { return content.rows[rank].hasLeft.load(std::memory_order_acquire) != 0; }

} // namespace kolo::nccl
