#include "network/fabric/ExposedMemory.h"

#include <algorithm>

namespace kolo::runtime::fabric {

Status ExposedMemory::add(Nic &nic, const Registration &registration, bool withCells) {
  Exposed own;
  own.registration = registration;
  own.forSenders.numLanes = registration.numLanes;
  own.forSenders.numSemaphores = registration.numSemaphores;
  own.forSenders.numPlaces = static_cast<uint32_t>(registration.numPlaces());
  own.forSenders.isBySender = registration.isBySender;
  own.forSenders.isRaisedThere = registration.makeVisible != nullptr;
  auto describe = [&](const Region &region, std::unique_ptr<Memory> &kept) -> Result<RemoteRegion> {
    Result<std::unique_ptr<Memory>> made = nic.expose(region);
    if (!made.isOk())
      return made.status();
    kept = std::move(made).value();
    return RemoteRegion{kept->key(), kept->remoteBase(), region.sizeBytes};
  };
  for (const Region &region : registration.regions) {
    own.regions.emplace_back();
    own.forSenders.regions.emplace_back();
    if (region.sizeBytes == 0)
      continue;
    Result<RemoteRegion> made = describe(region, own.regions.back());
    if (!made.isOk())
      return made.status();
    own.forSenders.regions.back() = *made;
  }
  uint64_t numCells = uint64_t(registration.numLanes) * registration.numSemaphores * registration.numPlaces();
  if (withCells && numCells > 0 && !registration.makeVisible) {
    Result<RemoteRegion> made =
        describe({reinterpret_cast<std::byte *>(registration.cells), numCells * sizeof(Cell)}, own.cells);
    if (!made.isOk())
      return made.status();
    own.forSenders.cells = *made;
  }
  newest = registration.agreement;
  byAgreement[registration.agreement] = std::move(own);
  return {};
}

void ExposedMemory::closeRegions() {
  for (auto &[agreement, own] : byAgreement) {
    own.regions.clear();
    own.cells.reset();
  }
}

void ExposedMemory::forget() {
  for (auto &[agreement, own] : byAgreement) {
    for (std::unique_ptr<Memory> &region : own.regions)
      (void)region.release();
    (void)own.cells.release();
  }
}

ControlMessage ExposedMemory::messageOf(uint64_t agreement, int peer) const {
  const Exposed &own = byAgreement.at(agreement);
  ControlMessage message;
  message.kind = ControlKind::Registered;
  message.agreement = agreement;
  if (own.registration.senders[static_cast<size_t>(peer)]) {
    message.registered = own.forSenders;
    message.registered.place = static_cast<uint32_t>(own.registration.placeOf(peer));
  }
  return message;
}

std::vector<ControlMessage> ExposedMemory::messagesTo(int peer) const {
  std::vector<ControlMessage> messages;
  for (const auto &[agreement, own] : byAgreement)
    messages.push_back(messageOf(agreement, peer));
  if (newest == 0 || contains(newest))
    return messages;
  ControlMessage last;
  last.kind = ControlKind::Released;
  last.agreement = newest;
  messages.push_back(last);
  return messages;
}

Cell *ExposedMemory::cell(int sender, uint32_t lane, const RemoteSignal &signal) const {
  auto found = byAgreement.find(signal.agreement);
  if (found == byAgreement.end())
    return nullptr;
  const Registration &own = found->second.registration;
  if (lane >= own.numLanes || signal.semaphore >= own.numSemaphores || !own.senders[static_cast<size_t>(sender)])
    return nullptr;
  return &own.cellOf(sender, lane, signal.semaphore);
}

const std::function<Status()> *ExposedMemory::visibilityOf(uint64_t agreement) const {
  auto found = byAgreement.find(agreement);
  bool isNeeded = found != byAgreement.end() && found->second.registration.makeVisible;
  return isNeeded ? &found->second.registration.makeVisible : nullptr;
}

const Memory *ExposedMemory::toReadBack() const {
  for (const auto &[agreement, own] : byAgreement)
    for (size_t role = 0; role < own.regions.size(); ++role)
      if (own.registration.regions[role].owner.needsRead)
        return own.regions[role].get();
  return nullptr;
}

bool ExposedMemory::mayWrite(int sender) const {
  return std::ranges::any_of(
      byAgreement, [&](const auto &one) { return one.second.registration.senders[static_cast<size_t>(sender)]; });
}

} // namespace kolo::runtime::fabric
