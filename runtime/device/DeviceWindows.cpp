#include "device/DeviceWindows.h"

#include "base/Error.h"
#include "device/DeviceChecks.h"

#include <algorithm>

namespace kolo::runtime {

Result<MappedWindow> DeviceWindows::mapAll(DeviceRecord &record, std::span<void *const> memory, Status own,
                                           std::span<void *const> addresses) {
  const size_t sizeBytes = record.sizeBytes;
  if (!ranks.meeting)
    return own.isOk() ? Result<MappedWindow>(MappedWindow{{memory.begin(), memory.end()}, {}, sizeBytes})
                      : Result<MappedWindow>(own);
  const DevicePurpose purpose = record.purpose;
  record.isMapped = !addresses.empty();
  struct Offer { // until all ranks have mapped the memory, or none will
    const DevicePeers &peers;
    DeviceLocation location;
    ~Offer() { peers.forget(location); }
  } offer = {*peers, {}};
  if (own.isOk() && !record.isMapped) {
    Result<DeviceLocation> location = peers->describe(memory.front());
    own = location.status();
    if (location.isOk())
      record.memory = offer.location = *location;
  }
  if (Status status = watch.exchange(record, own); !status.isOk())
    return status;
  if (Status status = compareOffers(); !status.isOk())
    return status;
  Result<MappedWindow> mapped = guarded([&]() -> Result<MappedWindow> {
    if (addresses.empty())
      return resolveAll(sizeBytes);
    MappedWindow given = {{}, {}, sizeBytes};
    for (int peer : ranks.ranksHere()) // the caller may have mapped memory of other hosts, too
      given.bases.push_back(addresses[static_cast<size_t>(peer)]);
    return given;
  });
  if (mapped.isOk())
    mapped->bases[ranks.placeHere(ranks.meeting->rank())] = memory.front();
  DeviceRecord &confirmation = ranks.meeting->next();
  confirmation.purpose = purpose;
  Status status = watch.exchange(confirmation, mapped.status());
  return status.isOk() ? std::move(mapped) : Result<MappedWindow>(status);
}

/// Of what all ranks have just said.
Status DeviceWindows::compareOffers() const {
  const DeviceSummary &said = ranks.meeting->said();
  if (said.has(DeviceKept::OtherSize)) {
    const int peer = said.rankOf(DeviceKept::OtherSize);
    return rankError(StatusCode::Mismatch, peer,
                     "ranks disagree on the size of a window: rank 0 registers {} bytes, rank {} registers {}",
                     said.first().sizeBytes, peer, said.termsOf(DeviceKept::OtherSize).sizeBytes);
  }
  if (!said.has(DeviceKept::OtherMapping))
    return {};
  const int peer = said.rankOf(DeviceKept::OtherMapping);
  return rankError(StatusCode::Mismatch, peer,
                   "ranks disagree on a window: rank {} has its addresses at all ranks, rank {} has not",
                   said.first().isMapped ? 0 : peer, said.first().isMapped ? peer : 0);
}

/// From what all peers of this host have just said.
Result<MappedWindow> DeviceWindows::resolveAll(size_t sizeBytes) {
  MappedWindow mapped;
  mapped.sizeBytes = sizeBytes;
  for (int peer : ranks.ranksHere()) {
    std::shared_ptr<const DeviceImport> import;
    Result<void *> base = peer == ranks.meeting->rank()
                              ? Result<void *>(nullptr)
                              : peers->resolve(ranks.placeHere(peer), ranks.meeting->heard(peer).memory, import);
    if (!base.isOk())
      return base.status();
    mapped.bases.push_back(*base);
    mapped.imports.push_back(std::move(import));
  }
  return mapped;
}

Result<MappedWindow> DeviceWindows::mapInternal(std::span<void *const> memory, size_t sizeBytes, const Status &own) {
  DeviceRecord ownRecord;
  DeviceRecord &record = ranks.meeting ? ranks.meeting->next() : ownRecord;
  record.purpose = DevicePurpose::Grow;
  record.sizeBytes = sizeBytes;
  return mapAll(record, memory, own, {});
}

/// `isMapped`: peers have addresses of their own.
Status DeviceWindows::check(std::span<void *const> memory, size_t sizeBytes, bool isMapped) const {
  if (memory.size() != ranks.locals.size())
    return error(StatusCode::InvalidArgument, "{} ranks are here, and the window has memory of {}", ranks.locals.size(),
                 memory.size());
  if (sizeBytes == 0)
    return error(StatusCode::InvalidArgument, "a window cannot have 0 bytes");
  if (sizeBytes >> placeOffsetBits)
    return error(StatusCode::InvalidArgument, "a window cannot have {} bytes", sizeBytes);
  const DeviceAccess access = isMapped ? DeviceAccess::ByPeersAsMapped : DeviceAccess::ByPeers;
  for (size_t local = 0; local < ranks.locals.size(); ++local)
    if (Status status = checkBuffer(ranks, local, {"window", memory[local], sizeBytes}, access); !status.isOk())
      return status;
  auto begin = reinterpret_cast<uintptr_t>(memory.front());
  auto next = windows.lower_bound(begin);
  bool isTaken = numberAt(memory.front()) || (next != windows.end() && next->first - begin < sizeBytes);
  return isTaken ? error(StatusCode::InvalidArgument, "a window of {} bytes at {} overlaps another window", sizeBytes,
                         memory.front())
                 : Status();
}

Status DeviceWindows::add(std::span<void *const> memory, size_t sizeBytes, std::span<void *const> addresses) {
  if (Status status = watch.query(); !status.isOk())
    return status;
  DeviceRecord ownRecord;
  DeviceRecord &record = ranks.meeting ? ranks.meeting->next() : ownRecord;
  record.purpose = DevicePurpose::Register;
  record.sizeBytes = sizeBytes;
  Status own = guarded([&] { return check(memory, sizeBytes, !addresses.empty()); });
  Result<MappedWindow> mapped = mapAll(record, memory, own, addresses);
  if (!mapped.isOk())
    return mapped.status();
  windows.emplace(reinterpret_cast<uintptr_t>(memory.front()), NumberedWindow{++numWindows, std::move(mapped).value()});
  return {};
}

Result<DeviceWindows::ByAddress::iterator> DeviceWindows::findAt(std::span<void *const> memory) {
  auto found =
      memory.size() == ranks.locals.size() ? windows.find(reinterpret_cast<uintptr_t>(memory.front())) : windows.end();
  if (found == windows.end())
    return error(StatusCode::InvalidArgument, "no window begins at {}", memory.empty() ? nullptr : memory.front());
  return found;
}

Status DeviceWindows::forget(std::span<void *const> memory) {
  auto found = findAt(memory);
  Status status = found.isOk() ? watch.waitForLaunches() : found.status();
  if (status.isOk())
    windows.erase(*found);
  return status;
}

Status DeviceWindows::remove(std::span<void *const> memory) {
  if (Status status = watch.query(); !status.isOk())
    return status;
  auto found = findAt(memory);
  const Status &own = found.status();
  if (Status status = own.isOk() ? watch.waitForLaunches() : own;
      !status.isOk() && (!ranks.meeting || watch.hasFailed()))
    return status;
  if (!ranks.meeting) {
    windows.erase(*found);
    return {};
  }
  DeviceMeeting &meeting = *ranks.meeting;
  DeviceRecord &record = meeting.next();
  record.purpose = DevicePurpose::Deregister;
  record.window = own.isOk() ? (*found)->second.number : 0;
  if (Status status = watch.exchange(record, own); !status.isOk())
    return status;
  if (const DeviceSummary &said = meeting.said(); said.has(DeviceKept::OtherWindow)) {
    const int peer = said.rankOf(DeviceKept::OtherWindow);
    return rankError(StatusCode::Mismatch, peer,
                     "ranks disagree on the window to deregister: rank 0 names window {}, rank {} window {}",
                     said.first().window, peer, said.termsOf(DeviceKept::OtherWindow).window);
  }
  windows.erase(*found);
  DeviceRecord &confirmation = meeting.next(); // that this rank has unmapped
  confirmation.purpose = DevicePurpose::Deregister;
  return watch.exchange(confirmation, {});
}

uint64_t DeviceWindows::numberAt(const void *address) const {
  auto after = windows.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (after == windows.begin())
    return 0;
  const auto &[begin, window] = *std::prev(after);
  return reinterpret_cast<uintptr_t>(address) - begin < window.mapped.sizeBytes ? window.number : 0;
}

/// Of a window that a place names. It lives as long as plans that name it.
const MappedWindow &DeviceWindows::mappedOf(uint64_t number) const {
  return std::ranges::find(windows, number, [](const auto &entry) { return entry.second.number; })->second.mapped;
}

DevicePlace DeviceWindows::placeOf(uint64_t window, const void *address) const {
  const void *begin = mappedOf(window).bases[ranks.placeHere(ranks.numbers.front())];
  return placeAt(
      window, static_cast<uint64_t>(static_cast<const std::byte *>(address) - static_cast<const std::byte *>(begin)));
}

size_t DeviceWindows::leftAt(DevicePlace place) const { return mappedOf(windowOf(place)).sizeBytes - offsetOf(place); }

std::byte *DeviceWindows::addressAt(DevicePlace place, int rank) const {
  return static_cast<std::byte *>(mappedOf(windowOf(place)).bases[ranks.placeHere(rank)]) + offsetOf(place);
}

} // namespace kolo::runtime
