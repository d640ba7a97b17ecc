// Packaging: from a choreography, or from programs in channel form, to a plugin file. Used by the tools and by tests.
#pragma once

#include "compiler/Pipeline.h"
#include "targets/DeviceCode.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kolo::package {

/// The program for calls of `collective`, by name, on a mesh, on buffers in memory of a kind, "windows" or "ordinary",
/// that name no program. The names are those of the manifest.
struct Selection {
  std::string collective;
  int64_t ranks;
  std::vector<std::pair<std::string, int64_t>> mesh; // dimensions, slowest first; none: any mesh of so many ranks
  std::string memory;
  std::optional<int64_t> upToBytes; // nothing: no end
  std::string program;
  std::string tag = {}; // empty: any communicator
  bool allowsLoss = false;
  int64_t lanes = 0; // of every rank on devices; 0: it does not say
};

struct PackRequest {
  PipelineOptions options = {};
  std::string path; // of the plugin
  /// Compiles programs in channel form, which stay as they are, for devices. Null: the plugin has host code alone.
  std::function<llvm::Expected<DeviceCode>(mlir::ModuleOp)> compileForDevices = {};
  std::vector<Selection> selection = {}; // in the manifest's order
  /// Where the selection was measured, as field and value of the manifest's `tuned`. Empty: it is not said.
  std::vector<std::pair<std::string, std::string>> tuned = {};
  /// What programs with codecs are compiled from, as textual IR, by name: so that a run can be checked to the bit.
  std::map<std::string, std::string> choreographies = {};
  std::string cpu = {}; // as cpu::HostOptions has it
};

/// Compiles every program of the module, in choreography or in channel form, and packs them: the module is in channel
/// form then. The author's mistakes go to the context's diagnostics; the error then says only that there were some.
llvm::Error compilePlugin(mlir::ModuleOp module, const PackRequest &request);

/// Compiles programs that are in channel form, and proved, for this host's CPU, and writes the plugin. The file at
/// `path` is replaced as a whole, and only when everything went well.
llvm::Error packPlugin(mlir::ModuleOp programs, const PackRequest &request);

} // namespace kolo::package
