#include "Support.h"
#include "StandInImage.h"

#include "tests/support/Support.h"

#include "targets/cpu/CpuTarget.h"
#include "targets/cuda/CudaTarget.h"
#include "targets/package/Package.h"

#include <cstdlib>

namespace kolo::test {

using reference::Bytes;

namespace {

constexpr size_t guardBytes = 64;

bool chooseThreads(int64_t number) { return setenv("KOLO_STANDIN_THREADS", std::to_string(number).c_str(), 1) == 0; }
/// Before the stand-in driver, if it is that one, launches anything.
const bool areThreadsChosen = chooseThreads(standInThreads);

void expectOk(const runtime::Status &status) {
  if (!status.isOk())
    throw std::runtime_error(status.message());
}

template <class T> T valueOf(runtime::Result<T> result) {
  expectOk(result.status());
  return std::move(result).value();
}

llvm::Expected<DeviceCode> compileForDevice(mlir::ModuleOp programs, const DeviceOptions &options,
                                            const std::string &architecture) {
  auto compile = [&]() -> llvm::Expected<DeviceImage> {
    if (isStandIn())
      return compileForStandIn(programs, options);
    auto started = cuda::startImage(programs, {}, options, architecture);
    if (!started)
      return started.takeError();
    return (*started)();
  };
  auto image = compile();
  if (!image)
    return image.takeError();
  DeviceCode code;
  code.options = options;
  code.images.push_back(std::move(*image));
  return code;
}

} // namespace

StandInThreads::StandInThreads(int64_t number) { chooseThreads(number); }
StandInThreads::~StandInThreads() { chooseThreads(standInThreads); }

bool isStandIn() {
  const char *path = std::getenv("KOLO_CUDA_DRIVER");
  return path && std::string(path).find("kolo_test_standin") != std::string::npos;
}

std::string whyNoDevice() {
  auto number = runtime::countDevices(runtime::DeviceKind::Cuda);
  if (!number.isOk())
    return number.status().message();
  return *number == 0 ? "the driver knows no device" : "";
}

DeviceOptions everything() {
  DeviceOptions options{{}, {}, Accumulation::F32};
  for (int type = 0; type < KOLO_NUM_TYPES; ++type)
    options.types.push_back(KoloType(type));
  for (int reduction = 0; reduction < KOLO_NUM_REDUCTIONS; ++reduction)
    options.reductions.push_back(KoloReduction(reduction));
  return options;
}

DeviceAlgorithm::DeviceAlgorithm(const std::string &ofName, const DeviceOptions &options, std::string architecture,
                                 const Schedule &schedule)
    : name(ofName), context(makeContext()) {
  cpu::loadCpuTarget(*context);
  mlir::OwningOpRef<mlir::ModuleOp> module = emit(*context, name, meshes());
  collective = (*module->getOps<ChoreographyOp>().begin()).getCollective();
  TemporaryFolder folder;
  if (architecture.empty())
    architecture = valueOf(runtime::describeDevice(runtime::DeviceKind::Cuda, 0)).architecture;
  auto compile = [&](mlir::ModuleOp programs) { return compileForDevice(programs, options, architecture); };
  PipelineOptions pipeline{.schedule = std::get<ResolvedSchedule>(resolve(schedule, {}))};
  if (llvm::Error problem = package::compilePlugin(*module, {pipeline, folder.file("plugin.so"), compile}))
    throw std::runtime_error(llvm::toString(std::move(problem)));
  plugin = valueOf(runtime::Plugin::load(folder.file("plugin.so")));
}

std::vector<Sizes> DeviceAlgorithm::meshes() const {
  static const std::vector<std::vector<Sizes>> byDims = {{},
                                                         {{2}, {4}, {8}},
                                                         {{1, 2}, {2, 2}, {2, 4}},
                                                         {{1, 1, 2}, {1, 2, 2}, {2, 2, 2}},
                                                         {{1, 1, 1, 2}, {1, 1, 2, 2}, {1, 2, 2, 2}}};
  return byDims[definitionOf(name).mesh.dims.size()];
}

reference::Call DeviceAlgorithm::call(const Sizes &mesh) {
  reference::Call result;
  result.collective = collective;
  result.meshSizes = mesh;
  return result;
}

bool DeviceAlgorithm::isRooted() const {
  CollectiveKind kind = collective.getKind();
  return kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce || kind == CollectiveKind::Gather ||
         kind == CollectiveKind::Scatter;
}

DeviceRanks::DeviceRanks(DeviceAlgorithm &ofAlgorithm, const Sizes &sizes, const runtime::DeviceOptions &options)
    : algorithm(ofAlgorithm), mesh(namedMesh(definitionOf(algorithm.name), sizes)) {
  std::vector<int> devices(size_t(mesh.numRanks()), 0);
  communicator = valueOf(runtime::DeviceCommunicator::createLocal(devices, options));
  stream = valueOf(communicator->createStream(0));
}

DeviceRanks::Buffer DeviceRanks::makeBuffer(int rank, const Bytes &content, size_t offsetBytes) {
  Bytes whole(content.size() + 2 * guardBytes + offsetBytes, reference::poison);
  std::ranges::copy(content, whole.begin() + ptrdiff_t(guardBytes + offsetBytes));
  Buffer buffer{valueOf(communicator->allocate(rank, whole.size())), guardBytes + offsetBytes, content.size()};
  expectOk(buffer.memory.write(0, whole.data(), whole.size()));
  return buffer;
}

void DeviceRanks::place(const reference::SimulatedCall &simulated, size_t elementBytes) {
  inputs.clear(), outputs.clear(), buffers.clear();
  // Aligned to elements, and to nothing else.
  auto offset = [&](int rank) { return size_t(rank % 5) * elementBytes; };
  for (int rank = 0; rank < mesh.numRanks(); ++rank) {
    inputs.push_back(makeBuffer(rank, simulated.inputs[size_t(rank)], offset(rank)));
    outputs.push_back(makeBuffer(rank, simulated.outputs[size_t(rank)], offset(rank + 2)));
    buffers.push_back({inputs.back().data(), outputs.back().data()});
  }
}

std::string DeviceRanks::check(const reference::SimulatedCall &simulated) const {
  std::string wrong;
  auto contentOf = [&](const Buffer &buffer) {
    Bytes whole(buffer.memory.sizeBytes());
    expectOk(buffer.memory.read(0, whole.data(), whole.size()));
    Bytes content(whole.begin() + ptrdiff_t(buffer.offsetBytes),
                  whole.begin() + ptrdiff_t(buffer.offsetBytes + buffer.sizeBytes));
    std::fill_n(whole.begin() + ptrdiff_t(buffer.offsetBytes), buffer.sizeBytes, reference::poison);
    if (whole != Bytes(whole.size(), reference::poison))
      wrong += "something beside a buffer has changed; ";
    return content;
  };
  for (int rank = 0; rank < mesh.numRanks(); ++rank) {
    if (llvm::Error problem = reference::checkOutput(simulated, rank, contentOf(outputs[size_t(rank)])))
      wrong += "rank " + std::to_string(rank) + ": " + llvm::toString(std::move(problem)) + "; ";
    if (contentOf(inputs[size_t(rank)]) != simulated.inputs[size_t(rank)])
      wrong += "the input of rank " + std::to_string(rank) + " has changed; ";
  }
  return wrong;
}

std::string DeviceRanks::start(const reference::Call &call, int numCalls) {
  runtime::CallArguments arguments;
  arguments.mesh = mesh;
  arguments.count = call.count;
  arguments.type = runtime::DataType(int(call.type));
  arguments.reduction = runtime::Reduction(int(call.reduction));
  arguments.root = int(call.root);
  std::vector<runtime::StreamHandle> streams(buffers.size(), stream->handle());
  for (int number = 0; number < numCalls; ++number)
    if (runtime::Status status = communicator->run(*algorithm.plugin, arguments, buffers, streams); !status.isOk())
      return status.message();
  return communicator->synchronize().message();
}

std::string DeviceRanks::run(const reference::Call &call, int numCalls, uint64_t seed) {
  reference::SimulatedCall simulated = reference::makeSimulatedCall(call);
  reference::tagInput(simulated, seed);
  reference::poisonOutputs(simulated);
  place(simulated, size_t(reference::elementBytes(call.type)));
  std::string problem = start(call, numCalls);
  return problem.empty() ? check(simulated) : problem;
}

} // namespace kolo::test
