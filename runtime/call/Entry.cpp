// The entry to a collective: what ranks agree on, and learn about each other, before generated code runs.
#include "call/CommunicatorState.h"

#include "base/Error.h"
#include "call/BlockTables.h"
#include "call/CallIdentity.h"
#include "call/Remote.h"
#include "call/WideAverage.h"

#include <algorithm>
#include <array>

namespace kolo::runtime {
namespace {

/// Announces what peers need to know of a plan.
void fillRecord(Record &record, const Plan &plan, const SegmentTable &segments) {
  record.call = plan.call.key;
  record.tables.digests = plan.call.digests;
  if (plan.call.tables) {
    record.tables.longestBlock = plan.call.key.count;
    record.tables.largestBytes = plan.call.largestBytes;
  }
  record.staging = plan.buffers.staging;
  if (plan.isSelected())
    record.selectedBy = std::max(record.selectedBy, plan.call.memory);
  std::copy_n(plan.buffers.remote, KOLO_NUM_BUFFER_ROLES, record.buffers);
  if (plan.semaphores)
    record.semaphores = plan.semaphores->location(segments);
  record.hasNews = segments.isNews(record.semaphores);
  for (const Location &location : record.buffers)
    record.hasNews |= segments.isNews(location);
}

Status compareAll(const RecordSummary &all) {
  if (!all.has(Kept::OtherCall))
    return {};
  return compareCalls(all.recordOf(Kept::First).call, all.recordOf(Kept::OtherCall).call,
                      {all.rankOf(Kept::First), all.rankOf(Kept::OtherCall)});
}

/// Whether ranks announce different values of a field. All then take the largest.
template <class Value> bool haveDifferent(const SummaryNumbers::Compared<Value> &field, Value &largest) {
  largest = std::max(largest, field.largest);
  return field.areDifferent;
}

/// Of a call with block tables: where the blocks of a peer's buffers begin.
void addPlaces(Plan &plan, const Exchange &exchange, int peer, bool isRemote) {
  for (size_t turn = 0; turn < RankBlock::numTurns; ++turn) {
    const int64_t *announced =
        isRemote ? nullptr : reinterpret_cast<const int64_t *>(exchange.published(peer, turn, 0));
    const int64_t *ofRole[] = {announced, isRemote ? nullptr : announced + plan.call.largest.input};
    for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
      plan.peers.places[turn][role].push_back(plan.buffers.isCopied[role] ? plan.buffers.tables.ofPieces.data()
                                                                          : ofRole[role]);
  }
}

/// The tables that generated code reads; null tables would say that there are none.
void makeTables(Plan &plan) {
  const Call &call = plan.call;
  const auto most = static_cast<size_t>(std::max(call.largest.input, call.largest.output));
  plan.buffers.tables.ofPieces.resize(most);
  for (size_t block = 0; block < most; ++block)
    plan.buffers.tables.ofPieces[block] = static_cast<int64_t>(block) * plan.buffers.pieces.count;
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
    plan.buffers.tables.places[role] =
        plan.buffers.isCopied[role] ? plan.buffers.tables.ofPieces : call.tables->places[role];
    plan.buffers.tables.counts[role] = call.tables->counts[role];
    plan.buffers.tables.places[role].resize(most);
    plan.buffers.tables.counts[role].resize(most);
  }
}

/// Peers read the places of this rank's blocks from the announcement.
void announcePlaces(Plan &plan, const Exchange &exchange, int rank) {
  const size_t turn = exchange.nextTurn();
  std::byte *own = exchange.published(rank, turn, 0);
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
    const std::vector<int64_t> &places = plan.call.tables->places[role];
    std::copy(places.begin(), places.end(),
              reinterpret_cast<int64_t *>(own) + (role == KOLO_INPUT ? 0 : plan.call.largest.input));
    for (Lane &lane : plan.lanes)
      lane.invocation.peerPlaces[role] = plan.peers.places[turn][role].data();
  }
}

/// Halves a range of blocks, of which some differ, until it begins with the first that do, and has no others.
template <class Number, class AreAlikeIn>
Status narrow(BlockRange &range, Number BlockRange::*first, Number BlockRange::*end, AreAlikeIn areAlikeIn) {
  while (range.*end - range.*first > 1) {
    BlockRange lower = range;
    lower.*end = range.*first + (range.*end - range.*first) / 2;
    Result<bool> areAlike = areAlikeIn(lower);
    if (!areAlike.isOk())
      return areAlike.status();
    if (*areAlike)
      range.*first = lower.*end;
    else
      range.*end = lower.*end;
  }
  return {};
}

