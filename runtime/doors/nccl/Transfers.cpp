#include "Transfers.h"

#include "Own.h"
#include "Process.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace kolo::nccl {
namespace {

using runtime::LogLevel;

constexpr size_t typeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}; // by ncclDataType_t

size_t bytesOf(const Transfer &transfer) { return transfer.count * typeBytes[transfer.type]; }
size_t roleOf(const Transfer &transfer) { return transfer.use == sendsTo ? 0 : 1; }
uintptr_t addressOf(const Transfer &transfer) { return reinterpret_cast<uintptr_t>(transfer.memory); }

/// Whether this rank's transfers are counted: the others are left to the real library, which refuses wrong arguments.
GroupAgreement *boardFor(const Transfer &transfer, Member *member) {
  if (!member || !member->carrier || transfer.peer < 0 || transfer.peer >= member->size ||
      bytesOfType(transfer.type) == 0 || transfer.count > mostElements)
    return nullptr;
  return member->groups.board(*member);
}

Code start(Transfer transfer, Comm comm) {
  transfer.comm = comm;
  if (GroupAgreement *board = boardFor(transfer, lookUp(comm))) {
    if (isInGroup()) {
      transfer.member = findMember(comm);
      queue(std::move(transfer));
      return Code::Success;
    }
    board->count(transfer.peer, transfer.use);
  }
  return transfer.forward();
}

} // namespace

size_t bytesOfType(int type) {
  return type >= 0 && type < static_cast<int>(std::size(typeBytes)) ? typeBytes[type] : 0;
}

Code Transfer::forward() const {
  if (part != Part::None)
    return part == Part::First ? whole() : Code::Success;
  return use == sendsTo ? nccl::forward(real().functions.Send, "ncclSend", static_cast<const void *>(memory), count,
                                        type, peer, comm, stream)
                        : nccl::forward(real().functions.Recv, "ncclRecv", memory, count, type, peer, comm, stream);
}

TransferGroup::TransferGroup(std::vector<Transfer> called, bool hasNoCollective)
    : transfers(std::move(called)), isAlone(hasNoCollective) {}

/// Whether these may be all sends and receives of a rank in an all-to-all, whatever memory they are of. It names all
/// other ranks, and so it may wait for each of them. Of two ranks, it does more than one step of a pipeline.
bool TransferGroup::consider() {
  const auto numRanks = static_cast<size_t>(member().size);
  entered.peers.resize(numRanks);
  for (const Transfer &each : transfers) {
    PeerUse &use = entered.peers[static_cast<size_t>(each.peer)];
    if (use & each.use || each.stream != transfers.front().stream)
      return false;
    use |= each.use;
  }
  const auto rank = static_cast<size_t>(member().rank);
  for (size_t peer = 0; peer < numRanks; ++peer) {
    const PeerUse use = entered.peers[peer];
    const bool needsBoth = peer == rank || numRanks == 2;
    if ((use == 0 && peer != rank) || (needsBoth && use != 0 && use != (sendsTo | receivesFrom)))
      return false;
  }
  return isAlone;
}

/// Enters the blocks in tables. What a rank sends begins at the lowest address of a block, and so does what it
/// receives.
void TransferGroup::addBlocks() {
  const Transfer *first[2] = {};
  for (const Transfer &each : transfers) {
    const Transfer *&known = first[roleOf(each)];
    if (bytesOf(each) > 0 && (!known || addressOf(each) < addressOf(*known)))
      known = &each;
  }
  for (size_t role : {size_t(0), size_t(1)}) {
    counts[role].resize(entered.peers.size());
    places[role].resize(entered.peers.size());
  }
  for (const Transfer &each : transfers) {
    const size_t role = roleOf(each), numBytes = bytesOf(each), peer = static_cast<size_t>(each.peer);
    if (numBytes == 0)
      continue;
    const uintptr_t place = addressOf(each) - addressOf(*first[role]);
    counts[role][peer] = static_cast<int64_t>(numBytes);
    places[role][peer] = static_cast<int64_t>(place);
    sizeBytes[role] = std::max(sizeBytes[role], place + numBytes);
    const int rank = member().rank;
    entered.lengths[role] +=
        lengthDigestOf(role == 0 ? rank : each.peer, role == 0 ? each.peer : rank, counts[role][peer]);
    entered.longest = std::max(entered.longest, counts[role][peer]);
  }
  tables = {{counts[0], places[0]}, {counts[1], places[1]}};
  carried = {transfers.front().member,
             {},
             {first[0] ? first[0]->memory : nullptr, first[1] ? first[1]->memory : nullptr, &tables},
             transfers.front().stream,
             [this] { return forward(); }};
  carried.shape.kind = runtime::CollectiveKind::AllToAll;
  carried.shape.type = runtime::DataType::U8;
  carried.shape.hasTables = true;
  carried.shape.count = boundOf(entered.longest);
}

