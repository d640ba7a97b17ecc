// PeerSetup: how two ranks meet when one of them first writes to the other: addresses by mail, and then a self-test of
// all that they will use. Each step waits for one of the peer, and is taken in `progress`.
#pragma once

#include "network/fabric/FabricLeave.h"
#include "network/fabric/Sender.h"

#include <set>

namespace kolo::runtime::fabric {

/// Called by one thread at a time.
class PeerSetup {
public:
  PeerSetup(FabricState &ofRank, Sender &itsSender, FabricLeave &itsDeparture)
      : state(ofRank), sender(itsSender), departure(itsDeparture) {}

  /// What this rank's device is.
  void setDevice(const DeviceKind &kind) { device = kind; }
  /// A rank that this one writes to, or that writes here. The two meet from now on.
  FabricPeer &acquaintance(int number);
  /// Takes all steps that can be taken now.
  void progress();
  /// Takes no more steps.
  void stop() { meetings.clear(); }
  /// Takes the address of a peer. Mismatch: it came before.
  Status noteAddress(int peer, FabricPeer &from, const ControlMessage &message);
  /// What is missing until the two have met; Ok: nothing, or nobody has asked.
  Status troubleWith(int peer) const;

private:
  bool meet(int number);
  void introduce(int number, FabricPeer &peer);
  void takeAddress(int number, FabricPeer &peer);
  void beginTest(int number, FabricPeer &peer);
  void look(int number, FabricPeer &peer);
  void giveUp(int number, FabricPeer &peer, const Status &status);
  Status compare(int peer, const ControlMessage &address) const;

  FabricState &state;
  Sender &sender;
  FabricLeave &departure;
  DeviceKind device;
  std::set<int> meetings; // peers with whom more steps are to do
};

} // namespace kolo::runtime::fabric
