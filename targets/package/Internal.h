// The parts of a plugin file beside the host's code. Private to this folder.
#pragma once

#include "targets/cpu/CpuTarget.h"
#include "targets/package/Package.h"

namespace kolo::package {

/// The manifest, as JSON, of programs that were compiled to this code.
std::string writeManifest(mlir::ModuleOp programs, const cpu::HostCode &host, const DeviceCode &devices,
                          const PackRequest &request);

struct DeviceProgramNames {
  std::string name;
  bool takesTables; // devices have a kernel of it for calls with block tables
  bool usesStagedNetwork;
};

/// Adds the images of devices, their table, and the function that returns it: see DeviceAbi.h. At least one image.
void addDeviceTable(llvm::Module &module, llvm::ArrayRef<DeviceProgramNames> programs, const DeviceCode &devices);
/// All images lie in this section.
inline constexpr llvm::StringLiteral imageSection = ".kolo.images";
/// For every image in turn, bytes from the beginning of that section.
std::vector<uint64_t> imageOffsets(const DeviceCode &devices);

/// Links the host's code to a shared library that needs no other, and writes it with its manifest as a plugin.
/// Instrumented code needs the sanitizer's functions of the process that loads it.
llvm::Error linkPlugin(const cpu::HostCode &host, const std::string &manifest, const PackRequest &request);

} // namespace kolo::package
