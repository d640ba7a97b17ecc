// Communicator: a group of ranks, on one host or on several, that run collectives from plugins together.
//
// A communicator reads these environment variables when it is made. A bad value is an error that names the variable.
//   KOLO_TIMEOUT_MS        milliseconds; replaces CommunicatorOptions::timeoutMs
//   KOLO_WAIT              auto | spin | yield | sleep: how a rank waits for another
//   KOLO_ORDINARY_MEMORY   auto | attach | staged: how a peer process reaches memory outside of windows
#pragma once

#include "kolo/runtime/Channel.h"
#include "kolo/runtime/Export.h"
#include "kolo/runtime/Plugin.h"
#include "kolo/runtime/Status.h"
#include "kolo/runtime/Types.h"
#include "kolo/runtime/Window.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace kolo::runtime {

inline constexpr int maxRanks = 131072;
inline constexpr int maxRanksOfHost = 4096; // of one communicator
inline constexpr int maxLanes = 64;

struct CommunicatorOptions {
  int timeoutMs = 30000; // longest wait for a peer, in any one wait; the same on every rank
  int lanes = 1;         // workers per rank, the calling thread included; the same on every rank
  // What the calling thread calls between looks in every wait for a peer; no wait then sleeps longer than 100 us, plus
  // what the kernel adds. For libraries that must answer their peers while they wait, as MPI does. It must not throw,
  // and must not use this communicator. Ranks may differ in it.
  std::function<void()> progress = {};
  bool countsTraffic = false; // see Communicator::traffic. Ranks may differ in it
  // What the communicator is for, such as "dp", "tp" or "pp"; the same on every rank. A plugin's selection may have
  // entries for a tag: so that gradients are compressed, and activations are not.
  std::string tag = {};
  // Whether a rank that needs nothing of others returns from a rooted call on one host before they come to it. That is
  // the root of a small broadcast or scatter, and the other ranks of a small reduce or gather. Then a Mismatch, or a
  // null buffer, may only be found in a later call, and aborts the communicator. The same on every rank.
  bool runsAhead = false;
};

/// What this rank moved and said. The bytes are those of programs, in whatever memory; packets count as the data in
/// them.
struct Traffic {
  int64_t sentBytes = 0;    // that this rank wrote to its peers' memory
  int64_t fetchedBytes = 0; // that it read from there
  int64_t messages = 0;     // to other hosts, so that ranks agree on what they call
  int64_t connections = 0;  // with ranks of other hosts that were made so far
};

/// One call of a collective. All ranks pass the same values, also whether they name the program; only the pointers
/// differ, and what a comment says is ignored. The caller owns the buffers.
struct CallArguments {
  std::string_view program; // empty: the plugin's only program, or the one that it selects for `collective`
  Mesh mesh;                // a mesh that the program was compiled for, with the communicator's number of ranks
  int64_t count = 0;        // elements, as in NCCL: see KoloProgram
  DataType type = DataType::F32;
  Reduction reduction = Reduction::Sum; // ignored by programs that reduce nothing
  int root = 0;                         // rank inside the group; ignored by collectives without a root
  const void *input = nullptr;          // may be null where the collective reads nothing on this rank
  void *output = nullptr;               // may be null where it writes nothing
  // With an empty program name, the plugin selects a program for this collective. It decides by the mesh, the bytes of
  // the larger buffer, and whether the buffers of all ranks lie in windows. With a program name, the call is refused if
  // that program does another collective.
  std::optional<CollectiveKind> collective = {};
  // Whether the plugin may select a program that loses bits where the table does not allow it. A named program runs in
  // any case. The same on all ranks, also then.
  bool allowsLoss = false;
  // On devices, of a call whose program is named, where DeviceOptions leave lanes to the table: what the table says. 0:
  // nothing. The same on all ranks.
  int lanes = 0;
  // With a kernel, it stands for `type` and `reduction`, which are then ignored. For programs that reduce.
  CustomReduction custom = {};
  // With tables, blocks have counts of their own, as in MPI's Allgatherv and Alltoallv, and `count` is ignored on
  // hosts; of devices, see DeviceCommunicator::run. For all-gather, reduce-scatter, all-to-all, gather and scatter, by
  // programs that take tables on the mesh: see Proof::takesTables. All ranks have tables, or none has. A buffer of one
  // block has tables of one entry. What one rank gives, the other takes. Blocks may be empty. Those of an output do not
  // overlap.
  const BlockTables *blocks = nullptr;
  // With lists, and tables, the blocks of the caller's buffers are rows that the lists choose, and are moved from and
  // to where these rows are. On hosts, by programs that take them: see Proof::takesRows. Ranks may differ in it.
  const RowLists *rows = nullptr;
};

