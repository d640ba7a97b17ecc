// DeviceCommunicator, DeviceBuffer and DeviceStream: the public interface of DeviceState.
#include "device/DeviceState.h"

#include "base/Error.h"
#include "device/DeviceChecks.h"

#include <algorithm>
#include <array>

namespace kolo::runtime {

Result<int> countDevices(DeviceKind kind) {
  return guarded([&]() -> Result<int> {
    Result<const KoloDeviceDriver *> driver = openDriver(kind);
    if (!driver.isOk())
      return driver.status();
    int32_t number = 0;
    if ((*driver)->countDevices(&number) != KOLO_DRIVER_OK)
      return error(StatusCode::DeviceError, "{}", (*driver)->lastError());
    return static_cast<int>(number);
  });
}

Result<DeviceInfo> describeDevice(DeviceKind kind, int device) {
  return guarded([&]() -> Result<DeviceInfo> {
    Result<std::shared_ptr<OpenDevice>> opened = OpenDevice::open(kind, device);
    if (!opened.isOk())
      return opened.status();
    const KoloDriverDevice &known = (*opened)->description();
    std::string architecture = known.architecture;
    architecture.resize(std::min(architecture.find(':'), architecture.size())); // drop features that code need not use
    return DeviceInfo{known.name, architecture, known.memoryBytes};
  });
}

DeviceCommunicator::DeviceCommunicator(std::unique_ptr<DeviceState> made) : state(std::move(made)) {}
DeviceCommunicator::DeviceCommunicator(DeviceCommunicator &&) noexcept = default;
DeviceCommunicator &DeviceCommunicator::operator=(DeviceCommunicator &&) noexcept = default;
DeviceCommunicator::~DeviceCommunicator() = default;

Result<DeviceCommunicator> DeviceCommunicator::createLocal(std::span<const int> devices, const DeviceOptions &options) {
  return guarded([&]() -> Result<DeviceCommunicator> {
    Result<std::unique_ptr<DeviceState>> made = DeviceState::createLocal(devices, options);
    if (!made.isOk())
      return made.status();
    return DeviceCommunicator(std::move(made).value());
  });
}

Result<DeviceCommunicator> DeviceCommunicator::create(Communicator host, int device, const DeviceOptions &options) {
  return guarded([&]() -> Result<DeviceCommunicator> {
    Result<std::unique_ptr<DeviceState>> made = DeviceState::join(std::move(host), device, options);
    if (!made.isOk())
      return made.status();
    return DeviceCommunicator(std::move(made).value());
  });
}

int DeviceCommunicator::size() const { return state->ranks().size; }
const std::vector<int> &DeviceCommunicator::ranks() const { return state->ranks().numbers; }

Result<DeviceBuffer> DeviceCommunicator::allocate(int rank, size_t sizeBytes, DeviceMemoryKind kind) {
  return guarded([&]() -> Result<DeviceBuffer> {
    std::shared_ptr<OpenDevice> device = state->ranks().deviceOf(rank);
    if (!device)
      return error(StatusCode::InvalidArgument, "rank {} is not in this process", rank);
    if (sizeBytes == 0)
      return error(StatusCode::InvalidArgument, "a buffer cannot have 0 bytes");
    bool isVirtual = kind == DeviceMemoryKind::Virtual;
    if (isVirtual && !device->description().hasVirtualMemory)
      return error(StatusCode::DeviceError, "device {} has no virtual memory interface", device->ordinal());
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(device, isVirtual ? KOLO_MEMORY_VIRTUAL : KOLO_MEMORY_SHARED, sizeBytes);
    if (!memory.isOk())
      return memory.status();
    return DeviceBuffer(std::make_unique<DeviceBufferState>(DeviceBufferState{std::move(memory).value()}));
  });
}

Status DeviceCommunicator::run(const Plugin &plugin, const CallArguments &arguments,
                               std::span<const RankBuffers> buffers, std::span<const StreamHandle> streams) {
  return guarded([&] { return state->run(plugin.state, arguments, buffers, streams); });
}

Status DeviceCommunicator::run(const Plugin &plugin, const CallArguments &arguments, StreamHandle stream) {
  RankBuffers buffers = {arguments.input, arguments.output, arguments.blocks};
  return guarded([&] { return state->run(plugin.state, arguments, {&buffers, 1}, {&stream, 1}); });
}

Status DeviceCommunicator::registerWindow(std::span<void *const> memory, size_t sizeBytes) {
  return guarded([&] { return state->registerWindow(memory, sizeBytes, {}); });
}
Status DeviceCommunicator::deregisterWindow(std::span<void *const> memory) {
  return guarded([&] { return state->deregisterWindow(memory); });
}
Status DeviceCommunicator::registerMappedWindow(std::span<void *const> addresses, size_t sizeBytes) {
  return guarded([&]() -> Status {
    if (ranks().size() != 1 || addresses.size() != static_cast<size_t>(size()))
      return error(StatusCode::InvalidArgument, "{} of {} ranks are here, and there are addresses of {}",
                   ranks().size(), size(), addresses.size());
    return state->registerWindow(addresses.subspan(static_cast<size_t>(ranks().front()), 1), sizeBytes, addresses);
  });
}
Status DeviceCommunicator::forgetWindow(std::span<void *const> memory) {
  return guarded([&] { return state->forgetWindow(memory); });
}
Status DeviceCommunicator::carries(const Plugin &plugin, const CallArguments &arguments) const {
  return guarded([&] { return checkProgram(*plugin.state, arguments, state->ranks()); });
}
std::vector<Mesh> DeviceCommunicator::meshes() const {
  if (const std::optional<DeviceMeeting> &meeting = state->ranks().meeting)
    return meeting->meshes();
  return {Mesh::create({{"rank", size()}}).value()}; // a communicator has a rank
}
std::string DeviceCommunicator::networkMemory() const {
  const DeviceRanks &ranks = state->ranks();
  if (!ranks.areOnHosts())
    return "";
  if (ranks.shownBy)
    return "memory of the devices";
  return "memory of the hosts" + (ranks.whyOnHosts.empty() ? "" : ": " + ranks.whyOnHosts);
}
Result<uint64_t> DeviceCommunicator::windowOf(const void *memory, size_t sizeBytes) const {
  return guarded([&] { return state->windowOf(memory, sizeBytes); });
}
MemoryKind DeviceCommunicator::memoryFor(CollectiveKind collective, std::span<const RankBuffers> buffers) const {
  return state->memoryFor(collective, buffers);
}

Status DeviceCommunicator::query() {
  return guarded([&] { return state->query(); });
}
Status DeviceCommunicator::synchronize() {
  return guarded([&] { return state->synchronize(); });
}
void DeviceCommunicator::abort() {
  (void)guarded([&] {
    state->abort();
    return Status();
  });
}

DeviceBuffer::DeviceBuffer(std::unique_ptr<DeviceBufferState> made) : state(std::move(made)) {}
DeviceBuffer::DeviceBuffer(DeviceBuffer &&) noexcept = default;
DeviceBuffer &DeviceBuffer::operator=(DeviceBuffer &&) noexcept = default;
DeviceBuffer::~DeviceBuffer() = default;
void *DeviceBuffer::data() const { return state->memory.data(); }
size_t DeviceBuffer::sizeBytes() const { return state->memory.sizeBytes(); }

namespace {

Status checkInside(const DeviceMemory &memory, size_t offsetBytes, size_t numBytes) {
  if (offsetBytes <= memory.sizeBytes() && numBytes <= memory.sizeBytes() - offsetBytes)
    return {};
  return error(StatusCode::InvalidArgument, "{} bytes at {} are not inside a buffer of {}", numBytes, offsetBytes,
               memory.sizeBytes());
}

} // namespace

Status DeviceBuffer::write(size_t offsetBytes, const void *src, size_t numBytes) {
  return guarded([&] {
    Status status = checkInside(state->memory, offsetBytes, numBytes);
    return status.isOk() ? state->memory.device().copy(static_cast<std::byte *>(data()) + offsetBytes, src, numBytes)
                         : status;
  });
}

Status DeviceBuffer::read(size_t offsetBytes, void *dst, size_t numBytes) const {
  return guarded([&] {
    Status status = checkInside(state->memory, offsetBytes, numBytes);
    return status.isOk() ? state->memory.device().copy(dst, static_cast<std::byte *>(data()) + offsetBytes, numBytes)
                         : status;
  });
}

struct DeviceStream::State {
  std::shared_ptr<OpenDevice> device;
  void *stream = nullptr;
  std::array<DeviceEvent, 2> marks;