/// After an exchange of records: Mismatch if some block is not as long on both of its sides. Only then all ranks meet
/// again, until it is known which block that is: they halve the distances between its two ranks, and then the ranks
/// that may give it. `announce` makes such an exchange, with what this rank says of some blocks.
template <class Announce>
Status compareBlocks(const Plan &plan, const Exchange &exchange, const Peers &peers, Announce announce) {
  const Call &call = plan.call;
  auto areAlike = [&] {
    const CountDigests &digests = exchange.summary().numbers().sums.digests;
    return digests.given == digests.taken;
  };
  if (areAlike())
    return {};
  auto areAlikeIn = [&](const BlockRange &range) -> Result<bool> {
    TableRecord said;
    said.digests = digestsIn(call, peers.rank(), range);
    Status status = announce(said);
    return status.isOk() ? Result(areAlike()) : Result<bool>(status);
  };
  BlockRange range{0, numDistances(call), 0, peers.size()};
  if (Status status = narrow(range, &BlockRange::firstDistance, &BlockRange::endDistance, areAlikeIn); !status.isOk())
    return status;
  if (Status status = narrow(range, &BlockRange::firstGiver, &BlockRange::endGiver, areAlikeIn); !status.isOk())
    return status;
  TableRecord said;
  std::ranges::copy(countsOfBlock(call, peers.rank(), range), said.counts);
  if (Status status = announce(said); !status.isOk())
    return status;
  const int64_t (&counts)[2] = exchange.summary().numbers().sums.counts;
  if (Status status = compareBlock(call, range, {counts[0], counts[1]}); !status.isOk())
    return status;
  return error(StatusCode::Mismatch, "ranks disagree on counts of blocks");
}

/// Makes the tables of a plan, of all ranks, with null where nothing is known. May throw std::bad_alloc.
void makePeerTables(Plan &plan, const Peers &peers) {
  const auto numRanks = static_cast<size_t>(peers.size());
  for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
    plan.peers.buffers[role] = SparseArray<void *>(numRanks);
    plan.peers.locations[role].resize(static_cast<size_t>(peers.control().numHere()));
  }
  for (SparseArray<void *> &ofTurn : plan.peers.published)
    ofTurn = SparseArray<void *>(plan.call.publishes ? numRanks : 0);
  plan.peers.publishedNow = SparseArray<void *>(plan.buffers.publishesMuch ? numRanks : 0);
  for (SparseArray<void *> &ofTurn : plan.peers.packets)
    ofTurn = SparseArray<void *>(plan.call.hasPackets ? numRanks : 0);
  for (auto &ofTurn : plan.peers.places)
    for (std::vector<const int64_t *> &ofRole : ofTurn)
      ofRole.clear();
}

/// Finds where a peer publishes, and its packets.
void resolveTurns(Plan &plan, const Exchange &exchange, int peer) {
  const auto index = static_cast<size_t>(peer);
  // Outside of announcements there are two turns.
  const size_t turnBytes = exchange.heard(peer).buffers[KOLO_PUBLISHED].sizeBytes / 2;
  if (plan.buffers.publishesMuch)
    plan.peers.numPublishedSlots = std::min(plan.peers.numPublishedSlots, turnBytes / plan.buffers.publishedSlotBytes);
  for (size_t turn = 0; plan.call.publishes && turn < RankBlock::numTurns; ++turn) {
    auto *aside = static_cast<std::byte *>(plan.peers.buffers[KOLO_PUBLISHED][index]);
    plan.peers.published[turn][index] =
        plan.buffers.publishesMuch ? aside + turn % 2 * turnBytes : exchange.published(peer, turn, 0);
  }
  const size_t packetBytes =
      plan.call.hasPackets ? static_cast<size_t>(plan.call.packetBytesFor(plan.buffers.pieces.count)) : 0;
  for (size_t turn = 0; plan.call.hasPackets && turn < 2; ++turn)
    plan.peers.packets[turn][index] =
        static_cast<std::byte *>(plan.peers.buffers[KOLO_PACKETS][index]) + turn * packetBytes;
}

