#include "Shipped.h"

#include "../gpu/StandInImage.h"
#include "tests/support/Algorithms.h"
#include "tests/support/Support.h"

#include "compiler/Schedule.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/cuda/CudaTarget.h"
#include "targets/package/Package.h"

namespace kolo {

namespace {
DeviceOptions chosenOptions{{KOLO_BF16, KOLO_F32}, {KOLO_SUM}, Accumulation::F32};
} // namespace

namespace ptx {

std::vector<Shipped> allShipped() {
  std::vector<Shipped> shipped;
  for (const char *protocol : {"bulk", "staged", "ll", "ll128", "coded", "coded-ll", "coded-ll128"})
    for (const std::string &name : test::algorithmNames(protocol))
      shipped.push_back({name, protocol});
  return shipped;
}

std::vector<int> hostsFor(const Shipped &shipped, const runtime::Mesh &mesh, int ranksPerHost) {
  if (shipped.protocol != "staged")
    return {};
  const int apart = int(mesh.numRanks() / mesh.dims().front().size);
  std::vector<int> hosts;
  for (int rank = 0; rank < mesh.numRanks(); ++rank)
    hosts.push_back(rank / std::max(apart, ranksPerHost));
  return hosts;
}

void setDeviceOptions(const DeviceOptions &options) { chosenOptions = options; }

} // namespace ptx

std::vector<std::string> test::algorithmNames(const std::string &protocol) {
  if (protocol == "coded")
    return codedAlgorithmNames();
  if (protocol == "coded-ll" || protocol == "coded-ll128")
    return codedPacketAlgorithmNames();
  return protocol == "bulk" || protocol == "staged" ? sweptAlgorithmNames() : packetAlgorithmNames();
}

runtime::Plugin test::loadAlgorithm(const std::string &name, const std::string &protocol, const std::string &) {
  auto context = makeContext();
  cpu::loadCpuTarget(*context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      emit(*context, name, deviceMeshes(definitionOf(name).mesh.dims.size()), {});
  if (protocol == "staged")
    useStagedNetwork(*module);
  auto compile = [](mlir::ModuleOp programs) -> llvm::Expected<DeviceCode> {
    DeviceCode code{chosenOptions, {}};
    auto started = cuda::startImage(programs, {}, code.options, "sm_90");
    if (!started)
      return started.takeError();
    auto image = (*started)();
    if (!image)
      return image.takeError();
    code.images.push_back(std::move(*image));
    return code;
  };
  TemporaryFolder folder;
  PipelineOptions pipeline{.schedule = std::get<ResolvedSchedule>(resolve({.protocol = protocolOf(protocol)}, {}))};
  if (llvm::Error problem = package::compilePlugin(*module, {pipeline, folder.file("plugin.so"), compile}))
    throw std::runtime_error(llvm::toString(std::move(problem)));
  return runtime::Plugin::load(folder.file("plugin.so")).value();
}

} // namespace kolo
