// ExposedMemory: the memory of this rank that peers may write, as its device has it registered.
#pragma once

#include "network/fabric/ControlMessage.h"
#include "network/fabric/Nic.h"

#include <map>
#include <memory>
#include <vector>

namespace kolo::runtime::fabric {

class ExposedMemory {
public:
  /// Registers memory and keeps it. `withCells`: peers may write into cells, too.
  Status add(Nic &nic, const Registration &registration, bool withCells);
  /// False: there is none.
  bool remove(uint64_t agreement) { return byAgreement.erase(agreement) != 0; }
  bool contains(uint64_t agreement) const { return byAgreement.contains(agreement); }
  /// Ends all regions, before or after the endpoint that they belong to.
  void closeRegions();
  /// In a forked child: the regions belong to the parent.
  void forget();

  /// What a peer may write in a registration: nothing if it is no sender.
  ControlMessage messageOf(uint64_t agreement, int peer) const;
  /// What a new peer must hear: all registrations, and what is not early.
  std::vector<ControlMessage> messagesTo(int peer) const;
  /// The cell that a peer signals; null: there is none, or not any more.
  Cell *cell(int sender, uint32_t lane, const RemoteSignal &signal) const;
  /// Registration::makeVisible of an agreement; null: it needs none.
  const std::function<Status()> *visibilityOf(uint64_t agreement) const;
  /// Memory of this rank's GPU that shows what has come only behind a read; null: there is none.
  const Memory *toReadBack() const;
  bool mayWrite(int sender) const;

private:
  struct Exposed {
    Registration registration;
    RemoteAgreement forSenders;
    std::vector<std::unique_ptr<Memory>> regions; // by role; null where nothing may be put
    std::unique_ptr<Memory> cells;
  };

  std::map<uint64_t, Exposed> byAgreement;
  uint64_t newest = 0; // also if it was removed
};

} // namespace kolo::runtime::fabric
