#include "ExecutedCall.h"

#include "../gpu/Coded.h"
#include "../gpu/Driver.h"

#include "kolo/runtime/DeviceAbi.h"

#include <algorithm>
#include <cstring>

namespace kolo::ptx {
using test::Bytes;

namespace {

constexpr size_t guardBytes = 64;

runtime::DeviceCommunicator makeCommunicator(const test::DeviceCall &call, const CallShape &shape) {
  std::vector<int> devices;
  for (int rank = 0; rank < call.mesh.numRanks(); ++rank)
    devices.push_back(rank / int(shape.ranksPerDevice));
  return test::valueOf(runtime::DeviceCommunicator::createLocal(
      devices, {.lanes = shape.lanes, .threads = shape.threads, .timeoutMs = shape.timeoutMs}));
}

std::vector<StandInMemory> listMemory() {
  auto list = test::driverFunction<int64_t(StandInMemory *, int64_t)>("standInListMemory");
  std::vector<StandInMemory> memories(size_t(list(nullptr, 0)));
  memories.resize(size_t(list(memories.data(), int64_t(memories.size()))));
  return memories;
}

} // namespace

ExecutedCall::ExecutedCall(const test::DeviceAlgorithm &ofAlgorithm, const test::DeviceCall &ofCall,
                           const CallShape &ofShape, std::optional<test::DeviceBlocks> ofCalls)
    : algorithm(ofAlgorithm), call(ofCall), shape(ofShape), blocks(std::move(ofCalls)),
      communicator(makeCommunicator(call, shape)) {
  makeBuffers();
  record();
  replaceText(ownText);
}

/// With room around them.
void ExecutedCall::makeBuffers() {
  auto make = [&](int rank, size_t sizeBytes, size_t elementsOff) {
    size_t offset = guardBytes + (shape.isAligned ? 0 : elementsOff * runtime::sizeBytes(call.type));
    auto memory = test::valueOf(communicator.allocate(rank, sizeBytes + offset + guardBytes));
    auto address = uint64_t(reinterpret_cast<uintptr_t>(memory.data())) + offset;
    return Buffer{std::move(memory), address, sizeBytes};
  };
  for (int rank = 0; rank < call.mesh.numRanks(); ++rank) {
    auto bytesOf = [&](size_t role, size_t whole) { return blocks ? blocks->sizeBytes(role, size_t(rank)) : whole; };
    inputs.push_back(make(rank, bytesOf(KOLO_INPUT, call.inputBytes()), size_t(rank % 5)));
    outputs.push_back(make(rank, bytesOf(KOLO_OUTPUT, call.outputBytes()), size_t((rank + 2) % 5)));
  }
}

void ExecutedCall::record() {
  std::vector<runtime::BlockTables> tables;
  for (size_t rank = 0; blocks && rank < inputs.size(); ++rank)
    tables.push_back(blocks->tablesOf(rank));
  std::vector<runtime::RankBuffers> buffers;
  std::vector<runtime::DeviceStream> streams;
  std::vector<runtime::StreamHandle> handles;
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    buffers.push_back({reinterpret_cast<const void *>(inputs[rank].address),
                       reinterpret_cast<void *>(outputs[rank].address), blocks ? &tables[rank] : nullptr});
    if (rank % shape.ranksPerDevice == 0)
      streams.push_back(test::valueOf(communicator.createStream(int(rank))));
    handles.push_back(streams.back().handle());
  }
  auto take = test::driverFunction<int64_t(StandInRecord *, int64_t)>("standInTakeRecords");
  std::vector<StandInRecord> records(inputs.size() + 1);
  take(records.data(), int64_t(records.size())); // of earlier calls
  test::expectOk(communicator.run(algorithm.plugin, test::argumentsOf(call), buffers, handles));
  test::expectOk(communicator.synchronize());
  records.resize(size_t(take(records.data(), int64_t(records.size()))));
  if (records.size() != streams.size())
    throw std::runtime_error("the runtime has made " + std::to_string(records.size()) + " launches");
  ownText = records.front().text;
  for (const StandInRecord &record : records) {
    Device &device = devices.emplace_back();
    device.kernel = record.kernel;
    device.launch.argument = uint64_t(reinterpret_cast<uintptr_t>(record.argument));
    device.invocations = record.readable;
    device.launch.gridX = record.gridX, device.launch.gridY = record.gridY,
    device.launch.numThreads = record.numThreads;
    for (uint32_t y = 0; y < record.gridY; ++y)
      device.ranks.push_back(size_t(invocationOf(device, y).rank));
  }
  if (!shape.hosts.empty())
    spread();
}