/// Finds the memory of the peers of this host by what they announced.
Status resolvePeers(Plan &plan, const Exchange &exchange, const Peers &peers, PeerSegments &segments) {
  SparseArray<Cell *> cells(plan.semaphores->isConnected() ? 0 : static_cast<size_t>(peers.size()));
  plan.peers.numPublishedSlots = SIZE_MAX; // of the rank with the fewest
  makePeerTables(plan, peers);
  if (plan.call.tables)
    makeTables(plan);
  std::copy_n(exchange.summary().numbers().largestBuffers, KOLO_NUM_BUFFER_ROLES, plan.peers.largestBytes);
  for (int peer : peers.hosts().ranksHere()) {
    const Record &record = exchange.heard(peer);
    const auto index = static_cast<size_t>(peer);
    bool isSelf = peer == peers.rank();
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
      Result<std::byte *> address = isSelf ? Result(static_cast<std::byte *>(plan.buffers.local[role]))
                                           : segments.resolve(peer, record.buffers[role]);
      if (!address.isOk())
        return address.status();
      plan.peers.buffers[role][index] = *address;
      plan.peers.locations[role][static_cast<size_t>(peers.hosts().placeOf(peer))] = record.buffers[role];
    }
    resolveTurns(plan, exchange, peer);
    if (cells.size() == 0)
      continue;
    std::shared_ptr<Segment> own = plan.semaphores->memory();
    Result<std::byte *> address =
        isSelf ? Result(own ? own->data() : nullptr) : segments.resolve(peer, record.semaphores);
    if (!address.isOk())
      return address.status();
    cells[index] = reinterpret_cast<Cell *>(*address);
  }
  // What ranks of other hosts publish comes here, and they read no places of blocks.
  for (int peer = 0; plan.call.publishes && peer < peers.size(); ++peer)
    for (size_t turn = 0; peers.isRemote(peer) && turn < RankBlock::numTurns; ++turn)
      plan.peers.published[turn][static_cast<size_t>(peer)] = exchange.published(peer, turn, plan.slotBytes());
  for (int peer = 0; plan.call.tables && peer < peers.size(); ++peer)
    addPlaces(plan, exchange, peer, peers.isRemote(peer));
  if (!plan.semaphores->isConnected())
    plan.semaphores->connect(std::move(cells));
  return {};
}

} // namespace

Status CommunicatorState::run(const PluginState &plugin, const CallArguments &arguments) {
  if (!ranks->mayCall())
    return ranks->whyNoCall();
  Status status =
      isWidened(arguments.type, arguments.reduction) ? runWide(plugin, arguments) : runAsGiven(plugin, arguments);
  // This rank accesses no memory of its peers any more, and needs none of its own.
  ranks->block(ranks->rank()).finished.store(exchange.number(), std::memory_order_release);
  held.end(exchange.number());
  return status;
}

Status CommunicatorState::runAsGiven(const PluginState &plugin, const CallArguments &arguments) {
  if (Plan *plan = aheadPlans.find(plugin, arguments))
    return runAhead(*plan, plugin, arguments);
  if (Status status = exchange.catchUp(); !status.isOk())
    return status;
  // Its program was selected for the last call, wherever the buffers are now.
  const bool isRepeat = steady && steady->isOf(plugin, arguments);
  Plan *plan = isRepeat ? steady : plans.find(plugin, arguments, *segments, rules);
  // Without room for its memory the call is refused like a new one that cannot have it.
  if (plan && plan->usesHeld && !held.begin().isOk()) [[unlikely]]
    plan = nullptr;
  bool isAgreed = isRepeat && exchange.maySkip();
  if (isAgreed) {
    exchange.skip();
  } else if (plan) {
    steady = nullptr;
    if (Status status = propose(*plan, 0, isAgreed); !status.isOk())
      return status;
  }
  // The plugin by which a repeated plan was made may be unloaded: mayRepeat must not read it.
  if (isAgreed && (isRepeat || mayRepeat(*plan, *ranks))) {
    Status status = guarded([&] { return takeBuffers(*plan, plugin, arguments); });
    if (!status.isOk()) { // the peers may be in the call already
      (void)ranks->abort(rankError(status.code(), ranks->rank(), "{}", status.message()));
      return endFailedCall();
    }
  } else if (!isAgreed) {
    Result<Plan *> agreed = agree(plugin, arguments);
    if (!agreed.isOk())
      return agreed.status();
    plan = *agreed;
    held.dropReplaced();
    if (plan->call.publishes || plan->buffers.sharesPlaces)
      if (Status status = meetAgain(*plan, 0); !status.isOk())
        return status;
  }
  Status status = runLanes(*plan);
  steady = status.isOk() && mayRepeat(*plan, *ranks) ? plan : nullptr;
  if (!isAgreed && status.isOk() && mayRunAhead(*plan, *ranks))
    aheadPlans.keep(plans.take(*plan));
  return status;
}

