// Worlds for tests: the same body on every rank, as threads, as forked processes, or as processes that meet by TCP.
#pragma once

#include "kolo/runtime/Communicator.h"

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace kolo::test {

using runtime::Communicator;
using runtime::CommunicatorOptions;
using runtime::Status;
using runtime::StatusCode;

enum class Launch { Threads, Forked, Environment };
std::ostream &operator<<(std::ostream &out, Launch kind);

/// What a rank has to say: empty when all is well.
using RankBody = std::function<std::string(Communicator &)>;
/// For a world that a rank may fail to enter.
using ProcessBody = std::function<std::string(int rank)>;

/// Runs the body in every rank of a new world and returns what they said, joined, each with its rank; "" is success.
std::string runRanks(Launch kind, int numRanks, const CommunicatorOptions &options, const RankBody &body);

/// Forks one process per rank; returns what each said, "killed by signal N" or "exited with N". Kills those that take
/// longer than 20 s.
std::vector<std::string> runProcesses(int numRanks, const ProcessBody &body,
                                      const std::function<void(const std::vector<int> &pids)> &meanwhile = {});

/// A port that was free a moment ago.
int freePort();
void setRankEnvironment(int rank, int worldSize, int port);

/// "" if the status is what is expected and its message contains every one of the texts; else what it is.
std::string expectStatus(const Status &status, StatusCode code, const std::vector<std::string> &texts = {});

/// The entries of a folder, to compare before and after.
int countEntries(const char *folder);
/// Open descriptors of this process.
inline int countDescriptors() { return countEntries("/proc/self/fd"); }

/// Mappings, in this process, of memory that the runtime made.
int countMappings();
int64_t mappedBytes();

/// Sets a variable for a scope.
class ScopedVariable {
public:
  ScopedVariable(const char *variable, const char *value);
  ~ScopedVariable();

private:
  const char *name;
};

} // namespace kolo::test
