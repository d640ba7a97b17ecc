// CommunicatorState: lifetime, barrier and window exchange. Calls of collectives are in Entry.cpp.
#include "call/CommunicatorState.h"

#include "base/Error.h"
#include "bootstrap/LaunchedRanks.h"
#include "memory/ControlGroups.h"
#include "memory/Copy.h"
#include "peers/Announced.h"
#include "wait/Cores.h"

#include <algorithm>
#include <utility>

namespace kolo::runtime {

CommunicatorState::CommunicatorState(std::unique_ptr<Peers> joined)
    : channels(joined->size()), splitBarrier(*joined), ranks(std::move(joined)), exchange(*ranks),
      segments(std::make_shared<SegmentTable>(ranks->kind())), peerSegments(*ranks),
      held(
          segments, Budget::ofRank(ranks->kind(), ranks->rank()), size_t(ranks->settings().memoryMiB) << 20,
          // Other hosts write without an exchange, and network cards know the pages.
          ranks->hosts().areSeveral() ? std::function<bool()>() : [this] { return isHeldMemoryQuiet(); }),
      planRoom(held.forPlans(), planBytes(ranks->size(), ranks->settings().lanes)), plans(ranks->size(), planRoom),
      aheadPlans(ranks->size(), planRoom), lanes(*ranks) {
  const size_t numHere = ranks->hosts().ranksHere().size();
  rules.isAlone = numHere == 1 && ranks->hosts().areSeveral() && !ranks->links()->network().writesByDevice();
  rules.hasOneHost = !ranks->hosts().areSeveral();
  rules.cachedBytes = lastLevelCacheBytes() / 4 * 3 / numHere;
  ranks->setWatch([this] { return findDeparture(); });
}

CommunicatorState::~CommunicatorState() {
  if (ranks->kind() != RankKind::Threads)
    return;
  for (auto &[key, set] : semaphores)
    if (std::shared_ptr<Segment> memory = set ? set->memory() : nullptr)
      ranks->keepForPeers(memory);
  for (const std::shared_ptr<Segment> &memory : held.release())
    ranks->keepForPeers(memory);
}

void CommunicatorState::start(std::span<const cpu_set_t> cores) {
  if (ranks->settings().runsAhead && !ranks->hosts().areSeveral())
    exchange.letRunAhead([this](const auto &first, const auto &second) {
      return explainDifference(plans, aheadPlans, {first, second});
    });
  // Lanes that spin use up a quota of CPUs that are fewer, and then all of them stand still.
  static const double quota = cpusInControlGroups();
  const int lanesEach = ranks->settings().lanes;
  // Ranks of other communicators run there, too.
  const bool areProcesses = ranks->kind() == RankKind::Processes;
  const std::vector<cpu_set_t> all = coresOfJob(cores, areProcesses ? launchedRanksHere() : 0);
  const bool isWithinQuota = static_cast<double>(all.size()) * lanesEach <= quota;
  ranks->setPolicy(choosePolicy(ranks->settings().wait, isWithinQuota && haveOwnCores(all, lanesEach)));
  lanes.start(ranks->policy());
}

/// Whether no peer can access what this rank holds. Any thread, between two calls.
bool CommunicatorState::isHeldMemoryQuiet() const {
  if (ranks->isAborted())
    return true; // this rank has waited for its peers: see endFailedCall
  for (int peer = 0; peer < ranks->size(); ++peer)
    if (ranks->block(peer).finished.load(std::memory_order_acquire) < held.lastUse())
      return false;
  return true;
}

Record &CommunicatorState::nextRecord(Operation operation) {
  steady = nullptr;
  Record &record = exchange.next();
  record.operation = operation;
  record.numReleased = static_cast<uint8_t>(segments->takeReleased(record.released));
  return record;
}

Status CommunicatorState::exchangeRecords() {
  Status status = exchange.perform();
  if (status.isOk() || status.code() == StatusCode::Mismatch)
    for (int peer : ranks->hosts().ranksHere())
      peerSegments.release(peer, exchange.heard(peer));
  return status;
}

/// The second exchange, only when some record names a new segment. Nobody goes on before all have mapped the segment.
/// So its owner may finish, and even free it, while a peer is slow.
Status CommunicatorState::confirmNews(const Status &own, std::span<const Location> named) {
  Record &record = nextRecord(Operation::Confirm);
  if (!own.isOk())
    setFailure(record, own);
  Status status = exchangeRecords();
  if (status.isOk())
    status = exchange.firstRefusal();
  if (status.isOk())
    for (const Location &location : named)
      segments->setConfirmed(location);
  return status;
}

/// Plans the call as any rank would, at memory that is nobody's.
Status CommunicatorState::carries(const PluginState &plugin, const CallArguments &arguments) const {
  static std::byte somewhere;
  CallArguments shared = arguments;
  shared.input = shared.output = &somewhere;
  auto plan = [&](RankKind kind) -> Status {
    MemoryKind memory = kind == RankKind::Threads ? MemoryKind::Windows : MemoryKind::Ordinary;
    Planner planner{0, ranks->size(), memory};
    planner.tag = ranks->settings().tag;
    planner.ignoresCounts = true;
    Result<Call> planned = planCall(plugin, shared, SegmentTable(kind), planner);
    if (!planned.isOk())
      return planned.status();
    if (planned->key.hasTables && planned->publishes && ranks->hosts().areSeveral())
      return error(StatusCode::UnsupportedMesh,
                   "program '{}' publishes inputs, and over a network takes no block tables of any size",
                   planned->info->name);
    planned->numLanes = ranks->settings().lanes;
    if (Status status = checkPublished(*planned); !status.isOk())
      return status;
    return checkHosts(*planned, ranks->hosts());
  };
  Status status = plan(ranks->kind());
  // Another program may be selected for windows, and must be for several hosts, too. All memory of threads counts so.
  return status.isOk() && ranks->hosts().areSeveral() ? plan(RankKind::Threads) : status;
}

std::vector<Mesh> meshesOf(const Hosts &hosts) {
  std::vector<Mesh> found;
  auto add = [&](std::vector<MeshDim> dims) {
    if (Result<Mesh> made = Mesh::create(std::move(dims)); made.isOk())
      found.push_back(std::move(made).value());
  };
  const int size = hosts.numRanks(), numHosts = hosts.number(), numEach = size / numHosts;
  bool areInOrder = numHosts > 1 && numEach > 1 && size % numHosts == 0;
  for (int rank = 0; areInOrder && rank < size; ++rank)
    areInOrder = hosts.hostOf(rank) == rank / numEach;
  if (areInOrder)
    add({{"node", numHosts}, {"gpu", numEach}});
  add({{"rank", size}});
  return found;
}

Traffic CommunicatorState::traffic() const {
  Traffic all = lanes.traffic();
  all.messages = static_cast<int64_t>(ranks->links()->control().numMails());
  all.connections = static_cast<int64_t>(ranks->links()->control().numConnected());
  return all;
}

Status CommunicatorState::barrier() {
  if (!ranks->mayCall())
    return ranks->whyNoCall();
  if (Status status = exchange.catchUp(); !status.isOk())
    return status;
  Plan *const last = std::exchange(steady, nullptr);
  bool areAllHere = false;
  Status status = segments->hasReleased() ? Status() : exchange.propose(planOfBarriers, {}, areAllHere);
  if (status.isOk() && !areAllHere) { // peers hear of freed memory in records
    nextRecord(Operation::Barrier);
    status = exchangeRecords();
  }
  if (status.isOk()) // ranks know of each other what they knew before
    steady = last;
  return status;
}

Result<std::vector<RemoteWindow>> CommunicatorState::exchangeWindows(WindowState &window, ExchangedWindows result) {
  if (!ranks->mayCall())
    return ranks->whyNoCall();
  if (Status status = exchange.catchUp(); !status.isOk())
    return status;
  std::optional<Location> location = segments->locate(window.segment->data(), window.sizeBytes);
  Record &record = nextRecord(Operation::ExchangeWindows);
  const bool isOfAll = result == ExchangedWindows::OfAll;
  if (isOfAll)
    record.toldSize = window.sizeBytes;
  if (location)
    record.buffers[0] = *location;
  else
    setFailure(record, error(StatusCode::InvalidArgument, "the window belongs to another communicator"));
  if (Status status = exchangeRecords(); !status.isOk())
    return status;
  if (Status status = exchange.firstRefusal(); !status.isOk())
    return status;
  std::vector<RemoteWindow> windows;
  const uint64_t number = buffersNumber(agreements + 1); // for ranks of other hosts
  // Guarded, because a rank without memory must still take part in the confirmation.
  Status own = guarded([&]() -> Status {
    for (int peer = 0; peer < ranks->size(); ++peer) {
      const bool isSelf = peer == ranks->rank(), isRemote = ranks->isRemote(peer);
      if (isRemote && !isOfAll)
        continue;
      const Location theirs = isRemote ? Location() : exchange.heard(peer).buffers[0]; // no address on another host
      Result<std::byte *> address = isSelf ? Result(window.segment->data()) : peerSegments.resolve(peer, theirs);
      if (!address.isOk())
        return address.status();
      const size_t sizeBytes = isOfAll ? sizeHeard(*ranks, exchange.number(), peer) : window.sizeBytes;
      windows.push_back(RemoteWindow(std::make_shared<RemoteWindowState>(RemoteWindowState{
          peer, *address, sizeBytes, number, isSelf ? nullptr : peerSegments.mapping(peer, theirs)})));
    }
    return {};
  });
  if (Status status = confirmNews(own, {&*location, 1}); !status.isOk())
    return status;
  if (ranks->hosts().areSeveral()) {
    window.accesses.push_back(std::make_unique<WindowAccess>(ranks->links(), number));
    if (Status status = registerWindow({window.segment->data(), window.sizeBytes}, ++agreements, *ranks);
        !status.isOk())
      return ranks->abort(status);
    if (ranks->size() > mostRanksConnected)
      return windows;
    if (Status status = connectRanks(*ranks); !status.isOk())
      return status;
  }
  return windows;
}

} // namespace kolo::runtime
