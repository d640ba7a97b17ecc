// Makes a DeviceState: opens the devices of its ranks, and exchanges them with ranks elsewhere.
#include "device/DeviceState.h"

#include "base/Environment.h"
#include "base/Error.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace kolo::runtime {
namespace {

/// Replaces options by environment variables. InvalidArgument: a value is out of range.
Status settleOptions(DeviceOptions &options) {
  Result<Settings> settings = readSettings({.timeoutMs = options.timeoutMs, .lanes = options.lanes});
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

Status compareOptions(const DeviceMeeting &meeting) {
  const DeviceRecord &first = meeting.heard(0);
  auto number = [](int32_t value) { return static_cast<uint64_t>(value); };
  for (int peer = 1; peer < meeting.size(); ++peer) {
    const DeviceRecord &other = meeting.heard(peer);
    const struct {
      const char *name;
      uint64_t first, other;
    } fields[] = {{"internalBytes", first.internalBytes, other.internalBytes},
                  {"lanes", number(first.lanes), number(other.lanes)},
                  {"threads", number(first.threads), number(other.threads)},
                  {"kind", number(first.kind), number(other.kind)}};
    for (const auto &field : fields)
      if (field.first != field.other)
        return rankError(StatusCode::Mismatch, peer, "ranks disagree on {} of devices: rank 0 has {}, rank {} has {}",
                         field.name, field.first, peer, field.other);
  }
  return {};
}

} // namespace

/// `ownRanks` are those of this process, and `ordinals` their devices.
Status DeviceState::open(std::span<const int> ordinals, std::span<const int> ownRanks) {
  if (Status status = settleOptions(options); !status.isOk())
    return status;
  rankNumbers.assign(ownRanks.begin(), ownRanks.end());
  for (size_t index = 0; index < ordinals.size(); ++index) {
    auto found = std::ranges::find(devices, ordinals[index], [](const auto &device) { return device->ordinal(); });
    auto number = static_cast<size_t>(found - devices.begin());
    if (found == devices.end()) {
      Result<std::shared_ptr<OpenDevice>> device = OpenDevice::open(options.kind, ordinals[index]);
      if (!device.isOk())
        return device.status();
      devices.push_back(std::move(device).value());
      ranksOnDevice.push_back(0);
      events.emplace_back();
    }
    LocalRank &local = locals.emplace_back();
    local.rank = ownRanks[index];
    local.device = number;
    local.position = static_cast<size_t>(ranksOnDevice[number]++);
    if (Status status = addEvent(number); !status.isOk())
      return status;
  }
  Result<DeviceMemory> flag = DeviceMemory::allocate(devices.front(), KOLO_MEMORY_HOST, sizeof(uint64_t));
  if (!flag.isOk())
    return flag.status();
  abortFlag = std::move(flag).value();
  return connect(devices);
}

Status DeviceState::addEvent(size_t device) {
  Result<DeviceEvent> made = DeviceEvent::create(devices[device]);
  if (!made.isOk())
    return made.status();
  events[device].push_back(std::make_shared<const DeviceEvent>(std::move(made).value()));
  return {};
}

Result<std::unique_ptr<DeviceState>> DeviceState::createLocal(std::span<const int> ordinals,
                                                              const DeviceOptions &options) {
  if (ordinals.empty() || ordinals.size() > static_cast<size_t>(maxRanks))
    return error(StatusCode::InvalidArgument, "a communicator has between 1 and {} ranks, not {}", maxRanks,
                 ordinals.size());
  std::unique_ptr<DeviceState> state(new DeviceState(options, static_cast<int>(ordinals.size())));
  std::vector<int> numbers(ordinals.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  if (Status status = state->open(ordinals, numbers); !status.isOk())
    return status;
  for (const LocalRank &local : state->locals)
    state->deviceOfRank.push_back(std::to_array(state->devices[local.device]->description().uuid));
  return state;
}

Result<std::unique_ptr<DeviceState>> DeviceState::join(Communicator host, int device, const DeviceOptions &options) {
  Result<DeviceMeeting> meeting = DeviceMeeting::create(std::move(host));
  if (!meeting.isOk())
    return meeting.status();
  std::unique_ptr<DeviceState> state(new DeviceState(options, meeting->size()));
  const int rank = meeting->rank();
  state->meeting.emplace(std::move(meeting).value());
  Status own = state->open({&device, 1}, {&rank, 1});
  DeviceDescriptors descriptors;
  if (own.isOk()) {
    Result<DeviceDescriptors> made = DeviceDescriptors::create();
    own = made.status();
    if (made.isOk())
      descriptors = std::move(made).value();
  }
  DeviceRecord &record = state->meeting->next();
  if (own.isOk()) {
    const OpenDevice &opened = *state->devices.front();
    record.pid = getpid();
    record.device = device;
    record.lanes = options.lanes;
    record.threads = options.threads;
    record.internalBytes = options.internalBytes;
    record.kind = static_cast<int32_t>(options.kind);
    record.descriptors = descriptors.name();
    std::copy_n(opened.description().uuid, sizeof(record.uuid), record.uuid);
  }
  if (Status status = state->exchange(record, own); !status.isOk())
    return status;
  if (Status status = state->agreeOnOptions(std::move(descriptors)); !status.isOk())
    return status;
  if (Status status = state->makeStaging(); !status.isOk())
    return status;
  return state;
}

Status DeviceState::agreeOnOptions(DeviceDescriptors descriptors) {
  if (Status status = compareOptions(*meeting); !status.isOk())
    return status;
  const OpenDevice &own = *devices.front();
  std::vector<DevicePeers::Peer> byRank;
  Status connected;
  ranksOnDevice.front() = 0;
  for (int peer = 0; peer < numRanks; ++peer) {
    const DeviceRecord &record = meeting->heard(peer);
    bool isHere = record.pid == getpid();
    bool isOnDevice = std::equal(record.uuid, record.uuid + sizeof(record.uuid), own.description().uuid);
    byRank.push_back({isHere ? -1 : record.pid, record.descriptors});
    deviceOfRank.push_back(std::to_array(record.uuid));
    ranksOnDevice.front() += isOnDevice;
    ranksHere += isOnDevice && isHere;
    if (isHere && record.device != own.ordinal() && connected.isOk()) {
      connected = own.status(own.driver().enablePeer(own.ordinal(), record.device),
                             fmt::format("reaching device {}", record.device));
      peerDevices.push_back(record.device);
    }
  }
  peers.emplace(devices.front(), meeting->rank(), std::move(descriptors), std::move(byRank));
  if (connected.isOk())
    connected = checkQueues();
  return exchange(meeting->next(), connected);
}

/// Ranks of one process in several threads: what waits in the stream of one must not keep the others waiting, nor the
/// copies that a call begins with.
Status DeviceState::checkQueues() const {
  const OpenDevice &own = *devices.front();
  if (ranksHere == 1 || ranksHere < own.description().numQueues)
    return {};
  return error(StatusCode::InvalidArgument,
               "{} ranks of this process on device {} need {} hardware queues, and it has {}: set {}", ranksHere,
               own.ordinal(), ranksHere + 1, own.description().numQueues, queuesVariable());
}

/// By which the driver gives a device more hardware queues.
const char *DeviceState::queuesVariable() const {
  return options.kind == DeviceKind::Cuda ? "CUDA_DEVICE_MAX_CONNECTIONS" : "GPU_MAX_HW_QUEUES";
}

/// The first internal window: half of it stages the input and the output of a piece, for two turns.
Status DeviceState::makeStaging() {
  if (Status status = growHeap(options.internalBytes); !status.isOk())
    return status;
  const size_t part = options.internalBytes / 8;
  const size_t sizes[] = {part, part, part, part};
  std::vector<HeapBlock> blocks = heap.take(sizes).value();
  std::copy_n(blocks.begin(), 2, stagedInput);
  std::copy_n(blocks.begin() + 2, 2, stagedOutput);
  return {};
}

/// When a call first has pieces. Without a queue for each of its streams, a rank would keep its own copies waiting, or
/// other ranks: pieces follow each other in the caller's stream then.
Status DeviceState::openSideStreams() {
  const std::shared_ptr<OpenDevice> &device = devices.front();
  constexpr int perRank = 3, forCopies = 1;
  if (side.in || ranksHere * perRank + forCopies > device->description().numQueues)
    return {};
  for (DeviceEvent *event : {&side.begun, &side.copiedIn[0], &side.copiedIn[1], &side.ran[0], &side.ran[1],
                             &side.copiedOut[0], &side.copiedOut[1]}) {
    Result<DeviceEvent> made = DeviceEvent::create(device);
    if (!made.isOk())
      return made.status();
    *event = std::move(made).value();
  }
  for (void **stream : {&side.out, &side.in})
    if (Status status = device->status(device->driver().createStream(device->ordinal(), stream), "making a stream");
        !status.isOk())
      return status;
  return {};
}

std::shared_ptr<OpenDevice> DeviceState::deviceOf(int rank) const {
  for (const LocalRank &local : locals)
    if (local.rank == rank)
      return devices[local.device];
  return nullptr;
}

} // namespace kolo::runtime