/// Publishes this rank's input if the program publishes inputs, and announces the plan's number.
Status CommunicatorState::propose(Plan &plan, int64_t piece, bool &isAgreed) {
  if (plan.call.publishes)
    publish(plan, piece);
  if (plan.buffers.sharesPlaces)
    announcePlaces(plan, exchange, ranks->rank());
  PublishedSize published; // that other hosts must be sent
  if (ranks->hosts().areSeveral() && plan.call.publishes)
    published = plan.publishedIn(piece);
  return exchange.propose(plan.agreement, published, isAgreed);
}

/// An exchange inside a call on which all ranks have agreed.
Status CommunicatorState::meetAgain(Plan &plan, int64_t piece) {
  bool isAgreed = false;
  Status status = propose(plan, piece, isAgreed);
  if (status.isOk() && !isAgreed)
    return ranks->abort(error(StatusCode::SystemError, "ranks that had agreed on a call of program {} no longer do",
                              plan.call.info->name));
  return status;
}

/// The way of a new call: every rank resolves it and announces a record.
Result<Plan *> CommunicatorState::agree(const PluginState &plugin, const CallArguments &arguments,
                                        const Status &refusal) {
  Plan *plan = nullptr;
  Agreed agreed;
  auto announceBlocks = [this](const TableRecord &said) {
    nextRecord(Operation::Confirm).tables = said;
    return exchangeRecords();
  };
  for (bool isAgreed = false; !isAgreed;) {
    // The record carries every failure to the peers, who would otherwise wait for this rank until the timeout.
    Status own = !refusal.isOk() ? refusal : guarded([&] {
      if (!plan)
        plan = &plans.replace(plugin, arguments);
      return prepare(plugin, arguments, agreed, *plan);
    });
    Record &record = nextRecord(Operation::Run);
    record.selectedBy = agreed.memory;
    record.tables.longestBlock = agreed.longestBlock;
    record.tables.largestBytes = agreed.largestBytes;
    record.can.keepPlan = planRoom.reserve();
    if (plan)
      fillRecord(record, *plan, *segments);
    if (!own.isOk())
      setFailure(record, own);
    if (Status status = exchangeRecords(); !status.isOk())
      return status;
    if (Status status = exchange.firstRefusal(); !status.isOk())
      return status;
    // If some ranks selected a program for windows and others one for ordinary memory, all take the latter.
    const RecordSummary &all = exchange.summary();
    bool mustRepeat = haveDifferent(all.numbers().selectedBy, agreed.memory);
    // A rank may know its own blocks alone, and all must cut the call alike.
    mustRepeat |= haveDifferent(all.numbers().longestBlock, agreed.longestBlock);
    mustRepeat |= haveDifferent(all.numbers().largestBytes, agreed.largestBytes);
    if (mustRepeat)
      continue;
    if (Status status = compareAll(all); !status.isOk())
      return status;
    if (plan->call.tables)
      if (Status status = compareBlocks(*plan, exchange, *ranks, announceBlocks); !status.isOk())
        return status;
    // If one rank must stage, all ranks stage, so that all run the same pieces.
    isAgreed = !haveDifferent(all.numbers().staging, agreed.staging);
  }
  planRoom.setEverywhere(
      std::ranges::all_of(ranks->hosts().ranksHere(), [&](int peer) { return exchange.heard(peer).can.keepPlan; }));
  uint64_t agreement = ++agreements; // counted even if this rank fails now, because the peers count it
  if (Status status = enter(*plan); !status.isOk())
    return status;
  if (ranks->hosts().areSeveral()) {
    plans.endRemoteAccess(plan->generation);
    bool lendsOutput = mayRepeat(*plan, *ranks) && ranks->links()->areApart() && plan->call.info->sharesOutput;
    if (Status status = registerPlan(*plan, agreement, lendsOutput, *ranks); !status.isOk())
      return ranks->abort(status);
  }
  plan->agreement = agreement;
  return plan;
}