  ~State() {
    if (stream)
      (void)device->driver().destroyStream(device->ordinal(), stream);
  }
};

Result<DeviceStream> DeviceCommunicator::createStream(int rank) {
  return guarded([&]() -> Result<DeviceStream> {
    auto made = std::make_unique<DeviceStream::State>();
    made->device = state->ranks().deviceOf(rank);
    if (!made->device)
      return error(StatusCode::InvalidArgument, "rank {} is not in this process", rank);
    const OpenDevice &device = *made->device;
    if (Status status = device.status(device.driver().createStream(device.ordinal(), &made->stream), "making a stream");
        !status.isOk())
      return status;
    for (DeviceEvent &mark : made->marks) {
      Result<DeviceEvent> event = DeviceEvent::create(made->device, DeviceEvent::Timing::Timed);
      if (!event.isOk())
        return event.status();
      mark = std::move(event).value();
    }
    return DeviceStream(std::move(made));
  });
}

DeviceStream::DeviceStream(std::unique_ptr<State> made) : state(std::move(made)) {}
DeviceStream::DeviceStream(DeviceStream &&) noexcept = default;
DeviceStream &DeviceStream::operator=(DeviceStream &&) noexcept = default;
DeviceStream::~DeviceStream() = default;
StreamHandle DeviceStream::handle() const { return state->stream; }

static Status checkMark(int number) {
  return number == 0 || number == 1 ? Status()
                                    : error(StatusCode::InvalidArgument, "a stream has marks 0 and 1, not {}", number);
}

Status DeviceStream::mark(int number) {
  return guarded([&]() -> Status {
    Status status = checkMark(number);
    return status.isOk() ? state->marks[static_cast<size_t>(number)].record(state->stream) : status;
  });
}

Result<bool> DeviceStream::hasReached(int number) const {
  return guarded([&]() -> Result<bool> {
    if (Status status = checkMark(number); !status.isOk())
      return status;
    return state->marks[static_cast<size_t>(number)].isDone();
  });
}

Result<double> DeviceStream::elapsedMicroseconds() {
  return guarded([&]() -> Result<double> {
    for (const DeviceEvent &mark : state->marks)
      for (int64_t turn = 0;; ++turn) {
        Result<bool> isDone = mark.isDone();
        if (!isDone.isOk())
          return isDone.status();
        if (*isDone)
          break;
        pauseBetweenLooks(turn);
      }
    const OpenDevice &device = *state->device;
    float milliseconds = 0;
    Status status = device.status(
        device.driver().elapsed(device.ordinal(), state->marks[0].handle(), state->marks[1].handle(), &milliseconds),
        "reading the time");
    if (!status.isOk())
      return status;
    return static_cast<double>(milliseconds) * 1000;
  });
}

} // namespace kolo::runtime
