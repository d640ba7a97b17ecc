// Packaging: code for devices and for the host, then the manifest of what was compiled, then the file.
#include "targets/package/Package.h"

#include "compiler/project/Relations.h"
#include "targets/TableKernels.h"
#include "targets/package/Internal.h"

using namespace mlir;

namespace kolo::package {

llvm::Error compilePlugin(ModuleOp module, const PackRequest &request) {
  if (failed(runChannelPipeline(module, request.options)))
    return llvm::createStringError("the choreography has mistakes");
  return packPlugin(module, request);
}

llvm::Error packPlugin(ModuleOp programs, const PackRequest &request) {
  llvm::Expected<DeviceCode> devices = request.compileForDevices ? request.compileForDevices(programs) : DeviceCode();
  if (!devices)
    return devices.takeError();
  std::vector<DeviceProgramNames> names;
  for (auto program : programs.getOps<ProgramOp>())
    names.push_back({program.getSymName().str(), mayTakeBlockTables(program), usesStagedNetwork(program)});
  llvm::Expected<cpu::HostCode> host =
      cpu::compileHost(programs, {request.options, request.cpu}, [&](llvm::Module &code) {
        if (!devices->images.empty())
          addDeviceTable(code, names, *devices);
      });
  if (!host)
    return host.takeError();
  return linkPlugin(*host, writeManifest(programs, *host, *devices, request), request);
}

} // namespace kolo::package