/// The caller's own all-gather: copies sizeBytes bytes of every rank to `all`, by rank, this rank's own included.
/// Blocking. Another status than Ok ends the join on this rank with that status.
using AllGather = std::function<Status(const void *own, size_t sizeBytes, void *all)>;

/// Whether createFromEnvironment will ask all ranks to prove a secret: KOLO_SECRET or KOLO_SECRET_FILE is set.
/// InvalidArgument, SystemError: the secret cannot be used; the message says why, and holds no part of it.
KOLO_RUNTIME_API Result<bool> isSecretSet();

struct ForkedRanksState;

/// What ranks that are forked from one parent share. The parent creates it before it forks; each child then calls
/// Communicator::createForked. It has no name in a file system, so nothing remains when all processes have ended.
class KOLO_RUNTIME_API ForkedRanks {
public:
  /// InvalidArgument: numRanks is not in 1..maxRanksOfHost. OutOfMemory, SystemError.
  static Result<ForkedRanks> create(int numRanks);
  int size() const;

private:
  friend class Communicator;
  explicit ForkedRanks(std::shared_ptr<ForkedRanksState> state);
  std::shared_ptr<ForkedRanksState> state;
};

class CommunicatorState;

/// One rank's end. Movable, not copyable; one thread uses it at a time. Its destructor tells the peers that this rank
/// has left. A peer that waits for this rank then fails with PeerLost.
///
/// Timeout or PeerLost on any rank aborts the communicator on all ranks. Calls in progress return that failure, and
/// later calls return Aborted with the original cause. After every other error the communicator stays usable, except
/// in a call that ranks of several hosts repeat without agreeing on it again: see docs/several-hosts.md.
class KOLO_RUNTIME_API Communicator {
public:
  /// Makes numRanks communicators for threads of this process, by rank. Does not block.
  /// InvalidArgument: numRanks, an option or an environment variable is out of range. OutOfMemory, SystemError.
  static Result<std::vector<Communicator>> createThreads(int numRanks, const CommunicatorOptions &options = {});

  /// Joins the ranks for which the parent made `forked`. Blocks until all ranks have joined. Errors as for
  /// createThreads, and:
  ///   Mismatch     ranks disagree on an option, or a rank joined twice
  ///   Timeout      a rank did not join; the message names it
  ///   PeerLost     a rank ended
  ///   SystemError  KOLO_ORDINARY_MEMORY=attach, and the kernel does not permit it
  static Result<Communicator> createForked(const ForkedRanks &forked, int rank,
                                           const CommunicatorOptions &options = {});

  /// Rendezvous of the processes that RANK and WORLD_SIZE number, or else their launcher: see readLaunchedRank. Rank 0
  /// listens at MASTER_ADDR and MASTER_PORT, and the others connect until they reach it. Blocks until all ranks have
  /// joined. Ignores connections that do not speak Kolo's protocol. The ranks may be on several hosts, which then
  /// connect over TCP: see docs/several-hosts.md. Errors as for createForked, and:
  ///   InvalidArgument  variables are missing or bad; the message names all of them. Or isSecretSet fails
  ///   Mismatch         some ranks have no secret or another one; the message names them
  ///   SystemError      MASTER_PORT is taken, or an address cannot be used
  static Result<Communicator> createFromEnvironment(const CommunicatorOptions &options = {});

  /// Joins ranks that the caller connects: threads, processes, or processes of several threads, of one host; or
  /// processes of several hosts, which then connect over TCP. Every rank calls `exchange` two to four times, with the
  /// same size as the others, at most 512 bytes, and not after the return. Blocks until all ranks have joined. A
  /// process may be in any number of communicators, and makes and destroys them in any order; communicators with a rank
  /// in common are made in the same order by both ranks, as `exchange` requires. Errors as for createForked, and:
  ///   InvalidArgument  rank or size is out of range; this rank alone returns it, without calling `exchange`
  ///   InvalidArgument, Mismatch, SystemError, PeerLost, Timeout of several hosts: as for createFromEnvironment, on all
  ///                    ranks, also if some cannot connect to each other within 30 s
  static Result<Communicator> create(int rank, int size, const AllGather &exchange,
                                     const CommunicatorOptions &options = {});

