// Plan: a call that was resolved and agreed on, kept for when the caller repeats it.
#pragma once

#include "call/Buffers.h"
#include "call/Call.h"
#include "call/CallIdentity.h"
#include "call/Lane.h"
#include "call/PlanRoom.h"
#include "call/Remote.h"
#include "call/Semaphores.h"
#include "memory/SparseArray.h"

#include <memory>
#include <string>
#include <vector>

namespace kolo::runtime {

/// Where the peers' memory is, as this process reaches it.
struct PlanPeers {
  // By role and rank; null for ranks of other hosts.
  SparseArray<void *> buffers[KOLO_NUM_BUFFER_ROLES];
  // By role and place on this host. Copied from the records, which later exchanges overwrite.
  std::vector<Location> locations[KOLO_NUM_BUFFER_ROLES];
  uint64_t largestBytes[KOLO_NUM_BUFFER_ROLES] = {}; // of the buffers of a role, of any rank
  // By turn and rank; empty where the program has none.
  SparseArray<void *> published[RankBlock::numTurns], packets[2];
  SparseArray<void *> publishedNow; // by rank: where the running piece is published
  size_t numPublishedSlots = 1;     // of each turn, on all ranks
  // Of a call with block tables, by role: where blocks begin in the peers' buffers, by rank. If peers announce that, by
  // turn.
  std::vector<const int64_t *> places[RankBlock::numTurns][2];
  // For buffers that are not copied piece by piece: where the running piece begins, as an offset and by rank.
  int64_t pieceOffsetBytes = 0;
  SparseArray<void *> pieces[2];
};

/// What ranks of other hosts may write, and by which numbers they put to it: see Remote.h.
struct PlanAccess {
  uint64_t number = 0; // 0: there are no other hosts
  std::unique_ptr<RemoteAccess> right;
  // The same for the output, if it is lent to one call alone; 0: `number` is for all buffers.
  uint64_t lentNumber = 0;
  std::unique_ptr<RemoteAccess> lentRight;

  uint64_t numberFor(int32_t role) const { return role == KOLO_OUTPUT && lentNumber != 0 ? lentNumber : number; }
  void end() {
    right.reset();
    lentRight.reset();
  }
};

struct Plan {
  Plan(const PluginState &plugin, const CallArguments &arguments)
      : request(plugin.load, arguments), content(plugin.content) {}

  KeptCall request; // with the pointers of the last call
  PluginContent content;
  std::string program; // its name, which the plan keeps when the plugin is unloaded
  Call call;
  Buffers buffers;
  Semaphores *semaphores = nullptr;
  PlanPeers peers;
  PlanAccess access;
  std::vector<Lane> lanes;
  bool usesHeld = false;                               // memory of the communicator's holding
  StoreChoice inputStores{StoreChoice::ratioOfCopies}; // to the staged input
  StoreChoice runStores{StoreChoice::ratioOfRuns, 16}; // of the generated code to memory of the runtime

  /// What this rank publishes in a piece.
  PublishedSize publishedIn(int64_t piece) const {
    auto sizeOf = [&](int64_t count) { return static_cast<size_t>(call.publishedBytesFor(count)); };
    return {static_cast<uint32_t>(sizeOf(pieceCount(call, buffers.pieces, piece))), slotBytes()};
  }
  /// Of what is published in announcements.
  uint32_t slotBytes() const {
    return static_cast<uint32_t>(
        Control::slotBytesFor(static_cast<size_t>(call.publishedBytesFor(buffers.pieces.count))));
  }

  uint64_t generation = 0; // of the segment table; the plan is invalid in any other generation
  // Number of the agreement of all ranks on this plan, from 1; 0: none. Every rank counts the same exchanges, so equal
  // numbers on all ranks mean one agreement.
  uint64_t agreement = 0;
  std::vector<std::byte> inputCopy; // see CommunicatorState::takeBuffers

  /// Whether the buffers of this role are the callers' own on all ranks, so that a piece is a range of them.
  bool isWhole(int32_t role) const { return (role == KOLO_INPUT || role == KOLO_OUTPUT) && !buffers.isCopied[role]; }
  /// Whether ranks meet before the program runs a piece. With block tables, pieces cut chunks at different places, and
  /// a proof of calls back to back is about chunks that lie alike.
  bool mustMeet(int64_t piece) const {
    if (call.info->enters && (piece > 0 || buffers.mustMeetAfterCopy(call)))
      return true;
    return call.tables && piece > 0;
  }
  /// Whether this is the same call to the peers, with whatever buffers, by whatever load of the plugin.
  bool isOf(const PluginState &plugin, const CallArguments &arguments) const {
    return request.isRepeatedBy(arguments) && content == plugin.content;
  }
  /// Whether the plugin selected the program.
  bool isSelected() const { return request.arguments().program.empty() && request.arguments().collective; }
};

/// Plans that a communicator keeps. Programs of linear algebra call some dozens of sizes in turn; but a plan has
/// something for every rank.
constexpr size_t numKeptPlans(int numRanks) { return numRanks <= 64 ? 64 : 16; }

/// About what a plan takes, without block tables.
constexpr size_t planBytes(int numRanks, int numLanes) {
  constexpr size_t names = 1024;
  constexpr size_t numAddresses = KOLO_NUM_BUFFER_ROLES + RankBlock::numTurns + 5; // packets and pieces: two of each
  constexpr size_t perRank = KOLO_NUM_BUFFER_ROLES * sizeof(Location) + numAddresses * sizeof(void *);
  return sizeof(Plan) + names + static_cast<size_t>(numLanes) * sizeof(Lane) + static_cast<size_t>(numRanks) * perRank;
}

/// The last few plans of a communicator. Addresses stay valid while the cache lives.
class PlanCache {
public:
  PlanCache(int numRanks, PlanRoom &forPlans) : room(forPlans), plans(numKeptPlans(numRanks)) {}

  /// Returns a valid, agreed plan of the same call, and gives it the pointers of this call. Null when there is none.
  /// Other pointers are accepted only if the peers need not know them. Allocates nothing.
  Plan *find(const PluginState &plugin, const CallArguments &arguments, const SegmentTable &segments,
             const MemoryRules &rules);

  /// Returns an empty plan for this call. It replaces an older plan for it, or else one of a call that none repeats, or
  /// else the oldest plan if there is no room for one more. May throw std::bad_alloc.
  Plan &replace(const PluginState &plugin, const CallArguments &arguments);

  /// Takes a plan out.
  std::unique_ptr<Plan> take(const Plan &plan);
  /// The plan of this agreement; null: it is not here.
  const Plan *ofAgreement(uint64_t agreement) const;

  /// Ends the access of other hosts to the buffers of plans of other generations than this one, and of the plan that
  /// was replaced last.
  void endRemoteAccess(uint64_t generation);

private:
  size_t placeFor(const PluginState &plugin, const CallArguments &arguments);

  // Of the plan that was replaced last: peers may still repeat its call, until they meet this rank in an exchange.
  PlanAccess replaced;
  PlanRoom &room;
  std::vector<std::unique_ptr<Plan>> plans;
  size_t last = 0; // the plan found last
};

} // namespace kolo::runtime
