// Communicator: a group of ranks on one host that run collectives from plugins together.
//
// Environment variables, read when a communicator is made; a value that cannot be understood is an error that names it:
//   KOLO_TIMEOUT_MS        milliseconds, replaces CommunicatorOptions::timeoutMs
//   KOLO_WAIT              auto | spin | yield | sleep: how a rank waits for another
//   KOLO_ORDINARY_MEMORY   auto | attach | staged: how peers reach memory that is in no window (worlds of processes)
#pragma once

#include "kolo/runtime/Channel.h"
#include "kolo/runtime/Export.h"
#include "kolo/runtime/Plugin.h"
#include "kolo/runtime/Status.h"
#include "kolo/runtime/Types.h"
#include "kolo/runtime/Window.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace kolo::runtime {

inline constexpr int maxRanks = 256;
inline constexpr int maxLanes = 64;

struct CommunicatorOptions {
  int timeoutMs = 30000; // longest wait for a peer, in any one wait
  int lanes = 1;         // workers per rank, the calling thread included; the same on every rank
};

/// One call of a collective. Everything but the pointers must be the same on every rank.
struct CallArguments {
  std::string_view program; // empty: the plugin's only one, or what it selects for `collective`
  Mesh mesh;                // one that the program was compiled for; its ranks are the communicator's
  int64_t count = 0;        // elements, as in NCCL: see KoloProgram
  DataType type = DataType::F32;
  Reduction reduction = Reduction::Sum; // ignored by programs that reduce nothing
  int root = 0;                         // inside the group; ignored by collectives without a root
  const void *input = nullptr;          // may be null where the collective reads nothing on this rank
  void *output = nullptr;               // may be null where it writes nothing
  // With an empty program name: the plugin's selection takes a program for this collective, by the number of ranks, the
  // bytes of the larger buffer, and whether this rank's buffers lie in windows. With a name: what that program has to
  // do.
  std::optional<CollectiveKind> collective = {};
};

struct ForkedRanksState;

/// What ranks that are forked from one parent share. The parent creates it before it forks; each child then calls
/// Communicator::createForked. It names no file: nothing remains when all processes have ended, however they end.
class KOLO_RUNTIME_API ForkedRanks {
public:
  /// InvalidArgument: numRanks is not in 1..maxRanks. OutOfMemory, SystemError.
  static Result<ForkedRanks> create(int numRanks);
  int size() const;

private:
  friend class Communicator;
  explicit ForkedRanks(std::shared_ptr<ForkedRanksState> state);
  std::shared_ptr<ForkedRanksState> state;
};

class CommunicatorState;

/// One rank's end. Movable, not copyable, used by one thread at a time. Destroying it tells the peers that this rank
/// has left: whoever waits for it then fails with PeerLost.
///
/// After Timeout or PeerLost on any rank the communicator is aborted on all: calls in progress return that failure,
/// later ones Aborted with the original cause. After every other error it stays usable.
class KOLO_RUNTIME_API Communicator {
public:
  /// numRanks communicators for threads of this process, by rank. Does not block.
  /// InvalidArgument: numRanks, an option or an environment variable is out of range. OutOfMemory, SystemError.
  static Result<std::vector<Communicator>> createThreads(int numRanks, const CommunicatorOptions &options = {});

  /// Joins a world made by the parent. Blocks until all ranks have joined. Errors as for createThreads, and: Mismatch
  /// (ranks disagree on an option, a rank joined twice), Timeout (a rank did not join, which the message names),
  /// PeerLost, SystemError (KOLO_ORDINARY_MEMORY=attach where that is not permitted).
  static Result<Communicator> createForked(const ForkedRanks &forked, int rank,
                                           const CommunicatorOptions &options = {});

  /// Joins the processes that share RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; rank 0 listens there. Blocks until
  /// all ranks have joined, attempts included. Errors as for createForked; a variable that is missing or bad is an
  /// InvalidArgument that names every such variable; a rank on another host is refused with SystemError on all ranks:
  /// there is no network transport. A connection that does not speak Kolo's protocol is ignored.
  static Result<Communicator> createFromEnvironment(const CommunicatorOptions &options = {});

  Communicator(Communicator &&) noexcept;
  Communicator &operator=(Communicator &&) noexcept;
  ~Communicator();

  int rank() const;
  int size() const;

  /// A window of sizeBytes zeroed bytes. Local: peers need not call it. InvalidArgument: sizeBytes is 0. OutOfMemory:
  /// more than is available, checked beforehand. SystemError.
  Result<Window> allocate(size_t sizeBytes);

  /// Returns when every rank has entered. Collective, blocking. Mismatch, Timeout, PeerLost, Aborted.
  Status barrier();

  /// Every rank's window, by rank, this rank's own included, for use with channels. Collective, blocking; sizes may
  /// differ. Mismatch, Timeout, PeerLost, Aborted; SystemError or OutOfMemory when a window cannot be mapped.
  Result<std::vector<RemoteWindow>> exchange(const Window &window);

  /// The channel to and from `peer` with this id; see Channel. Never blocks. A wrong peer or id is reported by its use.
  Channel channel(int peer, int id);

  /// Runs one collective; all ranks call it with the same plugin and the same arguments but for the pointers. Returns
  /// when the outputs are written and no peer touches this rank's memory any more. Memory in windows is used in place;
  /// see KOLO_ORDINARY_MEMORY for other memory. Where the plugin selects the program, ranks that differ in whether
  /// their buffers lie in windows may get different ones, which is a Mismatch; no entry for the call is an
  /// InvalidArgument. InvalidArgument, UnsupportedMesh: on this rank; the others return the same at once and name it.
  /// Mismatch: ranks disagree, the message says on what. OutOfMemory, SystemError: on any rank, all return it.
  /// BadPlugin: no kernel for this type and reduction. Timeout, PeerLost, Aborted.
  Status run(const Plugin &plugin, const CallArguments &arguments);

private:
  friend class DeviceMeeting;
  explicit Communicator(std::unique_ptr<CommunicatorState> state);
  std::unique_ptr<CommunicatorState> state;
};

} // namespace kolo::runtime
