// Makes a DeviceState: opens the devices of its ranks, and exchanges them with ranks elsewhere.
#include "device/DeviceState.h"

#include "base/Environment.h"
#include "base/Error.h"
#include "bootstrap/Rendezvous.h"
#include "network/NetworkChoice.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace kolo::runtime {
namespace {

/// Replaces options by environment variables. InvalidArgument: a value is out of range.
Status settleOptions(DeviceOptions &options) {
  Result<Settings> settings =
      readSettings({.timeoutMs = options.timeoutMs, .lanes = options.lanes ? options.lanes : defaultLanes});
  if (!settings.isOk())
    return settings.status();
  options.timeoutMs = settings->timeoutMs;
  if (options.threads < 64 || options.threads > KOLO_DEVICE_MAX_THREADS || options.threads % 64 != 0)
    return error(StatusCode::InvalidArgument, "threads must be a multiple of 64 between 64 and {}, not {}",
                 KOLO_DEVICE_MAX_THREADS, options.threads);
  constexpr size_t leastInternal = size_t(64) << 10;
  if (options.internalBytes < leastInternal)
    return error(StatusCode::InvalidArgument, "internalBytes must be at least {}, not {}", leastInternal,
                 options.internalBytes);
  return {};
}

/// Lets kernels on every device access memory of every other.
Status connect(std::span<const std::shared_ptr<OpenDevice>> devices) {
  for (const auto &device : devices)
    for (const auto &peer : devices)
      if (device != peer) {
        int32_t code = device->driver().enablePeer(device->ordinal(), peer->ordinal());
        if (Status status = device->status(code, fmt::format("reaching device {}", peer->ordinal())); !status.isOk())
          return status;
      }
  return {};
}

/// Of what all ranks said when they joined.
Status compareSettings(const DeviceSummary &said) {
  if (!said.has(DeviceKept::OtherSettings))
    return {};
  const int peer = said.rankOf(DeviceKept::OtherSettings);
  const DeviceSettings &first = said.first().settings, &other = said.termsOf(DeviceKept::OtherSettings).settings;
  if (first.memory != other.memory)
    return rankError(StatusCode::Mismatch, peer, "ranks disagree on KOLO_NETWORK_MEMORY: rank 0 has {}, rank {} has {}",
                     toString(static_cast<NetworkMemory>(first.memory)), peer,
                     toString(static_cast<NetworkMemory>(other.memory)));
  auto number = [](int32_t value) { return static_cast<uint64_t>(value); };
  const struct {
    const char *name;
    uint64_t first, other;
  } fields[] = {{"internalBytes", first.internalBytes, other.internalBytes},
                {"lanes", number(first.lanes), number(other.lanes)},
                {"threads", number(first.threads), number(other.threads)},
                {"kind", number(first.kind), number(other.kind)}};
  const auto &field = *std::ranges::find_if(fields, [](const auto &each) { return each.first != each.other; });
  return rankError(StatusCode::Mismatch, peer, "ranks disagree on {} of devices: rank 0 has {}, rank {} has {}",
                   field.name, field.first, peer, field.other);
}

/// What KOLO_NETWORK_MEMORY asks for, and whether this rank's network reaches its device. Errors of tryNetwork, if it
/// must.
Status reachDevice(DeviceRanks &ranks, NetworkMemory &memory) {
  Result<NetworkMemory> asked = readNetworkMemory();
  if (!asked.isOk())
    return asked.status();
  memory = *asked;
  if (!ranks.areOnHosts() || memory == NetworkMemory::Host)
    return {};
  const OpenDevice &own = *ranks.devices.front();
  Result<ShownBy> shown = tryNetwork(ranks.meeting->peers().transport(), ranks.devices.front());
  if (shown.isOk())
    ranks.shownBy = *shown;
  else
    ranks.whyOnHosts = shown.status().message();
  return shown.isOk() || memory == NetworkMemory::Auto
             ? Status()
             : error(shown.status().code(), "KOLO_NETWORK_MEMORY=device: {} device {}: {}", own.driver().kind,
                     own.ordinal(), shown.status().message());
}

/// Inboxes and outboxes are in memory of devices if the networks of all ranks reach their devices.
void agreeOnMemory(DeviceRanks &ranks) {
  const int unreached = ranks.meeting->said().unreached();
  if (!ranks.shownBy || unreached < 0)
    return;
  ranks.shownBy.reset();
  ranks.whyOnHosts = fmt::format("the network of rank {} does not reach its device", unreached);
}

/// Ranks of one process in several threads: what waits in the stream of one must not keep the others waiting, nor the
/// copies that a call begins with.
Status checkQueues(const DeviceRanks &ranks) {
  const OpenDevice &own = *ranks.devices.front();
  if (ranks.ranksOnOwn == 1 || ranks.ranksOnOwn < own.description().numQueues)
    return {};
  return error(StatusCode::InvalidArgument,
               "{} ranks of this process on device {} need {} hardware queues, and it has {}: set {}", ranks.ranksOnOwn,
               own.ordinal(), ranks.ranksOnOwn + 1, own.description().numQueues, ranks.queuesVariable());
}

} // namespace

