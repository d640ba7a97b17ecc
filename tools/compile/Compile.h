// From a choreography, wherever it comes from, to a plugin file or to channel form. Used by the tools, the tests and
// the benchmarks.
#pragma once

#include "tools/compile/ToolError.h"

#include "compiler/Schedule.h"
#include "kolo/dsl/Codec.h"
#include "kolo/dsl/Registry.h"
#include "kolo/runtime/Plugin.h"
#include "targets/DeviceCode.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlir {
class ModuleOp;
}

namespace kolo::tools {

/// "cuda", "sm_90".
struct DeviceArchitecture {
  std::string kind, name;
};

/// A program with a schedule of its own; its name is the definition's.
struct ProgramRequest {
  dsl::Definition definition;
  std::vector<runtime::Mesh> meshes;
  Schedule schedule;
};

/// Which program a plugin takes for calls that name a collective only: see runtime::SelectionEntry.
struct SelectionRequest {
  runtime::CollectiveKind collective;
  int ranks;
  runtime::MemoryKind memory;
  std::optional<int64_t> upToBytes; // nothing: no end
  std::string program;
  runtime::Mesh mesh = {}; // no dimension: any mesh of so many ranks
  std::string tag = {};    // empty: any communicator
  bool allowsLoss = false;
  int lanes = 0; // of every rank on devices; 0: it does not say
};

/// How data crosses a network: from memory of the ranks to memory of the ranks, or staged in memory of their hosts.
enum class NetworkMemory { Direct, Staged };

/// "direct" or "staged".
NetworkMemory parseNetworkMemory(const std::string &name);

/// How the ranks of a program may be spread over hosts.
struct AcrossHosts {
  std::vector<std::string> dims = {}; // of the meshes, along which ranks may be on different hosts
  NetworkMemory memory = NetworkMemory::Direct;
};

/// Notes along which dimensions of their meshes the ranks of choreographies may be on different hosts.
void markNetwork(mlir::ModuleOp module, const AcrossHosts &network);

struct CompileRequest {
  std::vector<dsl::Definition> definitions; // the plugin's programs, all on meshes of the same dimensions
  std::vector<runtime::Mesh> meshes;        // at least one; each with the definitions' dimensions
  std::string output;                       // path of the plugin
  bool optimize = true;                     // false: required passes only
  Schedule schedule = {};
  AcrossHosts network = {};
  bool unproved = false;              // true: what is not proved is packed all the same
  bool represented = false;           // true: a smaller mesh may stand for one that is beyond the budget
  bool searchesInFull = false;        // as of PipelineOptions, for compileToChannel
  std::optional<int64_t> budget = {}; // bytes that the check of one mesh may take; nothing: PipelineOptions' own
  bool sanitizeThread = false;        // true: code for processes under the thread sanitizer, and only for those
  std::string cpu = {};               // level of x86-64 that the host's code is for; empty: any with AVX2
  std::vector<DeviceArchitecture> devices = {}; // to pack code for, beside the host's
  DeviceOptions deviceOptions = {};
  std::string ptxas = {}; // path of the program that makes cubins of PTX; empty: PTX alone is packed
  std::map<std::string, dsl::Codec> codecs =
      {};                                    // choices by name; others than the definitions have are refused (Usage)
  std::string irPath = {};                   // not empty: textual IR of either phase, instead of definitions and meshes
  std::vector<ProgramRequest> programs = {}; // not empty: these, instead of definitions, meshes and schedule
  std::vector<SelectionRequest> selection = {};                // as in a manifest, in its order
  std::vector<std::pair<std::string, std::string>> tuned = {}; // where the selection was measured: a manifest's `tuned`
};

/// Writes the plugin. Gives the warnings, one line each: with `unproved`, why a program is not proved on a mesh. Throws
/// ToolError: Refused with all of the author's mistakes, each a line that begins with file:line:column, and its notes.
/// Usage when a mesh has other dimensions than a definition, or a file cannot be read or written.
std::vector<std::string> compile(const CompileRequest &request);

/// What a program is at some point of its compilation, as text.
enum class Stage {
  Choreography, // IR as the language emits it
  Channel,      // IR of the ranks' programs: synchronised and checked
  LlvmIr,       // the host's code after LLVM's optimizer
  Assembly,     // the host's code
  Ptx,          // the code for the first cuda device of the request
  HsacoAssembly // the code for the first hip device of the request
};

struct StageText {
  std::string text;
  std::vector<std::string> warnings; // as compile gives them
};

/// The text of a stage of the compilation that `compile` does. IR has the locations of the author's lines, so that the
/// rest of the compilation makes the same plugin of it. Throws as compile does, and ToolError (Usage) when the request
/// has no such stage; `programs`, `output`, `ptxas` and `selection` mean nothing here.
StageText emitStage(const CompileRequest &request, Stage stage);

/// Runs the same passes up to channel form, but for the check of the programs, and hands over the module, which is gone
/// when `use` returns. Without `searchesInFull`, a caller that checks the programs may refute a guess, and then calls
/// again with it. Throws as compile does; `output` and `unproved` mean nothing here.
void compileToChannel(const CompileRequest &request, const std::function<void(mlir::ModuleOp)> &use);

/// Hands over the choreographies as their authors wrote them, checked on their meshes, and gone when `use` returns.
/// IR in channel form has none. Throws as compile does; what else `use` reports by diagnostics is thrown too (Refused).
void readChoreographies(const CompileRequest &request, const std::function<void(mlir::ModuleOp)> &use);

/// Hands over what costs are found from, in one context and gone when `use` returns: the choreographies as
/// buildChoreographyPipeline leaves them, and their programs in channel form, which are not proved. Throws as compile
/// does.
void compileForCosts(const CompileRequest &request, Runners runners,
                     const std::function<void(mlir::ModuleOp choreographies, mlir::ModuleOp programs,
                                              const ResolvedSchedule &schedule)> &use);

/// All registered choreographies by name: the linker has chosen the order in which shipped ones were registered.
std::vector<dsl::Definition> shippedAlgorithms();

/// A shipped choreography by name; throws ToolError with the nearest name when there is none.
const dsl::Definition &findShipped(const std::string &name);

/// "; did you mean X?" for the known word that is nearest, or nothing when none is near.
std::string didYouMean(const std::string &word, const std::vector<std::string> &known);

/// Compiles a C++ file of choreographies with the host's compiler ($CXX, else c++) against the headers beside this
/// program, loads it into this process, and gives what it registers. Throws ToolError: Refused with the compiler's
/// messages.
std::vector<dsl::Definition> loadUserSource(const std::string &path);

} // namespace kolo::tools
