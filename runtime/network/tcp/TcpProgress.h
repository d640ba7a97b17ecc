// TcpProgress: moves the data of one rank's connections, makes those that come later, and notices their ends.
#pragma once

#include "network/Registrations.h"
#include "network/tcp/ConnectionSetup.h"
#include "network/tcp/ConnectionTable.h"
#include "network/tcp/PeerFailures.h"
#include "network/tcp/Sleepers.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace kolo::runtime::tcp {

/// All functions may be called by several threads at once.
class TcpProgress {
public:
  TcpProgress(int numRanks, ConnectionTable &allConnections) : connections(allConnections), registered(numRanks) {}

  Registrations &registrations() { return registered; }
  const PeerFailures &failures() const { return failed; }
  /// Wakes those that sleep in `idle`.
  void wakeAll() { sleepers.wake(); }

  /// Takes connections that stand, for which there are places in the table.
  void attach(std::vector<Established> met);
  /// From now on peers may connect, and are connected.
  void setUpLater(std::unique_ptr<ConnectionSetup> made) { setup = std::move(made); }
  /// Who comes from now on learns that nobody is here.
  void refuseOthers();
  /// Where all peers are, from now on.
  void know(std::shared_ptr<const EndpointTable> endpoints) {
    if (setup)
      setup->know(std::move(endpoints));
  }
  /// Asks for the connections with a peer.
  void ask(int peer);
  /// See ConnectionSetup.
  Status troubleWith(int peer) const { return setup ? setup->troubleWith(peer) : Status(); }

  /// As the functions of Transport.
  Status progress();
  Status idle(const Counter &counter, uint64_t target, Clock::time_point until);
  /// Records a failure and ends all connections with the rank at fault.
  Status fail(const Status &cause);
  /// Ends the connections that are receiving data of an agreement.
  void endReceiving(uint64_t agreement);

private:
  void look(timespec most, int wakeUp);
  void meet();

  ConnectionTable &connections;
  Registrations registered;
  PeerFailures failed;
  Sleepers sleepers;
  std::unique_ptr<ConnectionSetup> setup; // null: nobody comes later
  std::mutex meeting;                     // held by the thread that works for `setup`
  std::atomic<uint32_t> numLooks = 0;
};

} // namespace kolo::runtime::tcp
