// Runs a plugin's program on real ranks, threads or processes, and measures it.
#pragma once

#include "tools/compile/ToolError.h"
#include "tools/run/CallBlocks.h"

#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Device.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kolo::tools {

class LossyCalls;

/// One message size.
struct SizeJob {
  int64_t count = 0; // elements, as the collective counts them
  int warmUps = 0, iterations = 1;
  std::string program = {}; // not empty: instead of the job's, of the same collective
  bool check = true;        // false: not checked, whatever the job says
  CountOfBlock tabled = {}; // not empty: of a call with block tables; `count` is what their blocks have on average
};

struct RankJob {
  runtime::Plugin plugin;
  std::string program; // empty: what the plugin selects for `collective`
  runtime::Mesh mesh;
  runtime::DataType type = runtime::DataType::F32;
  runtime::Reduction reduction = runtime::Reduction::Sum;
  int root = 0;
  bool isInPlace = false;
  bool useWindows = true;   // false: memory as malloc gives it
  bool useProcesses = true; // false: threads of this process
  bool check =
      true; // every byte of every output, once per size, before anything is timed; else data is never looked at
  runtime::CommunicatorOptions options = {};
  std::vector<SizeJob> sizes = {};
  std::optional<runtime::DeviceKind> device =
      {}; // all ranks in this process then, spread over the devices of this kind, or one of a launcher
  std::optional<runtime::CollectiveKind> collective = {};
  bool wantsHugePages = false;                  // advises the kernel so for memory that is in no window
  bool isLaunched = false;                      // this process is one rank, which a launcher's variables name
  std::shared_ptr<const LossyCalls> lossy = {}; // what the sizes are checked by whose programs have codecs

  /// What the plugin selects for. All sizes have block tables, or none has.
  struct CallTerms {
    bool allowLoss = false, haveTables = false;
  } calls = {};

  /// What the plugin selects for a call of so many bytes. Only where there is a collective.
  std::optional<runtime::SelectedProgram> selectFor(int64_t numBytes) const;
  /// The program; where the plugin selects it, the one for the smallest size. Null when there is none.
  const runtime::ProgramInfo *info() const;
  /// The program of a size of `sizes`. Null when there is none.
  const runtime::ProgramInfo *programFor(const SizeJob &size) const;
  /// The mesh dimensions over which the call runs. Selected programs run over all ranks.
  std::vector<int64_t> groupDims() const;
  /// The program's name, or the collective's.
  std::string name() const;
  runtime::MemoryKind memoryKind() const;
  /// One call of a size of `sizes`, without buffers.
  runtime::CallArguments argumentsFor(const SizeJob &size) const;
  /// Whether another process of the launcher reports for all.
  bool isSilent() const;
};

/// Ranks that collect with each other.
int64_t groupSizeOf(const RankJob &job);
/// Of a size that there is a program for.
CallBlocks blocksOf(const RankJob &job, const SizeJob &size);

/// Of one call, by rank.
using Traffics = std::vector<runtime::Traffic>;

/// Microseconds of every iteration: from the first rank's start, after a barrier, to the last rank's end. On devices
/// what the slowest of them takes, by its own events; of a launcher's ranks likewise, by its own clock. Each of them
/// has the times of all.
using Timings = std::vector<double>;

/// Runs all sizes, in order; `atEnd` is called in this process whenever a size is done. Throws ToolError: Refused for
/// wrong data, Failed when ranks could not run to the end; the message names the rank.
/// `traffic` gets that of the last size; the job's options ask for counting then, and not for devices.
std::vector<Timings> runRanks(const RankJob &job, const std::function<void(size_t done)> &atEnd,
                              Traffics *traffic = nullptr);

} // namespace kolo::tools
