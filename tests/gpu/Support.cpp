#include "Support.h"

#include "Coded.h"

#include <algorithm>
#include <cstdlib>

namespace kolo::test {

namespace {

constexpr size_t guardBytes = 64;

bool chooseThreads(int number) { return setenv("KOLO_STANDIN_THREADS", std::to_string(number).c_str(), 1) == 0; }
/// Before the stand-in driver, if it is that one, launches anything.
const bool areThreadsChosen = chooseThreads(standInThreads);

} // namespace

StandInThreads::StandInThreads(int number) { chooseThreads(number); }
StandInThreads::~StandInThreads() { chooseThreads(standInThreads); }

bool isStandIn() {
  const char *path = std::getenv("KOLO_CUDA_DRIVER");
  return path && std::string(path).find("kolo_test_standin") != std::string::npos;
}

bool isSkipped(const std::string &name, std::initializer_list<const char *> few) {
  const char *sweep = std::getenv("KOLO_SWEEP");
  const bool isSweep = sweep && std::string_view(sweep) == "all";
  return isStandIn() && !isSweep && std::ranges::find(few, name) == few.end();
}

std::string whyNoDevice() {
  auto number = runtime::countDevices(runtime::DeviceKind::Cuda);
  if (!number.isOk())
    return number.status().message();
  return *number == 0 ? "the driver knows no device" : "";
}

std::vector<runtime::Mesh> DeviceAlgorithm::meshes() const {
  std::vector<runtime::Mesh> meshes;
  for (const std::vector<int64_t> &sizes : info().meshes) {
    std::vector<runtime::MeshDim> dims;
    for (size_t dim = 0; dim < sizes.size(); ++dim)
      dims.push_back({info().meshDims[dim], sizes[dim]});
    meshes.push_back(valueOf(runtime::Mesh::create(dims)));
  }
  return meshes;
}

DeviceCall DeviceAlgorithm::call(const runtime::Mesh &mesh, int64_t count) const {
  return {info().collective, info().groupDims, mesh, count};
}

runtime::CallArguments argumentsOf(const DeviceCall &call) {
  runtime::CallArguments arguments;
  arguments.mesh = call.mesh;
  arguments.count = call.count;
  arguments.type = call.type;
  arguments.reduction = call.reduction;
  arguments.root = call.root;
  return arguments;
}

DeviceRanks::DeviceRanks(const DeviceAlgorithm &ofAlgorithm, const runtime::Mesh &mesh,
                         const runtime::DeviceOptions &options)
    : communicator(
          valueOf(runtime::DeviceCommunicator::createLocal(std::vector<int>(size_t(mesh.numRanks()), 0), options))),
      stream(valueOf(communicator.createStream(0))), algorithm(ofAlgorithm) {}

DeviceRanks::Buffer DeviceRanks::makeBuffer(int rank, size_t sizeBytes, size_t offsetBytes) {
  return {valueOf(communicator.allocate(rank, sizeBytes + 2 * guardBytes + offsetBytes)), guardBytes + offsetBytes,
          sizeBytes};
}

void DeviceRanks::write(Buffer &buffer, const Bytes &content) {
  Bytes whole(buffer.memory.sizeBytes(), poison);
  std::ranges::copy(content, whole.begin() + ptrdiff_t(buffer.offsetBytes));
  expectOk(buffer.memory.write(0, whole.data(), whole.size()));
}

Bytes DeviceRanks::read(const Buffer &buffer, std::string &wrong) {
  Bytes whole(buffer.memory.sizeBytes());
  expectOk(buffer.memory.read(0, whole.data(), whole.size()));
  auto begin = whole.begin() + ptrdiff_t(buffer.offsetBytes), end = begin + ptrdiff_t(buffer.sizeBytes);
  Bytes content(begin, end);
  std::fill(begin, end, poison);
  if (std::ranges::any_of(whole, [](std::byte byte) { return byte != poison; }))
    wrong += "something beside a buffer has changed; ";
  return content;
}

void DeviceRanks::prepare(const DeviceCall &call, uint64_t seed, std::optional<DeviceBlocks> ofCall) {
  called = call;
  blocks = std::move(ofCall);
  inputs.clear(), outputs.clear(), buffers.clear(), tables.clear();
  // Aligned to elements, and to nothing else.
  auto offset = [&](int rank) { return size_t(rank % 5) * runtime::sizeBytes(call.type); };
  for (int rank = 0; rank < call.mesh.numRanks(); ++rank) {
    auto bytesOf = [&](size_t role, size_t whole) { return blocks ? blocks->sizeBytes(role, size_t(rank)) : whole; };
    inputs.push_back(makeBuffer(rank, bytesOf(KOLO_INPUT, call.inputBytes()), offset(rank)));
    outputs.push_back(makeBuffer(rank, bytesOf(KOLO_OUTPUT, call.outputBytes()), offset(rank + 2)));
    buffers.push_back({inputs.back().data(), outputs.back().data()});
    if (blocks)
      tables.push_back(blocks->tablesOf(size_t(rank)));
  }
  for (size_t rank = 0; rank < tables.size(); ++rank)
    buffers[rank].blocks = &tables[rank];
  fill(seed);
}

Bytes DeviceRanks::inputOf(size_t rank) const {
  return blocks ? blocks->placed(KOLO_INPUT, rank, content[rank]) : content[rank];
}

void DeviceRanks::fill(uint64_t seed) { fillWith(taggedInputs(called, seed)); }

void DeviceRanks::fillWith(std::vector<Bytes> data) {
  content = std::move(data);
  for (size_t rank = 0; rank < content.size(); ++rank) {
    write(inputs[rank], inputOf(rank));
    write(outputs[rank], {});
  }
}

std::string DeviceRanks::start(int numCalls) {
  std::vector<runtime::StreamHandle> streams(buffers.size(), stream.handle());
  for (int number = 0; number < numCalls; ++number)
    if (runtime::Status status = communicator.run(algorithm.plugin, argumentsOf(called), buffers, streams);
        !status.isOk())
      return status.message();
  return "";
}

std::string DeviceRanks::check() const {
  std::string wrong;
  for (size_t rank = 0; rank < content.size(); ++rank) {
    const Bytes found = read(outputs[rank], wrong);
    wrong += blocks ? blocks->check(called, content, int(rank), found) : checkOutput(called, content, int(rank), found);
    if (read(inputs[rank], wrong) != inputOf(rank))
      wrong += "the input of rank " + std::to_string(rank) + " has changed; ";
  }
  return wrong;
}

std::string DeviceRanks::runCoded(const DeviceCall &call, int numCalls, uint64_t seed) {
  prepare(call, seed);
  fillWith(ordinaryInputs(call, seed));
  if (std::string problem = start(numCalls); !problem.empty())
    return problem;
  if (runtime::Status status = communicator.synchronize(); !status.isOk())
    return status.message();
  std::string wrong;
  std::vector<Bytes> expected = hostOutputs(algorithm.plugin, call, content);
  for (size_t rank = 0; rank < content.size(); ++rank) {
    Bytes found = read(outputs[rank], wrong);
    if (size_t place = size_t(std::ranges::mismatch(found, expected[rank]).in1 - found.begin()); place < found.size())
      wrong += "element " + std::to_string(place / runtime::sizeBytes(call.type)) + " of rank " + std::to_string(rank) +
               " is not what the host gives; ";
    if (read(inputs[rank], wrong) != content[rank])
      wrong += "the input of rank " + std::to_string(rank) + " has changed; ";
  }
  return wrong;
}

std::string DeviceRanks::run(const DeviceCall &call, int numCalls, uint64_t seed, std::optional<DeviceBlocks> ofCall) {
  prepare(call, seed, std::move(ofCall));
  if (std::string problem = start(numCalls); !problem.empty())
    return problem;
  if (runtime::Status status = communicator.synchronize(); !status.isOk())
    return status.message();
  return check();
}

} // namespace kolo::test