/// This rank's own part. Involves no peer.
Status CommunicatorState::prepare(const PluginState &plugin, const CallArguments &arguments, const Agreed &agreed,
                                  Plan &plan) {
  plan.call = {};
  const Planner planner{ranks->rank(),       ranks->size(), agreed.memory,        agreed.longestBlock,
                        agreed.largestBytes, false,         ranks->settings().tag};
  Result<Call> planned = planCall(plugin, arguments, *segments, planner);
  if (!planned.isOk())
    return planned.status();
  plan.call = *planned;
  plan.call.numLanes = ranks->settings().lanes;
  plan.program = plan.call.info->name;
  plan.request.setUse(plan.call.info->reduces && !arguments.custom.kernel, hasRoot(plan.call.info->collective));
  std::unique_ptr<Semaphores> &set = semaphores[{plugin.content, plan.call.key.program}];
  if (!set) {
    auto made = std::make_unique<Semaphores>(plan.call.info->numSemaphores, ranks->size(), ranks->settings().lanes);
    if (Status status = made->allocate(*segments, ranks->hosts().areSeveral()); !status.isOk())
      return status;
    if (Status status = held.keep(made->keptBytes()); !status.isOk())
      return status;
    set = std::move(made);
  }
  plan.semaphores = set.get();
  Result<Buffers> placed = placeBuffers(plan.call, agreed.staging, held.ofBuffers(), rules);
  if (!placed.isOk())
    return placed.status();
  plan.buffers = *placed;
  if (Status status = checkHosts(plan.call, ranks->hosts()); !status.isOk())
    return status;
  if (plan.buffers.publishesMuch)
    if (Status status = held.reservePublished(plan.buffers, ranks->size()); !status.isOk())
      return status;
  if (plan.call.hasPackets)
    if (Status status = held.reservePackets(plan.call, plan.buffers); !status.isOk())
      return status;
  // After all changes of the table for this call, and before the record takes the ids of freed segments.
  plan.generation = segments->generation();
  plan.usesHeld = held.hasBegun();
  return {};
}

/// Maps new segments, and waits until the peers have mapped them.
Status CommunicatorState::enter(Plan &plan) {
  const bool hasNews = exchange.summary().numbers().hasNews;
  const Record &own = exchange.heard(ranks->rank());
  // Copied, because the confirmation overwrites records.
  std::array<Location, KOLO_NUM_BUFFER_ROLES + 1> named;
  std::ranges::copy(own.buffers, named.begin());
  named.back() = own.semaphores;
  Status status = guarded([&] {
    Status resolved = resolvePeers(plan, exchange, *ranks, peerSegments);
    if (resolved.isOk())
      lanes.makeLanes(plan);
    return resolved;
  });
  if (hasNews)
    status = confirmNews(status, named);
  return status;
}

/// Lets the lanes publish in this rank's memory of the next exchange.
void CommunicatorState::publish(Plan &plan, int64_t piece) {
  const SparseArray<void *> *now = &plan.peers.published[exchange.nextTurn()];
  size_t slot = 0;
  if (plan.buffers.publishesMuch)
    slot = exchange.nextSlot() % plan.peers.numPublishedSlots;
  if (slot != 0) {
    const size_t offsetBytes = slot * plan.buffers.publishedSlotBytes;
    std::transform(now->data(), now->data() + now->size(), plan.peers.publishedNow.data(),
                   [&](void *first) { return static_cast<std::byte *>(first) + offsetBytes; });
    now = &plan.peers.publishedNow;
  }
  lanes.publish(plan, piece, *now);
}

Status CommunicatorState::runLanes(Plan &plan) {
  std::atomic<uint32_t> &isRunning = ranks->block(ranks->rank()).isRunning;
  // This rank writes isRunning and then reads the abort state. A rank that aborts writes that state and then reads
  // isRunning. So this rank sees the abort, or the other rank sees that this one runs.
  isRunning.store(1, std::memory_order_seq_cst);
  for (int64_t piece = 0; piece < plan.buffers.pieces.number && !ranks->isAborted(); ++piece) {
    plan.buffers.copyIn(plan.call, piece, plan.inputStores);
    if (plan.mustMeet(piece))
      if (Status status = meetAgain(plan, piece); !status.isOk())
        break;
    lanes.run(plan, piece);
  }
  isRunning.store(0, std::memory_order_release);
  lanes.count(plan);
  return ranks->isAborted() ? endFailedCall() : Status();
}

/// Returns the cause when peers access no memory of this rank any more.
Status CommunicatorState::endFailedCall() {
  plans.endRemoteAccess(UINT64_MAX); // of all
  ranks->waitUntilQuiet();
  return ranks->abortCause();
}

} // namespace kolo::runtime
