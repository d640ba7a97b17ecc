// Door: what the libraries share through which applications reach Kolo without knowing it: plugins, counts and a log.
//
// A door reads these environment variables when it is opened. A bad value is an error that names the variable. An empty
// one counts as not set, and so does every variable in a program that the kernel starts with more rights than its
// caller.
//   KOLO_PLUGIN_PATH   plugin files, and folders whose *.kolo.so are plugins, with ':' between them; the first plugin
//                      with a program for a call carries it. Default: the plugin of `kolo tune` for this machine
//                      (Tuned.h), if there is one, then kolo/default.kolo.so beside this library
//   KOLO_STATS         0 | 1: one line at exit
//   KOLO_DEBUG         info | trace: log what is decided once, or every call
#pragma once

#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Export.h"
#include "kolo/runtime/Plugin.h"
#include "kolo/runtime/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kolo::runtime {

enum class LogLevel : uint8_t { Off, Info, Trace };

/// What all ranks agree on in a call, whichever API it came through. A door decides about a call by this, and by what
/// its own API adds.
struct CallShape {
  CollectiveKind kind = CollectiveKind::AllReduce;
  DataType type = DataType::U8; // bytes, where data only moves
  Reduction reduction = Reduction::Sum;
  int64_t count = 0; // as in CallArguments
  int root = 0;
  CustomReduction custom = {}; // as in CallArguments
  auto operator<=>(const CallShape &) const = default;

  int64_t elementBytes() const { return custom.kernel ? custom.elementBytes : static_cast<int64_t>(sizeBytes(type)); }

  /// Of the larger buffer of any of so many ranks.
  KOLO_RUNTIME_API int64_t largestBytes(int numRanks) const;
  /// Leaves the program, the mesh and the buffers as they are.
  KOLO_RUNTIME_API void enter(CallArguments &arguments) const;
};

struct DoorState;

/// Movable, not copyable. Its functions are for any thread.
class KOLO_RUNTIME_API Door {
public:
  /// `name`: for statistics, "mpi".
  ///   InvalidArgument  a variable is bad, or KOLO_PLUGIN_PATH names nothing
  ///   BadPlugin        as for Plugin::loadTrusted, but for the plugin that ships; or a folder holds no plugin
  ///   UnsupportedCpu, SystemError, OutOfMemory, as for Plugin::load
  static Result<Door> open(const std::string &name);
  /// One without plugins, which carries nothing. InvalidArgument: a variable is bad.
  static Result<Door> openEmpty(const std::string &name);

  Door(Door &&) noexcept;
  Door &operator=(Door &&) noexcept;
  ~Door();

  /// In the order of the path.
  const std::vector<Plugin> &plugins() const;
  /// One line for the user if the plugin of `kolo tune` is there and cannot be used; the one that ships is used then.
  /// Else empty.
  const std::string &notice() const;
  /// "PATH", or "PATH (1 of its programs is represented on some mesh, not proved)": for the logs of doors.
  static std::string describe(const Plugin &plugin);
  /// Of all plugins, in their order. Ranks with equal numbers would carry the same calls.
  uint64_t identity() const;
  /// Whether any plugin has a program for ranks on several hosts.
  bool hasNetworkPrograms() const;

  /// The first plugin with a program for the call on one of Communicator::meshes, as Communicator::carries tells; sets
  /// the mesh. Null when there is none; `why` is then what the first plugin lacks. The same on all ranks whose doors
  /// have one identity.
  const Plugin *find(const Communicator &communicator, CallArguments &arguments, std::string &why) const;

  LogLevel logLevel() const;
  bool wantsStatistics() const;
  void countCarried(int64_t numBytes);
  /// `reason`: a few words, for example "user operation"; must live as long as the door.
  void countForwarded(const char *reason);
  int64_t numCarried() const;
  /// "kolo mpi: 12 calls: 10 carried (4096 bytes), 2 forwarded (2 user operation)". Reasons by descending number.
  std::string statistics() const;

private:
  explicit Door(std::unique_ptr<DoorState> state);
  std::unique_ptr<DoorState> state;
};

/// The place that a launcher gave this process.
struct LaunchedRank {
  int rank = 0;
  int size = 1;
  std::string variables; // that say so: "RANK and WORLD_SIZE"
};

/// Reads RANK and WORLD_SIZE; without RANK, the variables of Open MPI's mpirun, then of MPICH's (PMI), then of Slurm's
/// srun. InvalidArgument: there are none, or they are bad; the message names them.
KOLO_RUNTIME_API Result<LaunchedRank> readLaunchedRank();

/// Equal for ranks that Communicator::create takes for ranks of one host. Not 0. InvalidArgument: KOLO_HOSTID is bad.
KOLO_RUNTIME_API Result<uint64_t> hostNumber();

} // namespace kolo::runtime
