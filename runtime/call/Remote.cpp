#include "call/Remote.h"

#include "base/Error.h"
#include "call/Plan.h"
#include "peers/Peers.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

namespace kolo::runtime {
namespace {

/// The dimensions along which two ranks differ.
std::vector<int> differences(const Call &call, int first, int second) {
  std::vector<int> dims;
  for (int dim = static_cast<int>(call.info->meshDims.size()) - 1; dim >= 0; --dim) {
    auto size = static_cast<int>(call.dimSizes[dim]);
    if (first % size != second % size)
      dims.insert(dims.begin(), dim);
    first /= size;
    second /= size;
  }
  return dims;
}

bool contains(const std::vector<int> &dims, int dim) { return std::ranges::find(dims, dim) != dims.end(); }

/// The first of the ranks that differ from this one only along dimensions whose ranks share memory: all must be on one
/// host. Ranks that differ outside of the group never meet.
int firstOfHost(const Call &call, int rank) {
  int first = 0, stride = 1;
  for (int dim = static_cast<int>(call.info->meshDims.size()) - 1; dim >= 0; --dim) {
    auto size = static_cast<int>(call.dimSizes[dim]);
    if (contains(call.info->networkDims, dim) || !contains(call.info->groupDims, dim))
      first += rank % size * stride;
    rank /= size;
    stride *= size;
  }
  return first;
}

Status refuse(const Call &call, const Hosts &hosts, std::array<int, 2> pair, const char *otherFlags) {
  const auto [first, second] = pair;
  std::vector<int> dims = differences(call, first, second), network;
  std::ranges::set_union(dims, call.info->networkDims, std::back_inserter(network));
  return rankError(
      StatusCode::UnsupportedMesh, second,
      "program '{}' needs shared memory along dimension {}, but {} and {} share no memory (different hosts, users or "
      "namespaces): compile it with --network {}{}",
      call.info->name, namesOf(dims, call), hosts.describe(first), hosts.describe(second), namesOf(network, call),
      otherFlags);
}

} // namespace

std::string namesOf(const std::vector<int> &dims, const Call &call) {
  std::string names;
  for (int dim : dims)
    names += (names.empty() ? "" : ",") + call.info->meshDims[static_cast<size_t>(dim)];
  return names;
}

Status checkHosts(const Call &call, const Hosts &hosts, const char *otherFlags) {
  if (!hosts.areSeveral())
    return {};
  for (int rank = 0; rank < hosts.numRanks(); ++rank)
    if (int first = firstOfHost(call, rank); hosts.hostOf(first) != hosts.hostOf(rank))
      return refuse(call, hosts, {first, rank}, otherFlags);
  if (call.publishesMuch())
    return error(StatusCode::UnsupportedMesh,
                 "program '{}' publishes {} bytes in this call; over a network at most {} are possible: compile it "
                 "without --protocol published for this size",
                 call.info->name, call.publishedBytesFor(call.key.count), Announcement::maxPublishedBytes);
  return {};
}

WindowAccess::~WindowAccess() {
  if (std::shared_ptr<HostLinks> alive = links.lock())
    alive->network().data().release(number);
}

Status registerWindow(const Region &window, uint64_t agreement, Peers &peers) {
  Registration registration;
  registration.agreement = buffersNumber(agreement);
  registration.senders = peers.hosts().areOthers();
  registration.regions = {window};
  return peers.transport().registerMemory(registration);
}

Status connectRanks(Peers &peers) {
  const Counter none = {};
  HostNetwork &network = peers.links()->network();
  for (int peer : peers.hosts().others())
    if (peer < peers.rank()) // those with larger numbers ask
      network.connectTo(peer);
  Clock::time_point start = Clock::now();
  for (int peer : peers.hosts().others())
    while (!network.isConnected(peer)) {
      WaitEnd end = peers.checkWait(peer, start);
      if (end == WaitEnd::Aborted)
        return peers.abortCause();
      if (end != WaitEnd::Reached)
        return peers.abort(rankError(end == WaitEnd::PeerLost ? StatusCode::PeerLost : StatusCode::Timeout, peer,
                                     "rank {} waited {} ms for connections with {}: {}", peers.rank(),
                                     millisecondsSince(start), peers.hosts().describe(peer),
                                     end == WaitEnd::PeerLost ? "it has ended or left" : "timed out"));
      peers.policy().callProgress();
      peers.links()->sleep(none, 1, progressIntervalUs);
    }
  return {};
}

Status registerChannels(Peers &peers) {
  Registration registration;
  registration.agreement = channelsNumber;
  registration.senders = peers.hosts().areOthers();
  registration.cells = peers.channelCell(peers.rank(), 0, 0);
  registration.numLanes = 1;
  registration.numSemaphores = numChannels;
  registration.isBySender = true;
  return peers.transport().registerMemory(registration);
}

using Regions = std::array<Region, KOLO_NUM_BUFFER_ROLES>;

static Regions lentRegions(const Plan &plan) {
  Regions regions;
  regions[KOLO_OUTPUT] = {static_cast<std::byte *>(plan.buffers.local[KOLO_OUTPUT]),
                          plan.buffers.remote[KOLO_OUTPUT].sizeBytes};
  return regions;
}

Status lendAgain(Plan &plan, uint64_t agreement, Peers &peers) {
  if (Status status = peers.transport().renew(plan.access.lentNumber, lentNumber(agreement), lentRegions(plan));
      !status.isOk())
    return status;
  plan.access.lentNumber = lentNumber(agreement);
  plan.access.lentRight->setNumber(plan.access.lentNumber);
  return {};
}

Status registerPlan(Plan &plan, uint64_t agreement, bool lendsOutput, Peers &peers) {
  Transport &transport = peers.transport();
  if (plan.semaphores->remoteNumber() == 0) {
    Registration cells;
    cells.agreement = cellsNumber(agreement);
    cells.senders = peers.hosts().areOthers();
    cells.cells = plan.semaphores->ownCells();
    cells.numLanes = static_cast<uint32_t>(peers.settings().lanes);
    cells.numSemaphores = static_cast<uint32_t>(plan.call.info->numSemaphores);
    if (Status status = transport.registerMemory(cells); !status.isOk())
      return status;
    plan.semaphores->setRemoteNumber(cells.agreement);
  }
  Registration buffers;
  buffers.agreement = buffersNumber(agreement);
  buffers.senders = peers.hosts().areOthers();
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    // Other hosts put to no input, which may be read-only.
    bool isWritten = role != KOLO_INPUT && !(role == KOLO_OUTPUT && lendsOutput);
    buffers.regions.push_back(
        {static_cast<std::byte *>(plan.buffers.local[role]), isWritten ? plan.buffers.remote[role].sizeBytes : 0});
  }
  if (Status status = transport.registerMemory(buffers); !status.isOk())
    return status;
  plan.access.number = buffers.agreement;
  plan.access.right = std::make_unique<RemoteAccess>(transport, buffers.agreement);
  if (!lendsOutput)
    return {};
  Regions regions = lentRegions(plan);
  Registration lent;
  lent.agreement = lentNumber(agreement);
  lent.senders = std::move(buffers.senders);
  lent.regions.assign(regions.begin(), regions.end());
  if (Status status = transport.registerMemory(lent); !status.isOk())
    return status;
  plan.access.lentNumber = lent.agreement;
  plan.access.lentRight = std::make_unique<RemoteAccess>(transport, lent.agreement);
  return {};
}

} // namespace kolo::runtime