Status openDevices(DeviceRanks &ranks, std::span<const int> ordinals, std::span<const int> ownRanks) {
  if (Status status = settleOptions(ranks.options); !status.isOk())
    return status;
  ranks.numbers.assign(ownRanks.begin(), ownRanks.end());
  for (size_t index = 0; index < ordinals.size(); ++index) {
    auto found =
        std::ranges::find(ranks.devices, ordinals[index], [](const auto &device) { return device->ordinal(); });
    auto number = static_cast<size_t>(found - ranks.devices.begin());
    if (found == ranks.devices.end()) {
      Result<std::shared_ptr<OpenDevice>> device = OpenDevice::open(ranks.options.kind, ordinals[index]);
      if (!device.isOk())
        return device.status();
      ranks.devices.push_back(std::move(device).value());
      ranks.ranksOnDevice.push_back(0);
    }
    ranks.locals.push_back({ownRanks[index], number, static_cast<size_t>(ranks.ranksOnDevice[number]++)});
  }
  return {};
}

const char *DeviceRanks::queuesVariable() const {
  return options.kind == DeviceKind::Cuda ? "CUDA_DEVICE_MAX_CONNECTIONS" : "GPU_MAX_HW_QUEUES";
}

std::vector<int> DeviceRanks::ranksHere() const {
  if (meeting)
    return meeting->hosts().ranksHere();
  std::vector<int> numbers(static_cast<size_t>(size));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

size_t DeviceRanks::mostRanksOfHost() const {
  if (!meeting)
    return static_cast<size_t>(size);
  size_t most = 0;
  for (int host = 0; host < meeting->hosts().number(); ++host)
    most = std::max(most, meeting->hosts().ranksOf(host).size());
  return most;
}

int DeviceRanks::lanesOf(int ofTable) const {
  if (options.lanes)
    return options.lanes;
  return ofTable ? std::min(ofTable, mostTableLanes) : defaultLanes;
}

std::shared_ptr<OpenDevice> DeviceRanks::deviceOf(int rank) const {
  for (const LocalRank &local : locals)
    if (local.rank == rank)
      return devices[local.device];
  return nullptr;
}

Status DeviceState::open(std::span<const int> ordinals, std::span<const int> ownRanks) {
  if (Status status = openDevices(all, ordinals, ownRanks); !status.isOk())
    return status;
  if (Status status = launches.open(); !status.isOk())
    return status;
  if (Status status = watch.open(); !status.isOk())
    return status;
  return connect(all.devices);
}

Result<std::unique_ptr<DeviceState>> DeviceState::createLocal(std::span<const int> ordinals,
                                                              const DeviceOptions &options) {
  if (ordinals.empty() || ordinals.size() > static_cast<size_t>(maxRanksOfHost))
    return error(StatusCode::InvalidArgument, "a communicator has between 1 and {} ranks, not {}", maxRanksOfHost,
                 ordinals.size());
  std::unique_ptr<DeviceState> state(new DeviceState(options, static_cast<int>(ordinals.size())));
  std::vector<int> numbers(ordinals.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  if (Status status = state->open(ordinals, numbers); !status.isOk())
    return status;
  for (const LocalRank &local : state->all.locals)
    state->all.deviceOfRank.push_back(std::to_array(state->all.devices[local.device]->description().uuid));
  return state;
}

Result<std::unique_ptr<DeviceState>> DeviceState::join(Communicator host, int device, const DeviceOptions &options) {
  Result<DeviceMeeting> meeting = DeviceMeeting::create(std::move(host));
  if (!meeting.isOk())
    return meeting.status();
  std::unique_ptr<DeviceState> state(new DeviceState(options, meeting->size()));
  const int rank = meeting->rank();
  state->all.meeting.emplace(std::move(meeting).value());
  Status own = state->open({&device, 1}, {&rank, 1});
  NetworkMemory memory = NetworkMemory::Host;
  if (own.isOk())
    own = reachDevice(state->all, memory);
  DeviceDescriptors descriptors;
  if (own.isOk()) {
    Result<DeviceDescriptors> made = DeviceDescriptors::create();
    own = made.status();
    if (made.isOk())
      descriptors = std::move(made).value();
  }
  DeviceRecord &record = state->all.meeting->next();
  if (own.isOk()) {
    const OpenDevice &opened = *state->all.devices.front();
    record.pid = getpid();
    record.device = device;
    record.settings = {static_cast<int32_t>(memory), options.lanes, options.threads, static_cast<int32_t>(options.kind),
                       options.internalBytes};
    record.isReached = state->all.shownBy.has_value();
    record.mayShareMachine = !isNamedByMachine();
    record.descriptors = descriptors.name();
    record.uuid = std::to_array(opened.description().uuid);
  }
  if (Status status = state->watch.exchange(record, own); !status.isOk())
    return status;
  state->haveAllOpened = true;
  if (Status status = state->connectPeers(std::move(descriptors)); !status.isOk())
    return status;
  if (Status status = state->resources.makeStaging(); !status.isOk())
    return status;
  return state;
}

Status DeviceState::connectPeers(DeviceDescriptors descriptors) {
  if (Status status = compareSettings(all.meeting->said()); !status.isOk())
    return status;
  agreeOnMemory(all);
  const OpenDevice &own = *all.devices.front();
  const DeviceId ownId = std::to_array(own.description().uuid);
  std::vector<DevicePeers::Peer> byPlace;
  Status connected;
  all.ranksOnDevice.front() = 0;
  for (int peer : all.ranksHere()) {
    const DeviceRecord &record = all.meeting->heard(peer);
    const bool isHere = record.pid == getpid(), isOnDevice = record.uuid == ownId;
    byPlace.push_back({peer, isHere ? -1 : record.pid, record.descriptors});
    all.deviceOfRank.push_back(record.uuid);
    all.ranksOnDevice.front() += isOnDevice;
    all.ranksOnOwn += isOnDevice && isHere;
    if (isHere && record.device != own.ordinal() && connected.isOk()) {
      connected = own.status(own.driver().enablePeer(own.ordinal(), record.device),
                             fmt::format("reaching device {}", record.device));
      all.peerDevices.push_back(record.device);
    }
  }
  Result<int> elsewhere = all.meeting->ranksElsewhereOn(ownId);
  if (!elsewhere.isOk())
    return watch.fail(elsewhere.status());
  all.ranksOnDevice.front() += *elsewhere;
  windows.setPeers(DevicePeers(all.devices.front(), all.meeting->rank(), std::move(descriptors), std::move(byPlace)));
  if (connected.isOk())
    connected = checkQueues(all);
  return watch.exchange(all.meeting->next(), connected);
}

} // namespace kolo::runtime
