// Ranks for tests: one body on every rank, as threads, as forked processes, or as processes that meet by rendezvous.
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

/// Runs on one rank and returns what went wrong; "" is success.
using RankBody = std::function<std::string(Communicator &)>;
/// Likewise, where the rank itself makes its communicator.
using ProcessBody = std::function<std::string(int rank)>;

/// Makes ranks, runs the body on each, and returns what they said, joined, each with its rank; "" is success.
std::string runRanks(Launch kind, int numRanks, const CommunicatorOptions &options, const RankBody &body);

/// Forks one process per rank, and kills those that take longer than 20 s. Returns what each said, "killed by signal N"
/// or "exited with N".
std::vector<std::string> runProcesses(int numRanks, const ProcessBody &body,
                                      const std::function<void(const std::vector<int> &pids)> &meanwhile = {});

/// The host of a rank, as KOLO_HOSTID says it.
using HostOf = std::function<std::string(int rank)>;
inline std::string pairs(int rank) { return "host" + std::to_string(rank / 2); }
inline std::string alone(int rank) { return "host" + std::to_string(rank); }

/// Likewise on ranks of several hosts, which meet by rendezvous. Returns what they said, joined, each with its rank; ""
/// is success.
std::string onHosts(int numRanks, const HostOf &hostOf, const CommunicatorOptions &options, const RankBody &body,
                    const std::function<void(const std::vector<int> &pids)> &meanwhile = {});

/// A port that was free a moment ago.
int freePort();
void setRankEnvironment(int rank, int worldSize, int port);

/// "" if the status has this code and its message contains all texts; else code and message.
std::string expectStatus(const Status &status, StatusCode code, const std::vector<std::string> &texts = {});

/// For a failure that ends the communicator: `code` from a call that was under way, Aborted with the same cause from
/// one that began after another rank had noticed.
std::string expectFailure(const Status &status, StatusCode code, const std::vector<std::string> &texts);

/// Open descriptors of this process.
int countDescriptors();
/// Kolo's named objects of shared memory, of all processes, without those of the door for NCCL, whose tests may run at
/// the same time.
int countSharedMemory();

/// Mappings of the runtime's memory in this process, and their bytes.
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
