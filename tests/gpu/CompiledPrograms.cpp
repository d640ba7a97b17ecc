// Algorithms that the compiler makes in this process: for the device that there is, or for the stand-in driver.
#include "Programs.h"
#include "StandInImage.h"
#include "Support.h"

#include "tests/support/Algorithms.h"
#include "tests/support/Support.h"

#include "codec/Presets.h"
#include "compiler/Schedule.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/cuda/CudaTarget.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/package/Package.h"

namespace kolo::test {

static_assert(threadsPerLine == gpu::threadsPerLine);

namespace {

llvm::Expected<DeviceCode> compileForDevice(mlir::ModuleOp programs, const std::string &architecture) {
  DeviceCode code{everything(), {}};
  auto compile = [&]() -> llvm::Expected<DeviceImage> {
    if (isStandIn())
      return compileForStandIn(programs, code.options);
    auto started = cuda::startImage(programs, {}, code.options, architecture);
    if (!started)
      return started.takeError();
    return (*started)();
  };
  auto image = compile();
  if (!image)
    return image.takeError();
  code.images.push_back(std::move(*image));
  return code;
}

} // namespace

std::vector<std::string> algorithmNames(const std::string &protocol) {
  if (protocol == "coded")
    return codedAlgorithmNames();
  if (protocol == "coded-ll" || protocol == "coded-ll128")
    return codedPacketAlgorithmNames();
  if (protocol == "stochastic")
    return {"quantisedTwoShotAllReduce"};
  return protocol == "bulk" ? sweptAlgorithmNames() : packetAlgorithmNames();
}

runtime::Plugin loadAlgorithm(const std::string &name, const std::string &protocol, const std::string &architecture) {
  auto context = makeContext();
  cpu::loadCpuTarget(*context);
  std::map<std::string, codec::Codec> codecs;
  if (protocol == "stochastic")
    codecs.emplace("wire", dsl::int8().stochastic());
  mlir::OwningOpRef<mlir::ModuleOp> module =
      emit(*context, name, deviceMeshes(definitionOf(name).mesh.dims.size()), codecs);
  auto info = [&] { return runtime::describeDevice(runtime::DeviceKind::Cuda, 0).value().architecture; };
  auto compile = [&, chosen = architecture.empty() ? info() : architecture](mlir::ModuleOp programs) {
    return compileForDevice(programs, chosen);
  };
  TemporaryFolder folder;
  PipelineOptions pipeline{.schedule = std::get<ResolvedSchedule>(resolve({.protocol = protocolOf(protocol)}, {}))};
  if (llvm::Error problem = package::compilePlugin(*module, {pipeline, folder.file("plugin.so"), compile}))
    throw std::runtime_error(llvm::toString(std::move(problem)));
  return runtime::Plugin::load(folder.file("plugin.so")).value();
}

} // namespace kolo::test
