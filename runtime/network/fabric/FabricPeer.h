// FabricPeer: what this rank knows of another one, and what it writes to it.
#pragma once

#include "network/fabric/Arrivals.h"
#include "network/fabric/ControlMessage.h"
#include "network/fabric/Nic.h"
#include "network/fabric/SelfTest.h"
#include "wait/Clock.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace kolo::runtime::fabric {

/// The lane of the self-test. Those of users are below.
inline constexpr uint32_t testLane = maxCountedLanes - 1;

/// A put or signal that has not begun, or is in the middle.
struct WriteRequest {
  bool isSignal = false, wasAsked = false;
  RemotePlace place;
  const std::byte *src = nullptr;
  uint64_t sizeBytes = 0, doneBytes = 0;
  uint64_t number = 0; // of a put: see SendPath::numPuts
  RemoteSignal signal;
};

/// What one lane writes to one peer.
struct SendPath {
  std::deque<WriteRequest> requests;
  std::map<uint64_t, uint64_t> underWay; // by interval: operations
  uint64_t numPuts = 0;                  // ever asked for
  std::map<uint64_t, uint64_t> reading;  // by a put's number: operations that read its source
  uint64_t numUnderWay = 0, numMoved = 0;
  bool wasDropped = false;                                  // some request, since the last flush
  uint64_t interval = 0, numPutsOfInterval = 0;             // an interval ends with a signal
  std::map<std::pair<uint64_t, uint32_t>, uint64_t> counts; // by agreement and semaphore: the last that was signalled

  bool isDone() const { return requests.empty() && numUnderWay == 0; }
  /// So many of the first puts have sources that nothing reads any more.
  uint64_t numRead() const {
    auto first = std::ranges::find(requests, false, &WriteRequest::isSignal);
    const uint64_t begun = first == requests.end() ? numPuts : first->number - 1;
    return reading.empty() ? begun : std::min(begun, reading.begin()->first - 1);
  }
  /// Whether one more interval would be open than the target can tell apart.
  bool hasManyIntervals() const { return !underWay.empty() && interval - underWay.begin()->first >= mostOpenIntervals; }
};

/// How far this rank and a peer have met. Each waits for the step of the other.
enum class Stage : uint8_t {
  Strange,    // this rank has told nothing
  Introduced, // its address; waits for the peer's
  Addressed,  // knows the peer's address; waits until the peer knows its own, where that is needed
  Tests,      // the self-test is under way; waits until the peer, too, has found all bytes right
  Met,
};

/// What exists until two ranks have met and nothing of the self-test is under way. It stays if they fail to meet: the
/// peer may be writing here.
struct MeetingState {
  MeetingState(int ownRank, int peer) : test(ownRank, peer) {}
  SelfTest test;
  std::unique_ptr<Memory> memory; // of the test; closed first
  std::vector<std::byte> address; // of the peer; empty: it has not told yet
  RemoteAgreement there;          // the peer's memory of the test
  Status difference;              // of the peer's device
  bool isPeerReady = false, hasPassed = false, hasPeerPassed = false;
};

/// A rank that this one writes to, or that writes here.
struct FabricPeer {
  Stage stage = Stage::Strange;
  std::unique_ptr<MeetingState> meeting;
  Arrivals arrivals; // where signals are counted
  std::map<uint64_t, RemoteAgreement> agreements;
  uint64_t newest = 0; // of its registrations
  std::map<uint32_t, SendPath> paths;
  bool isLeaving = false, hasSaidAll = false, saidFarewell = false;
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, uint64_t> lastCounts; // of one that leaves, see FabricLeave
  Status refusal;                                                          // the two cannot write to each other
  Status failure;                                                          // of a write to it
  Clock::time_point failedAt;                                              // if there was one

  /// Whether one of the two has told the other its address: messages of all kinds may follow.
  bool isAcquainted() const { return stage != Stage::Strange || !meeting->address.empty(); }
  bool isWorking() const { return refusal.isOk() && failure.isOk(); }
  bool isWrittenTo() const {
    return std::ranges::any_of(paths, [](const auto &one) { return one.second.numUnderWay != 0; });
  }
};

} // namespace kolo::runtime::fabric
