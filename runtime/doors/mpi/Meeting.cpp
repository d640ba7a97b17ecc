// A communicator has a name among all ranks, which its rank 0 gives it and tells the others by PMPI_Ibcast: see
// Carrier::beginBarrier. When a rank knows the name, it wishes that the communicator be connected. In a meeting, ranks
// take the wished names one after another, the lowest first. What the ranks of a communicator tell each other to
// connect goes through all ranks of MPI_COMM_WORLD, because on the communicator itself they may have come to different
// calls.
//
// Ranks may have begun different numbers of its barriers, too. Nobody begins another one during the meeting. So all
// carry those that none of them has begun yet.
#include "Meeting.h"

#include "Carrier.h"
#include "Process.h"
#include "RollCall.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <vector>

namespace kolo::mpi {
namespace {

using runtime::Status;
using runtime::StatusCode;

struct Wish {
  uint64_t name = 0; // 0: none
  int64_t numBegun = 0;
  int64_t numRanks = 0;
};

enum class MeetingPart : int32_t { Outside, Connecting, Done };

/// What a rank says in one exchange of those that connect.
struct MeetingPacket {
  static constexpr size_t mostBytes = 512;
  MeetingPart part = MeetingPart::Outside;
  int32_t rank = 0; // in the communicator
  std::byte data[mostBytes] = {};
};

template <class Word> std::vector<Word> tellAll(const Word &own) {
  int number = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &number);
  std::vector<Word> all(static_cast<size_t>(number));
  PMPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, MPI_COMM_WORLD);
  return all;
}

/// The all-gather of a communicator's ranks. The other ranks take part in it.
Status exchangeAmong(const Carrier &member, const void *own, size_t sizeBytes, void *all) {
  if (sizeBytes > MeetingPacket::mostBytes)
    return {StatusCode::SystemError, "too long an exchange to connect in a meeting"};
  MeetingPacket sent{MeetingPart::Connecting, member.rank()};
  std::memcpy(sent.data, own, sizeBytes);
  int numHeard = 0;
  for (const MeetingPacket &heard : tellAll(sent)) {
    if (heard.part != MeetingPart::Connecting)
      continue;
    std::memcpy(static_cast<std::byte *>(all) + static_cast<size_t>(heard.rank) * sizeBytes, heard.data, sizeBytes);
    ++numHeard;
  }
  return numHeard == member.size() ? Status() : Status(StatusCode::SystemError, "a rank has given up to connect");
}

/// `member`: of this rank; null: it has none.
void connectMembers(Carrier *member, int64_t firstBarrier) {
  MeetingPacket own;
  if (member) {
    member->connectInMeeting(
        [&](const void *from, size_t sizeBytes, void *all) { return exchangeAmong(*member, from, sizeBytes, all); },
        firstBarrier);
    own.part = MeetingPart::Done;
  }
  auto isConnecting = [](const MeetingPacket &heard) { return heard.part == MeetingPart::Connecting; };
  while (std::ranges::any_of(tellAll(own), isConnecting)) {
  }
}

/// `carriers`: those of this rank.
void holdMeeting(const std::vector<Carrier *> &carriers) {
  std::map<uint64_t, Carrier *> wished;
  for (Carrier *carrier : carriers)
    if (uint64_t name = carrier->wishedName())
      wished.emplace(name, carrier);
  while (true) {
    Wish own;
    if (!wished.empty())
      own = {wished.begin()->first, wished.begin()->second->numBegunBarriers(), wished.begin()->second->size()};
    Wish lowest;
    int64_t numMembers = 0;
    for (const Wish &each : tellAll(own)) {
      if (each.name == 0 || (lowest.name != 0 && each.name > lowest.name))
        continue;
      const bool isSame = each.name == lowest.name;
      numMembers = isSame ? numMembers + 1 : 1;
      lowest = {each.name, isSame ? std::max(lowest.numBegun, each.numBegun) : each.numBegun, each.numRanks};
    }
    if (lowest.name == 0)
      return;
    Carrier *member = nullptr;
    if (own.name == lowest.name) {
      member = wished.begin()->second;
      wished.erase(wished.begin());
    }
    if (numMembers == lowest.numRanks) // else some rank does not know the name yet
      connectMembers(member, lowest.numBegun + 1);
  }
}

} // namespace

void meetInBarrier() {
  static std::atomic<uint64_t> numBarriers = 0;
  if (!mayCarry())
    return;
  const uint64_t number = ++numBarriers;
  if (number < 4 || !std::has_single_bit(number)) [[likely]]
    return;
  OwnCalls own;
  int provided = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&provided);
  if (!rollCall().whyNot(MPI_COMM_WORLD)) // other threads might free communicators meanwhile
    holdMeeting(provided == MPI_THREAD_MULTIPLE ? std::vector<Carrier *>() : allCarriers());
}

} // namespace kolo::mpi