  Communicator(Communicator &&) noexcept;
  Communicator &operator=(Communicator &&) noexcept;
  ~Communicator();

  int rank() const;
  int size() const;

  /// Makes a window of sizeBytes zeroed bytes. Local: peers need not call it. InvalidArgument: sizeBytes is 0.
  /// OutOfMemory: less memory is available; the runtime checks this before it touches memory. SystemError.
  Result<Window> allocate(size_t sizeBytes);

  /// Makes the memory of a window of this process a window of this communicator too. Local. The memory lives until all
  /// of its windows are destroyed. OutOfMemory.
  Result<Window> adopt(const Window &window);

  /// Returns when every rank has entered. Collective, blocking. Mismatch, Timeout, PeerLost, Aborted.
  Status barrier();

  /// Begins a barrier and returns its number, which counts from 1. Never blocks, and needs no call of this rank while
  /// others complete it. All ranks begin equally many; between them they may call anything else, in any order.
  /// UnsupportedMesh: ranks are on several hosts. InvalidArgument, Aborted.
  Result<uint64_t> beginBarrier();
  /// Whether every rank has begun the barrier with this number. Any thread. Never blocks. InvalidArgument: this rank
  /// has not begun it. PeerLost, Aborted.
  Result<bool> isBarrierOver(uint64_t number) const;
  /// Returns when every rank has begun the barrier with this number. Any thread, which then calls
  /// CommunicatorOptions::progress. Blocking. InvalidArgument, Timeout, PeerLost, Aborted.
  Status finishBarrier(uint64_t number) const;

  /// Returns every rank's window, by rank, this rank's own included; channels use them. Collective, blocking. Sizes may
  /// differ. Mismatch, Timeout, PeerLost, Aborted. SystemError, OutOfMemory: a window cannot be mapped.
  Result<std::vector<RemoteWindow>> exchange(const Window &window);

  /// The channel to and from `peer` with this id. Never blocks. The functions of Channel report a wrong peer or id.
  Channel channel(int peer, int id);

  /// Runs one collective. Collective, blocking: all ranks call it with the same plugin and arguments, but for the
  /// pointers. Returns when the outputs are written and no peer accesses this rank's memory any more.
  /// Peers access windows directly; KOLO_ORDINARY_MEMORY says how they reach other memory.
  ///
  /// An error of one rank is returned by all ranks at once, and the message names that rank:
  ///   InvalidArgument  an argument is wrong, or the plugin's selection has no entry for the call
  ///   UnsupportedMesh  the program was not compiled for the mesh, or not proved on it
  ///   Mismatch         ranks disagree; the message says on what. On counts of blocks: of which two ranks
  ///   BadPlugin        the plugin has no code for this type and reduction
  ///   OutOfMemory, SystemError, Timeout, PeerLost, Aborted
  Status run(const Plugin &plugin, const CallArguments &arguments);

  /// Whether `run` has a program for this call: Ok, or why not. Local, and never blocks. The answer depends only on
  /// what all ranks share, so all ranks get the same one: it ignores the pointers, and holds for buffers in any memory.
  /// Of block tables, it asks whether there are any, and the answer holds for all counts.
  /// Allocates memory; a caller that asks for every call keeps the answers. InvalidArgument, UnsupportedMesh,
  /// BadPlugin, as for `run`.
  Status carries(const Plugin &plugin, const CallArguments &arguments) const;

  /// The meshes of all ranks by which a caller that knows none asks for a program, in this order. With several hosts of
  /// equally many ranks, of which each has the next ones: "node" and "gpu". Always: "rank".
  std::vector<Mesh> meshes() const;

  /// Since the rank joined. Bytes are zeros unless the options ask for counting.
  Traffic traffic() const;

private:
  friend class DeviceMeeting;
  explicit Communicator(std::unique_ptr<CommunicatorState> state);
  std::unique_ptr<CommunicatorState> state;
};

} // namespace kolo::runtime