/// Those of programs that use a staged network are longer.
const KoloDeviceInvocation &ExecutedCall::invocationOf(const Device &device, size_t index) const {
  if (shape.hosts.empty())
    return static_cast<const KoloDeviceInvocation *>(device.invocations)[index];
  return static_cast<const KoloDeviceNetworkInvocation *>(device.invocations)[index].call;
}

/// What the runtime has set up for one host becomes what ranks of several have.
void ExecutedCall::spread() {
  auto readable = [](uint64_t address) -> const std::byte * {
    for (const StandInMemory &memory : listMemory())
      if (address - memory.address < memory.sizeBytes)
        return static_cast<const std::byte *>(memory.readable) + (address - memory.address);
    throw std::runtime_error("a table of the runtime is in no memory");
  };
  const auto numSemaphores = size_t(algorithm.info().numSemaphores);
  network = std::make_unique<NetworkModel>(shape.hosts, size_t(shape.lanes), numSemaphores, readable);
  for (Device &device : devices)
    device.launch.argument = network->addInvocations(
        {static_cast<const KoloDeviceNetworkInvocation *>(device.invocations), device.ranks.size()});
}

void ExecutedCall::replaceText(const std::string &text) {
  auto made = std::make_unique<Module>(readModule(text));
  for (Device &device : devices)
    device.launch.module = made.get(), device.launch.kernel = &made->entry(device.kernel);
  executor.reset();
  module = std::move(made);
}

void ExecutedCall::makeExecutor(int numCalls, size_t numAbsent) {
  if (executor && executorCalls == numCalls && executorAbsent == numAbsent)
    return;
  std::vector<std::vector<Task>> queues;
  for (Device &device : devices) {
    auto forRanks = [this, &device](auto method, size_t number) {
      return [this, &device, method, number](Memory &memory, uint32_t host) {
        for (size_t rank : device.ranks)
          (this->*method)(memory, host, rank, number);
      };
    };
    std::vector<Task> &queue = queues.emplace_back();
    if (device.ranks.front() < numAbsent) {
      queues.pop_back();
      continue;
    }
    for (size_t number = 0; number < size_t(numCalls); ++number) {
      queue.push_back({nullptr, forRanks(&ExecutedCall::prepareCall, number)});
      queue.push_back({&device.launch, nullptr});
      if (numAbsent == 0)
        queue.push_back({nullptr, forRanks(&ExecutedCall::checkCall, number)});
    }
  }
  HostService service;
  if (network)
    service = {network->numThreads(), [this](Memory &memory, uint32_t first) { network->serve(memory, first); }};
  executor = std::make_unique<Executor>(queues, std::move(service));
  executorCalls = numCalls, executorAbsent = numAbsent;
  for (const StandInMemory &memory : listMemory()) {
    executor->memory().addRegion(memory.address, memory.sizeBytes, static_cast<const std::byte *>(memory.readable),
                                 isOfTables(memory));
  }
  if (network)
    network->addRegions(executor->memory());
}

bool ExecutedCall::isOfTables(const StandInMemory &memory) const {
  return std::ranges::any_of(
      devices, [&](const Device &device) { return device.launch.argument - memory.address < memory.sizeBytes; });
}

ExecutedCall::Object ExecutedCall::objectOf(uint32_t line) const {
  uint64_t address = executor->addressOf(line);
  if (address == 0)
    return Object::None;
  for (const StandInMemory &memory : listMemory())
    if (address - memory.address < memory.sizeBytes && isOfTables(memory))
      return Object::Tables;
  if (network && network->isOfTables(address))
    return Object::Tables;
  for (const Module::Table &table : module->tables)
    if (address - uint64_t(reinterpret_cast<uintptr_t>(table.content.get())) < table.sizeBytes)
      return Object::Tables;
  for (const Device &device : devices)
    for (size_t rank = 0; rank < device.ranks.size(); ++rank) {
      const KoloDeviceInvocation &invocation = invocationOf(device, rank);
      if (address == uint64_t(reinterpret_cast<uintptr_t>(invocation.abort)))
        return Object::Abort;
      if (address - uint64_t(reinterpret_cast<uintptr_t>(invocation.failures)) <
          sizeof(KoloDeviceFailure) * uint64_t(shape.lanes))
        return Object::Failures;
    }
  return Object::Other;
}

void ExecutedCall::write(Memory &memory, uint32_t host, const Buffer &buffer, const Bytes &content) const {
  forPieces(buffer.address, content.size(), [&](size_t offset, uint32_t size) {
    memory.store(host, buffer.address + offset, size, {}, 0, content.data() + offset);
  });
}

Bytes ExecutedCall::read(Memory &memory, uint32_t host, const Buffer &buffer) const {
  Bytes content(buffer.sizeBytes);
  forPieces(buffer.address, content.size(), [&](size_t offset, uint32_t size) {
    memory.load(host, buffer.address + offset, size, {}, 0, content.data() + offset);
  });
  return content;
}

