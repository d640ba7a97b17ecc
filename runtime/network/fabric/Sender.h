// Sender: what one rank writes to its peers, and what its device reports.
#pragma once

#include "network/fabric/FabricState.h"

#include <set>
#include <utility>
#include <vector>

namespace kolo::runtime::fabric {

/// Called by one thread at a time.
class Sender {
public:
  explicit Sender(FabricState &ofRank) : state(ofRank) {}

  /// Begins it if that is possible. The peer must be known.
  void push(Path path, const WriteRequest &request);
  /// The same in the next `advance`.
  void pushLater(Path path, const WriteRequest &request);
  /// Takes what the device has done.
  void takeEvents();
  /// Begins what may begin.
  void advance();
  /// Waits until what has begun has ended, or until then.
  void drain(Clock::time_point until);

private:
  enum class Step : uint8_t { Done, Wait };

  void note(Event &event);
  void noteReceived(Operation &operation, bool isFailure);
  void raiseDue();
  void noteRead(Operation &operation, const Event &event);
  void askForMemory(const Operation &operation);
  void finish(Operation &operation);
  void fail(int number, const std::string &reason);
  void advance(Path path);
  Step postPut(Path path, SendPath &from, WriteRequest &request);
  Step postPiece(Path path, SendPath &from, WriteRequest &request, const RemoteRegion &region);
  Step postSignal(Path path, SendPath &from, WriteRequest &request);
  Step postFlag(Path path, SendPath &from, const RemoteSignal &signal, const RemoteAgreement &there);
  Step refuseToTell(Path path);
  Step postMessage(Path path, SendPath &from, const RemoteSignal &signal);
  Operation *take(Path path, const SendPath &from) const;
  Step begin(Posted posted, Path path, SendPath &from, Operation &operation);
  const RemoteAgreement *findThere(Path path, uint64_t agreement, SendPath &from, WriteRequest &request);
  Step askAbout(Path path, SendPath &from, WriteRequest &request, bool isOld = false);
  Arrivals::Raise raiseFor(int sender) const;

  FabricState &state;
  std::set<std::pair<int, uint32_t>> busy; // peers and lanes that have requests
  std::vector<Operation *> idleReceives;
};

} // namespace kolo::runtime::fabric
