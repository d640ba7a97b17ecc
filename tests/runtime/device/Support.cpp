#include "device/Support.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace kolo::test {
namespace {

/// Before anything asks for a device.
const int isChosen = setenv("KOLO_CUDA_DRIVER", KOLO_TEST_STANDIN, 0);

DeviceBuffer allocate(DeviceCommunicator &communicator, int rank, size_t sizeBytes, DeviceMemoryKind kind) {
  Result<DeviceBuffer> buffer = communicator.allocate(rank, std::max<size_t>(sizeBytes, 4), kind);
  if (!buffer.isOk())
    throw std::runtime_error(buffer.status().message());
  return std::move(buffer).value();
}

} // namespace

void *driverFunction(const char *symbol) {
  static void *library = dlopen(std::getenv("KOLO_CUDA_DRIVER"), RTLD_NOW);
  void *function = library ? dlsym(library, symbol) : nullptr;
  if (!function)
    throw std::runtime_error(std::string("no ") + symbol);
  return function;
}

const KoloDeviceDriver &cudaLibrary() {
  void *library = dlopen(KOLO_TEST_CUDA, RTLD_NOW | RTLD_LOCAL);
  auto *entry = library ? reinterpret_cast<KoloDeviceDriverEntry>(dlsym(library, KOLO_DEVICE_DRIVER_SYMBOL)) : nullptr;
  if (!entry)
    throw std::runtime_error(std::string("no ") + KOLO_TEST_CUDA);
  const KoloDeviceDriver &driver = *entry();
  if (driver.open(std::getenv("KOLO_CUDA_DRIVER"), std::getenv("KOLO_NVML")) != KOLO_DRIVER_OK)
    throw std::runtime_error(driver.lastError());
  return driver;
}

int64_t liveHandles() { return driverFunction<int64_t()>("standInLive")(); }
int64_t moduleLoads() { return driverFunction<int64_t()>("standInModuleLoads")(); }
int64_t numLaunches() { return driverFunction<int64_t()>("standInLaunches")(); }
int64_t lastLanes() { return driverFunction<int64_t()>("standInLanes")(); }
int64_t numCopies() { return driverFunction<int64_t()>("standInCopies")(); }

const Plugin &devicePlugin() {
  static const auto plugin = Plugin::load(KOLO_TEST_DEVICE_PLUGIN);
  if (!plugin.isOk())
    throw std::runtime_error(plugin.status().message());
  return *plugin;
}

CallArguments Job::arguments() const {
  CallArguments call{program, *runtime::Mesh::parse("rank=" + std::to_string(numRanks)), count, DataType::I32};
  call.collective = collective;
  call.lanes = lanes;
  return call;
}

Rank::Rank(DeviceCommunicator &communicator, int rank, const Job &ofJob, DeviceMemoryKind kind, bool isInPlace)
    : job(ofJob), number(rank) {
  auto bytesOf = [](int64_t elements) { return static_cast<size_t>(elements) * sizeof(int32_t); };
  output = allocate(communicator, rank, bytesOf(job.outputElements()), kind);
  if (!isInPlace)
    input = allocate(communicator, rank, bytesOf(job.count), kind);
  else if (job.isGather())
    inputOffset = bytesOf(job.count * rank);
}

RankBuffers Rank::buffers() const {
  return {input ? input->data() : static_cast<std::byte *>(output->data()) + inputOffset, output->data()};
}

void Rank::fill(int turn) {
  std::vector<int32_t> poison(output->sizeBytes() / 4, -1), own;
  for (int64_t index = 0; index < job.count; ++index)
    own.push_back(elementOf(number, index, turn));
  EXPECT_EQ(output->write(0, poison.data(), poison.size() * 4).message(), "");
  Status status =
      input ? input->write(0, own.data(), own.size() * 4) : output->write(inputOffset, own.data(), own.size() * 4);
  EXPECT_EQ(status.message(), "");
}

std::string Rank::check(int turn) const {
  std::vector<int32_t> found(static_cast<size_t>(job.outputElements()));
  if (Status status = output->read(0, found.data(), found.size() * 4); !status.isOk())
    return status.message();
  for (int64_t index = 0; index < job.outputElements(); ++index) {
    int32_t wanted = 0;
    if (job.isGather())
      wanted = elementOf(static_cast<int>(index / job.count), index % job.count, turn);
    else
      for (int rank = 0; rank < job.numRanks; ++rank)
        wanted += elementOf(rank, index, turn);
    if (found[static_cast<size_t>(index)] != wanted)
      return "rank " + std::to_string(number) + ", element " + std::to_string(index) + " is " +
             std::to_string(found[static_cast<size_t>(index)]) + " and not " + std::to_string(wanted) + "; ";
  }
  return "";
}

LocalRanks::LocalRanks(const std::vector<int> &onDevices, const Job &ofJob, const DeviceOptions &options,
                       DeviceMemoryKind kind, bool isInPlace)
    : job(ofJob), devices(onDevices) {
  job.numRanks = static_cast<int>(devices.size());
  Result<DeviceCommunicator> made = DeviceCommunicator::createLocal(devices, options);
  if (!made.isOk())
    throw std::runtime_error(made.status().message());
  communicator.emplace(std::move(made).value());
  for (int rank : communicator->ranks()) {
    ranks.emplace_back(*communicator, rank, job, kind, isInPlace);
    streams.push_back(std::move(*communicator->createStream(rank)));
  }
}

Status LocalRanks::start(bool haveOwnStreams) {
  std::vector<RankBuffers> buffers;
  std::vector<StreamHandle> handles;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    size_t first = static_cast<size_t>(std::ranges::find(devices, devices[rank]) - devices.begin());
    buffers.push_back(ranks[rank].buffers());
    handles.push_back(streams[haveOwnStreams ? rank : first].handle());
  }
  return communicator->run(devicePlugin(), job.arguments(), buffers, handles);
}

std::string LocalRanks::run(int numCalls, bool haveOwnStreams) {
  for (int turn = 0; turn < numCalls; ++turn) {
    fill(turn);
    if (Status status = start(haveOwnStreams); !status.isOk())
      return status.message();
    if (Status status = communicator->synchronize(); !status.isOk())
      return status.message();
    if (std::string wrong = check(turn); !wrong.empty())
      return "call " + std::to_string(turn) + ": " + wrong;
  }
  return "";
}

void LocalRanks::fill(int turn) {
  for (Rank &rank : ranks)
    rank.fill(turn);
}

std::string LocalRanks::check(int turn) const {
  std::string wrong;
  for (const Rank &rank : ranks)
    wrong += rank.check(turn);
  return wrong;
}

} // namespace kolo::test
