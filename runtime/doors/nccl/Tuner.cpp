// The same library as a tuner plugin of NCCL and RCCL: where a plugin's selection names a program that has a
// counterpart among NCCL's built-in algorithms, that one is made the cheapest. For calls that are not carried, and for
// programs that load no other part of this library: NCCL_TUNER_PLUGIN=libkolo_nccl.so.
//
// NCCL looks the structures up by name and takes the newest one that it knows. Their layouts never change.
#include "Process.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace kolo::nccl {
namespace {

using runtime::CollectiveKind;
using runtime::MemoryKind;
using runtime::Mesh;
using runtime::MeshDim;
using runtime::Plugin;
using runtime::SelectedProgram;

using Logger = void (*)(int level, unsigned long flags, const char *file, int line, const char *format, ...);
constexpr int levelInfo = 3;
constexpr unsigned long flagInit = 1;

// NCCL's own numbers, which are places in its table of costs.
enum Algorithm : int { Tree = 0, Ring = 1 };
enum Protocol : int { LL = 0, LL128 = 1, Simple = 2 };
constexpr float unavailable = -1.0f, cheapest = 0.0f;

// By ncclFunc_t. NCCL asks about no other function.
constexpr CollectiveKind tuned[] = {CollectiveKind::Broadcast, CollectiveKind::Reduce, CollectiveKind::AllGather,
                                    CollectiveKind::ReduceScatter, CollectiveKind::AllReduce};

/// One communicator.
struct Context {
  std::vector<Mesh> meshes; // of its ranks: by node, if the nodes are equal, then flat
};

struct Choice {
  int algorithm, protocol;
};

/// What NCCL has of a program's kind: "ringAllReduce.ll128", "binomialBroadcast".
std::optional<Choice> counterpart(const std::string &program) {
  size_t dot = std::min(program.find('.'), program.size());
  std::string name = program.substr(0, dot), protocol = program.substr(dot);
  std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  bool isRing = name.find("ring") != std::string::npos;
  bool isTree = name.find("tree") != std::string::npos || name.find("binomial") != std::string::npos;
  if (isRing == isTree || protocol.starts_with(".published"))
    return std::nullopt;
  bool isLL128 = protocol.starts_with(".ll128");
  return Choice{isRing ? Ring : Tree, isLL128 ? LL128 : protocol.starts_with(".ll") ? LL : Simple};
}

/// A mesh of nodes that an entry of the selection names.
std::optional<Mesh> meshByNode(const Plugin &plugin, int64_t numNodes, int64_t perNode) {
  for (const runtime::SelectionEntry &entry : plugin.selection()) {
    const std::vector<MeshDim> &dims = entry.mesh.dims();
    if (dims.size() == 2 && dims[0].size == numNodes && dims[1].size == perNode)
      return entry.mesh;
  }
  return std::nullopt;
}

Code open(size_t numRanks, size_t numNodes, Logger log, void **context) {
  *context = nullptr;
  if (!door())
    return fail(Code::InvalidUsage, "tuner: " + doorFailure().message());
  auto made = std::make_unique<Context>();
  if (numNodes > 0 && numRanks % numNodes == 0)
    for (const Plugin &plugin : door()->plugins())
      if (auto mesh = meshByNode(plugin, static_cast<int64_t>(numNodes), static_cast<int64_t>(numRanks / numNodes)))
        made->meshes.push_back(*mesh);
  if (auto flat = Mesh::create({{"rank", static_cast<int64_t>(numRanks)}}); flat.isOk())
    made->meshes.push_back(std::move(flat).value());
  if (log)
    log(levelInfo, flagInit, __FILE__, __LINE__, "Kolo tunes %zu ranks on %zu nodes, by %zu plugins", numRanks,
        numNodes, door()->plugins().size());
  *context = made.release();
  return Code::Success;
}

Code close(void *context) {
  delete static_cast<Context *>(context);
  return Code::Success;
}

/// Nothing: the selection names no program, or one without a counterpart.
std::optional<Choice> choose(void *context, int function, size_t numBytes) {
  if (!context || function < 0 || function >= static_cast<int>(std::size(tuned)))
    return std::nullopt;
  for (const Plugin &plugin : door()->plugins())
    for (const Mesh &mesh : static_cast<Context *>(context)->meshes)
      if (std::optional<SelectedProgram> selected =
              plugin.select({tuned[function], mesh, static_cast<int64_t>(numBytes), MemoryKind::Windows}))
        return counterpart(selected->info->name);
  return std::nullopt;
}

Code tune(void *context, int function, size_t numBytes, float **table, int numAlgorithms, int numProtocols) {
  std::optional<Choice> choice = choose(context, function, numBytes);
  if (!choice || choice->algorithm >= numAlgorithms || choice->protocol >= numProtocols)
    return Code::Success;
  // The parameter's type is NCCL's; it is an array of numAlgorithms rows, not of pointers.
  float &cost = reinterpret_cast<float *>(table)[choice->algorithm * numProtocols + choice->protocol];
  if (cost != unavailable)
    cost = cheapest;
  return Code::Success;
}

Code initByNumbers(size_t numRanks, size_t numNodes, Logger log, void **context) {
  return open(numRanks, numNodes, log, context);
}
Code initById(void **context, uint64_t, size_t numRanks, size_t numNodes, Logger log, void *, void *) {
  return open(numRanks, numNodes, log, context);
}
/// Algorithm and protocol are set together or not at all.
Code chooseV2(void *context, int function, size_t numBytes, int, int, int, int *algorithm, int *protocol, int *) {
  if (std::optional<Choice> choice = choose(context, function, numBytes))
    *algorithm = choice->algorithm, *protocol = choice->protocol;
  return Code::Success;
}
Code tuneV3(void *context, int function, size_t numBytes, int, float **table, int numAlgorithms, int numProtocols,
            int *) {
  return tune(context, function, numBytes, table, numAlgorithms, numProtocols);
}
Code tuneV4(void *context, int function, size_t numBytes, int, float **table, int numAlgorithms, int numProtocols, int,
            int *) {
  return tune(context, function, numBytes, table, numAlgorithms, numProtocols);
}

template <auto *init, auto *getCollInfo> struct TunerLayout {
  const char *name = "Kolo";
  decltype(init) initialize = init;
  decltype(getCollInfo) get = getCollInfo;
  decltype(&close) finalize = close; // called destroy before version 5
};
using TunerV2 = TunerLayout<&initByNumbers, &chooseV2>;
using TunerV3 = TunerLayout<&initByNumbers, &tuneV3>;
using TunerV4 = TunerLayout<&initByNumbers, &tuneV4>;
using TunerV5 = TunerLayout<&initById, &tuneV4>;
struct TunerV6 {
  TunerV5 asBefore;
  void *getChunkSize = nullptr; // NCCL's own chunks
};
using TunerV7 = TunerV6; // its constants are of one more kind of device, and Kolo leaves them alone

} // namespace
} // namespace kolo::nccl

#define KOLO_TUNER(version)                                                                                            \
  __attribute__((visibility("default"))) extern constexpr kolo::nccl::TunerV##version ncclTunerPlugin_v##version = {}

extern "C" {
KOLO_TUNER(2);
KOLO_TUNER(3);
KOLO_TUNER(4);
KOLO_TUNER(5);
KOLO_TUNER(6);
KOLO_TUNER(7);
}
