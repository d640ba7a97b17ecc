// FabricLeave: how a rank leaves. An endpoint that closes while data still comes to it may lose what it sent last: so
// the rank tells its last counts, and its peers say farewell when they have them and write nothing more.
#pragma once

#include "network/fabric/FabricState.h"

#include <set>

namespace kolo::runtime::fabric {

/// Called by one thread at a time.
class FabricLeave {
public:
  explicit FabricLeave(FabricState &ofRank) : state(ofRank) {}

  /// Writes the last counts of all agreements that the peer still has.
  void tell(int number, FabricPeer &peer);
  /// Keeps the counts of one message of a peer that leaves. Mismatch: it leaves twice.
  Status note(int sender, FabricPeer &peer, const ControlMessage &message);
  /// Says farewell to the peers whose signals have all come, and to which nothing is under way.
  void answer();
  /// `waitsForAnswers`: not only for what this rank writes.
  bool mayLeave(bool waitsForAnswers) const;

private:
  bool isOver(int number);
  bool mustHear(int number, const FabricPeer &peer) const;

  FabricState &state;
  std::set<int> leaving; // peers that wait for this rank's farewell
};

} // namespace kolo::runtime::fabric