/// What is sent lies apart from what is received, and no two received blocks overlap.
bool TransferGroup::lieApart() const {
  const auto input = reinterpret_cast<uintptr_t>(carried.buffers.input);
  const auto output = reinterpret_cast<uintptr_t>(carried.buffers.output);
  if (input < output + sizeBytes[1] && output < input + sizeBytes[0])
    return false;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (size_t peer = 0; peer < counts[1].size(); ++peer)
    if (counts[1][peer] > 0)
      ranges.emplace_back(places[1][peer], places[1][peer] + counts[1][peer]);
  std::ranges::sort(ranges);
  return std::ranges::adjacent_find(
             ranges, [](const auto &left, const auto &right) { return left.second > right.first; }) == ranges.end();
}

void TransferGroup::refuse(const char *why) {
  countForwarded(why);
  Member &said = *transfers.front().member;
  if (said.rank == 0 && door()->logLevel() != LogLevel::Off && said.saidOfGroups != why) {
    said.saidOfGroups = why;
    print("a group of sends and receives between " + std::to_string(said.size) + " ranks: forwarded: " + why);
  }
}

/// Whether this rank may make the call, as far as it knows alone.
bool TransferGroup::examine() {
  addBlocks();
  Examined found{"blocks that overlap", {}};
  if (lieApart())
    found = member().carrier->examine(member().rank, carried.shape, carried.buffers, sizeBytes);
  std::ranges::copy(found.windows, entered.windows);
  if (found.whyNot)
    refuse(found.whyNot);
  return !found.whyNot;
}

void TransferGroup::begin() {
  const bool mayBeWhole = consider();
  for (const Transfer &each : transfers)
    if (!mayBeWhole && each.part == Transfer::Part::First)
      countForwarded("group with other calls");
  isPending = mayBeWhole && examine();
  if (isPending)
    board().enter(entered, std::chrono::milliseconds(groupMs().value_or(0)));
  else
    for (const Transfer &each : transfers)
      board().count(each.peer, each.use);
}

bool TransferGroup::look() {
  const std::optional<GroupVerdict> verdict = isPending ? board().look() : std::nullopt;
  if (!verdict)
    return !isPending;
  isPending = false;
  failure = failureOf(*verdict);
  if (failure != Code::Success)
    return true;
  isCarried = verdict->isCarried;
  carried.shape.count = verdict->bound;
  if (!isCarried)
    refuse(verdict->isTimeout ? "ranks that came late" : "group that other ranks forward");
  return true;
}

/// On one host, the call itself finds which block has two lengths.
Code TransferGroup::failureOf(const GroupVerdict &verdict) const {
  const std::string rank = "rank " + std::to_string(member().rank) + ": ";
  if (!verdict.failure.isOk()) {
    (void)transfers.front().member->leave(Leave::Aborted); // ranks that carry the group must not wait for this one
    return fail(codeOf(verdict.failure), rank + verdict.failure.message());
  }
  if (!verdict.isCarried || verdict.hasOneLengthEach || !member().areOnHosts)
    return Code::Success;
  transfers.front().member->groups.awaitTold(); // after an error the program may end
  return fail(Code::InvalidArgument, rank + "a group of sends and receives between ranks on several hosts: some block "
                                            "has another length where it is sent than where it is received");
}

Code TransferGroup::forward() const {
  if (failure != Code::Success)
    return failure;
  if (board().hasLeft())
    return fail(Code::RemoteError, "rank " + std::to_string(member().rank) +
                                       ": a group of sends and receives: this communicator was aborted");
  Code first = Code::Success;
  for (const Transfer &each : transfers)
    if (Code code = each.forward(); first == Code::Success)
      first = code;
  return first;
}

namespace own {

Code Send(const void *input, size_t count, int type, int peer, Comm comm, Stream stream) {
  return start({nullptr, sendsTo, const_cast<void *>(input), count, type, peer, nullptr, stream}, comm);
}

Code Recv(void *output, size_t count, int type, int peer, Comm comm, Stream stream) {
  return start({nullptr, receivesFrom, output, count, type, peer, nullptr, stream}, comm);
}

} // namespace own
} // namespace kolo::nccl
