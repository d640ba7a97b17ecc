// Makes a DeviceState: opens the devices of its ranks, and exchanges them with ranks elsewhere.
#include "device/DeviceState.h"

#include "Environment.h"
#include "Error.h"

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
  if (own.isOk())
    own = state->openSideStreams();
  DeviceRecord &record = state->meeting->next();
  if (own.isOk()) {
    const OpenDevice &opened = *state->devices.front();
    record.pid = getpid();
    record.device = device;
    record.lanes = options.lanes;
    record.threads = options.threads;
    record.internalBytes = options.internalBytes;
    record.kind = static_cast<int32_t>(options.kind);
    std::copy_n(opened.description().uuid, sizeof(record.uuid), record.uuid);
  }
  if (Status status = state->exchange(record, own); !status.isOk())
    return status;
  if (Status status = state->agreeOnOptions(); !status.isOk())
    return status;
  if (Status status = state->makeStaging(); !status.isOk())
    return status;
  return state;
}

Status DeviceState::agreeOnOptions() {
  if (Status status = compareOptions(*meeting); !status.isOk())
    return status;
  const OpenDevice &own = *devices.front();
  std::vector<int> processes;
  Status connected;
  ranksOnDevice.front() = 0;
  for (int peer = 0; peer < numRanks; ++peer) {
    const DeviceRecord &record = meeting->heard(peer);
    bool isHere = record.pid == getpid();
    processes.push_back(isHere ? -1 : record.pid);
    deviceOfRank.push_back(std::to_array(record.uuid));
    ranksOnDevice.front() += std::equal(record.uuid, record.uuid + sizeof(record.uuid), own.description().uuid);
    if (isHere && record.device != own.ordinal() && connected.isOk())
      connected = own.status(own.driver().enablePeer(own.ordinal(), record.device),
                             fmt::format("reaching device {}", record.device));
  }
  peers.emplace(devices.front());
  peers->setProcesses(std::move(processes));
  return exchange(meeting->next(), connected);
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

Status DeviceState::openSideStreams() {
  const std::shared_ptr<OpenDevice> &device = devices.front();
  for (void **stream : {&side.in, &side.out})
    if (Status status = device->status(device->driver().createStream(device->ordinal(), stream), "making a stream");
        !status.isOk())
      return status;
  for (DeviceEvent *event : {&side.begun, &side.copiedIn[0], &side.copiedIn[1], &side.ran[0], &side.ran[1],
                             &side.copiedOut[0], &side.copiedOut[1]}) {
    Result<DeviceEvent> made = DeviceEvent::create(device);
    if (!made.isOk())
      return made.status();
    *event = std::move(made).value();
  }
  return {};
}

std::shared_ptr<OpenDevice> DeviceState::deviceOf(int rank) const {
  for (const LocalRank &local : locals)
    if (local.rank == rank)
      return devices[local.device];
  return nullptr;
}

} // namespace kolo::runtime
