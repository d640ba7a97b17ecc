// Memory that all ranks map: windows that the user registers, and internal windows. Ranks meet here only.
#include "device/DeviceState.h"

#include "base/Error.h"

#include <algorithm>

namespace kolo::runtime {

/// Announces this rank's outcome, and returns that of all ranks.
Status DeviceState::exchange(DeviceRecord &record, const Status &own) {
  if (!own.isOk())
    setRefusal(record, own);
  Status status = meeting->perform();
  if (status.isOk())
    return meeting->firstRefusal();
  return status.code() == StatusCode::Mismatch ? status : fail(status);
}

/// Every rank offers memory of record.sizeBytes bytes, or says by `own` why it cannot. On an error no rank has it.
Result<MappedWindow> DeviceState::mapAll(DeviceRecord &record, std::span<void *const> memory, Status own,
                                         std::span<void *const> addresses) {
  const size_t sizeBytes = record.sizeBytes;
  if (!meeting)
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
  if (Status status = exchange(record, own); !status.isOk())
    return status;
  for (int peer = 1; peer < numRanks; ++peer)
    if (meeting->heard(peer).sizeBytes != meeting->heard(0).sizeBytes)
      return rankError(StatusCode::Mismatch, peer,
                       "ranks disagree on the size of a window: rank 0 registers {} bytes, rank {} registers {}",
                       meeting->heard(0).sizeBytes, peer, meeting->heard(peer).sizeBytes);
  for (int peer = 1; peer < numRanks; ++peer)
    if (meeting->heard(peer).isMapped != meeting->heard(0).isMapped)
      return rankError(StatusCode::Mismatch, peer,
                       "ranks disagree on a window: rank {} has its addresses at all ranks, rank {} has not",
                       meeting->heard(0).isMapped ? 0 : peer, meeting->heard(0).isMapped ? peer : 0);
  Result<MappedWindow> mapped = guarded([&]() -> Result<MappedWindow> {
    return addresses.empty() ? resolveAll(sizeBytes)
                             : MappedWindow{{addresses.begin(), addresses.end()}, {}, sizeBytes};
  });
  if (mapped.isOk())
    mapped->bases[static_cast<size_t>(meeting->rank())] = memory.front();
  DeviceRecord &confirmation = meeting->next();
  confirmation.purpose = purpose;
  Status status = exchange(confirmation, mapped.status());
  return status.isOk() ? std::move(mapped) : Result<MappedWindow>(status);
}

/// From what all peers have just said.
Result<MappedWindow> DeviceState::resolveAll(size_t sizeBytes) {
  MappedWindow mapped;
  mapped.sizeBytes = sizeBytes;
  for (int peer = 0; peer < numRanks; ++peer) {
    std::shared_ptr<const DeviceImport> import;
    Result<void *> base =
        peer == meeting->rank() ? Result<void *>(nullptr) : peers->resolve(peer, meeting->heard(peer).memory, import);
    if (!base.isOk())
      return base.status();
    mapped.bases.push_back(*base);
    mapped.imports.push_back(std::move(import));
  }
  return mapped;
}

/// Adds an internal window of this size on all ranks.
Status DeviceState::growHeap(size_t sizeBytes) {
  std::vector<DeviceMemory> own;
  std::vector<void *> bases;
  Status status = guarded([&]() -> Status {
    for (const LocalRank &local : locals) {
      const std::shared_ptr<OpenDevice> &device = devices[local.device];
      Result<DeviceMemory> memory = DeviceMemory::allocate(device, KOLO_MEMORY_SHARED, sizeBytes);
      if (!memory.isOk())
        return memory.status();
      if (Status cleared = device->clear(memory->data(), sizeBytes); !cleared.isOk())
        return cleared;
      bases.push_back(memory->data());
      own.push_back(std::move(memory).value());
    }
    return {};
  });
  DeviceRecord ownRecord;
  DeviceRecord &record = meeting ? meeting->next() : ownRecord;
  record.purpose = DevicePurpose::Grow;
  record.sizeBytes = sizeBytes;
  Result<MappedWindow> mapped = mapAll(record, bases, status);
  if (!mapped.isOk())
    return mapped.status();
  heap.add(std::move(mapped).value(), std::move(own));
  return {};
}

/// `isMapped`: peers have addresses of their own.
Status DeviceState::checkWindow(std::span<void *const> memory, size_t sizeBytes, bool isMapped) const {
  if (memory.size() != locals.size())
    return error(StatusCode::InvalidArgument, "{} ranks are here, and the window has memory of {}", locals.size(),
                 memory.size());
  if (sizeBytes == 0)
    return error(StatusCode::InvalidArgument, "a window cannot have 0 bytes");
  if (sizeBytes >> placeOffsetBits)
    return error(StatusCode::InvalidArgument, "a window cannot have {} bytes", sizeBytes);
  for (size_t local = 0; local < locals.size(); ++local)
    if (Status status = checkBuffer(locals[local], memory[local], sizeBytes, "window",
                                    isMapped ? Access::ByPeersAsMapped : Access::ByPeers);
        !status.isOk())
      return status;
  auto begin = reinterpret_cast<uintptr_t>(memory.front());
  auto next = windows.lower_bound(begin);
  bool isTaken = windowAt(memory.front()) || (next != windows.end() && next->first - begin < sizeBytes);
  return isTaken ? error(StatusCode::InvalidArgument, "a window of {} bytes at {} overlaps another window", sizeBytes,
                         memory.front())
                 : Status();
}

Status DeviceState::registerWindow(std::span<void *const> memory, size_t sizeBytes, std::span<void *const> addresses) {
  if (Status status = query(); !status.isOk())
    return status;
  DeviceRecord ownRecord;
  DeviceRecord &record = meeting ? meeting->next() : ownRecord;
  record.purpose = DevicePurpose::Register;
  record.sizeBytes = sizeBytes;
  Status own = guarded([&] { return checkWindow(memory, sizeBytes, !addresses.empty()); });
  Result<MappedWindow> mapped = mapAll(record, memory, own, addresses);
  if (!mapped.isOk())
    return mapped.status();
  windows.emplace(reinterpret_cast<uintptr_t>(memory.front()), Window{++numWindows, std::move(mapped).value()});
  return {};
}

Result<std::map<uintptr_t, DeviceState::Window>::iterator> DeviceState::findWindowAt(std::span<void *const> memory) {
  auto found =
      memory.size() == locals.size() ? windows.find(reinterpret_cast<uintptr_t>(memory.front())) : windows.end();
  if (found == windows.end())
    return error(StatusCode::InvalidArgument, "no window begins at {}", memory.empty() ? nullptr : memory.front());
  return found;
}

Status DeviceState::forgetWindow(std::span<void *const> memory) {
  auto found = findWindowAt(memory);
  Status status = found.isOk() ? waitForLaunches() : found.status();
  if (status.isOk())
    windows.erase(*found);
  return status;
}

Status DeviceState::deregisterWindow(std::span<void *const> memory) {
  if (Status status = query(); !status.isOk())
    return status;
  auto found = findWindowAt(memory);
  const Status &own = found.status();
  if (Status status = own.isOk() ? waitForLaunches() : own; !status.isOk() && (!meeting || failure))
    return status;
  const uint64_t number = own.isOk() ? (*found)->second.number : 0;
  if (meeting) {
    DeviceRecord &record = meeting->next();
    record.purpose = DevicePurpose::Deregister;
    record.window = number;
    if (Status status = exchange(record, own); !status.isOk())
      return status;
    for (int peer = 1; peer < numRanks; ++peer)
      if (meeting->heard(peer).window != meeting->heard(0).window)
        return rankError(StatusCode::Mismatch, peer,
                         "ranks disagree on the window to deregister: rank 0 names window {}, rank {} window {}",
                         meeting->heard(0).window, peer, meeting->heard(peer).window);
  }
  windows.erase(*found);
  if (!meeting)
    return {};
  DeviceRecord &confirmation = meeting->next(); // that this rank has unmapped
  confirmation.purpose = DevicePurpose::Deregister;
  return exchange(confirmation, {});
}

/// The number of the window that an address is in; 0: none.
uint64_t DeviceState::windowAt(const void *address) const {
  auto after = windows.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (after == windows.begin())
    return 0;
  const auto &[begin, window] = *std::prev(after);
  return reinterpret_cast<uintptr_t>(address) - begin < window.sizeBytes() ? window.number : 0;
}

const DeviceState::Window *DeviceState::findWindow(uint64_t number) const {
  for (const auto &[begin, window] : windows)
    if (window.number == number)
      return &window;
  return nullptr;
}

DevicePlace DeviceState::placeOf(uint64_t window, const void *address) const {
  const void *begin = findWindow(window)->mapped.bases[static_cast<size_t>(locals.front().rank)];
  return placeAt(
      window, static_cast<uint64_t>(static_cast<const std::byte *>(address) - static_cast<const std::byte *>(begin)));
}

} // namespace kolo::runtime
