// Two hosts that run generated code with ranks as threads: the runtime, and one that does only what the plugin ABI
// requires.
#pragma once

#include "Oracle.h"
#include "kolo/runtime/Communicator.h"

#include <memory>
#include <string>
#include <vector>

namespace kolo::race {

struct RankBuffers {
  void *input = nullptr; // may be null where the collective reads nothing
  void *output = nullptr;
};

/// Calls of one shape, in the same buffers.
struct Job {
  const runtime::ProgramInfo *info;
  CallShape shape;
  runtime::DataType type;
  int lanes;
  std::vector<RankBuffers> buffers; // by rank
};

/// Runs one program; one job at a time.
class Host {
public:
  virtual ~Host() = default;
  /// Before the ranks of a job start.
  virtual void prepare(const Job &job) = 0;
  /// One call of the current job, by every rank on a thread of its own. What went wrong, or nothing.
  virtual std::string call(int rank) = 0;
};

/// The runtime as it is. Ranks exchange records at the entry of each call, so that nothing that a rank does in a call
/// comes before another's entry.
std::unique_ptr<Host> makeRuntimeHost(const runtime::Plugin &plugin, const runtime::ProgramInfo &info,
                                      const std::vector<int64_t> &mesh, int lanes);

/// Calls go straight into the code: ranks meet in the semaphores of the program and nowhere else, so that a rank may be
/// a call ahead of its peers wherever the program permits it.
std::unique_ptr<Host> makeBareHost(const std::string &path, const runtime::ProgramInfo &info);

} // namespace kolo::race