const std::vector<Bytes> &ExecutedCall::inputsOf(size_t number) {
  bool isCoded = algorithm.info().granule != 0;
  while (data.size() <= number) {
    uint64_t salt = 100 + data.size();
    data.push_back(isCoded ? test::ordinaryInputs(call, salt) : test::taggedInputs(call, salt));
    results.push_back(isCoded ? test::hostOutputs(algorithm.plugin, call, data.back()) : std::vector<Bytes>());
  }
  return data[number];
}

void ExecutedCall::prepareCall(Memory &memory, uint32_t host, size_t rank, size_t number) {
  const Bytes &input = inputsOf(number)[rank];
  write(memory, host, inputs[rank], blocks ? blocks->placed(KOLO_INPUT, rank, input) : input);
  write(memory, host, outputs[rank], Bytes(outputs[rank].sizeBytes, test::poison));
}

void ExecutedCall::checkCall(Memory &memory, uint32_t host, size_t rank, size_t number) {
  Bytes found = read(memory, host, outputs[rank]);
  std::string problem;
  if (blocks)
    problem = blocks->check(call, inputsOf(number), int(rank), found);
  else if (results[number].empty())
    problem = test::checkOutput(call, inputsOf(number), int(rank), found);
  else if (found != results[number][rank])
    problem = "rank " + std::to_string(rank) + " has other bits than on the host; ";
  if (!problem.empty())
    wrong += "call " + std::to_string(number) + ": " + problem;
  if (number + 1 == size_t(executorCalls))
    checkRest(memory, host, rank);
}

/// Nothing but the host has written to the input, or around the output.
void ExecutedCall::checkRest(const Memory &memory, uint32_t host, size_t rank) {
  for (const Buffer *buffer : {&inputs[rank], &outputs[rank]}) {
    auto begin = uint64_t(reinterpret_cast<uintptr_t>(buffer->memory.data())), end = begin + buffer->memory.sizeBytes();
    uint64_t after = buffer->address + buffer->sizeBytes;
    if (!memory.isUntouched(begin, buffer->address - begin, host) || !memory.isUntouched(after, end - after, host))
      wrong += "something beside a buffer of rank " + std::to_string(rank) + " has changed; ";
  }
  if (!memory.isUntouched(inputs[rank].address, inputs[rank].sizeBytes, host))
    wrong += "the input of rank " + std::to_string(rank) + " has been written to; ";
}

std::string ExecutedCall::run(const Style &style, int numCalls) {
  makeExecutor(numCalls, 0);
  wrong.clear();
  try {
    if (network)
      network->reset(style.seed);
    executor->run(style);
  } catch (const Problem &problem) {
    wrong += problem.what();
  }
  return wrong;
}

/// Reads the record as the runtime does, while kernels may still run: the code first, by an acquire.
void ExecutedCall::checkFailure(Memory &memory, uint32_t host, const KoloDeviceInvocation &invocation, int lane) {
  auto read = [&](const auto &field, Access access) {
    uint64_t value = 0;
    memory.load(host, uint64_t(reinterpret_cast<uintptr_t>(&field)), sizeof(value), access, 0,
                reinterpret_cast<std::byte *>(&value));
    return value;
  };
  const KoloDeviceFailure &failure = invocation.failures[lane];
  uint64_t code = 0;
  for (int attempt = 0; attempt < 1000 && code == 0; ++attempt) // it comes at some time
    code = read(failure.code, {Space::Global, Order::Acquire, Scope::System, false});
  if (code != KOLO_DEVICE_TIMEOUT && code != KOLO_DEVICE_ABORTED)
    wrong += "a lane of rank " + std::to_string(invocation.rank) + " did not say that it gave up; ";
  uint64_t peer = read(failure.peer, {}), expected = read(failure.expected, {}), found = read(failure.found, {});
  if (int64_t(peer) != KOLO_DEVICE_PACKETS && (peer >= uint64_t(invocation.numRanks) || found >= expected))
    wrong += "the record of rank " + std::to_string(invocation.rank) + " is wrong; ";
}

std::string ExecutedCall::runWithout(const Style &style, size_t numAbsent) {
  makeExecutor(1, numAbsent);
  wrong.clear();
  try {
    if (network)
      network->reset(style.seed);
    executor->run(style);
    for (size_t index = 0, place = 0; index < devices.size(); ++index) {
      if (devices[index].ranks.front() < numAbsent)
        continue;
      const KoloDeviceInvocation &invocation = invocationOf(devices[index], 0);
      for (int lane = 0; lane < shape.lanes; ++lane)
        checkFailure(executor->memory(), executor->watchingThread(place), invocation, lane);
      ++place;
    }
  } catch (const Problem &problem) {
    wrong += problem.what();
  }
  return wrong;
}

} // namespace kolo::ptx
