// RCCL's all-to-all with counts, which RCCL itself makes of sends and receives in a group. So does this library, but
// what it forwards is the call as it was.
#include "Own.h"
#include "Process.h"
#include "Transfers.h"

#include <algorithm>
#include <span>

namespace kolo::nccl {
namespace {

/// What a rank sends, or what it receives. Numbers are elements, by peer.
struct Blocks {
  PeerUse use;
  void *memory;
  std::vector<size_t> counts, places;

  bool areAllowed() const {
    auto isAllowed = [](size_t number) { return number <= mostElements; };
    return std::ranges::all_of(counts, isAllowed) && std::ranges::all_of(places, isAllowed);
  }
};

/// The arrays are read when it is called, as RCCL does.
struct VectorCall {
  Blocks sent, received;
  int type;
  Comm comm;
  Stream stream;

  Code forward() const {
    return nccl::forward(real().functions.AlltoAllv, "ncclAlltoAllv", static_cast<const void *>(sent.memory),
                         sent.counts.data(), sent.places.data(), received.memory, received.counts.data(),
                         received.places.data(), type, comm, stream);
  }
  void addTo(std::vector<Transfer> &transfers, const Blocks &blocks, const std::shared_ptr<Member> &member) const;
  std::vector<Transfer> divide(const std::shared_ptr<Member> &member) const;
};

void VectorCall::addTo(std::vector<Transfer> &transfers, const Blocks &blocks,
                       const std::shared_ptr<Member> &member) const {
  for (size_t peer = 0; peer < blocks.counts.size(); ++peer) {
    char *memory = static_cast<char *>(blocks.memory) + blocks.places[peer] * bytesOfType(type);
    transfers.push_back({member, blocks.use, memory, blocks.counts[peer], type, static_cast<int>(peer), comm, stream,
                         Transfer::Part::Other});
  }
}

std::vector<Transfer> VectorCall::divide(const std::shared_ptr<Member> &member) const {
  std::vector<Transfer> transfers;
  addTo(transfers, sent, member);
  addTo(transfers, received, member);
  transfers.front().part = Transfer::Part::First;
  transfers.front().whole = [call = *this] { return call.forward(); };
  return transfers;
}

/// Why such a call is forwarded as far as that is known without its counts; null: it may be carried.
const char *whyForward(Member *member, int type) {
  if (!member)
    return "communicator that Kolo did not see made";
  if (!member->carrier)
    return member->whyNot;
  if (bytesOfType(type) == 0)
    return "wrong argument";
  return member->groups.board(*member) ? nullptr : member->groups.whyNot();
}

} // namespace

namespace own {

Code AlltoAllv(const void *input, const size_t *sendCounts, const size_t *sendPlaces, void *output,
               const size_t *receiveCounts, const size_t *receivePlaces, int type, Comm comm, Stream stream) {
  const char *why = whyForward(lookUp(comm), type);
  if (!why && !(sendCounts && sendPlaces && receiveCounts && receivePlaces))
    why = "wrong argument";
  if (why) {
    countForwarded(why);
    return forward(real().functions.AlltoAllv, "ncclAlltoAllv", input, sendCounts, sendPlaces, output, receiveCounts,
                   receivePlaces, type, comm, stream);
  }
  std::shared_ptr<Member> member = findMember(comm);
  auto kept = [&](const size_t *numbers) { return std::vector<size_t>(numbers, numbers + member->size); };
  const VectorCall call{{sendsTo, const_cast<void *>(input), kept(sendCounts), kept(sendPlaces)},
                        {receivesFrom, output, kept(receiveCounts), kept(receivePlaces)},
                        type,
                        comm,
                        stream};
  if (!call.sent.areAllowed() || !call.received.areAllowed()) {
    countForwarded("wrong argument");
    return call.forward();
  }
  std::vector<Transfer> transfers = call.divide(member);
  if (!isInGroup())
    return performAlone(std::move(transfers));
  for (Transfer &each : transfers)
    queue(std::move(each));
  return Code::Success;
}

} // namespace own
} // namespace kolo::nccl
