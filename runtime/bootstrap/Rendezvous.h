// Rendezvous: processes that know only their rank, MASTER_ADDR and MASTER_PORT find rank 0's control segment.
//
// Every other rank connects to rank 0 and sends an Opening. Rank 0 answers with a Challenge, and the rank sends a
// Hello. If there is a secret, Challenge and Hello prove that their senders have it. When all ranks have come, or after
// the first error, rank 0 sends a Welcome to all of them. It says where the control segment is, or why there is none.
// If all ranks are on one host, nothing else uses the network.
//
// If they are on several hosts, the rank with the lowest number on each host makes a control segment there. Every rank
// listens, and sends rank 0 an Arrival. Rank 0 sends each rank a Guidance, which names its neighbours, and they
// connect. The lowest ranks of the hosts tell each other where all ranks are: see RosterRounds.
#pragma once

#include "base/Environment.h"
#include "bootstrap/Secret.h"
#include "network/Socket.h"
#include "peers/Peers.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kolo::runtime {

/// Equal for two processes exactly when they can open each other's memory by process number: they have the same boot of
/// the same kernel, the same process and user namespaces, and the same user and group. Others share no memory, and are
/// as on different hosts. Host names do not tell. KOLO_HOSTID replaces it.
struct HostId {
  static constexpr size_t maxBytes = 80; // with the zero at the end
  char text[maxBytes] = {};
  bool operator==(const HostId &) const = default;
};

/// Parts that cannot be read stay empty. InvalidArgument: KOLO_HOSTID is empty or too long.
Result<HostId> currentHost();
/// What messages call this host: its name, or KOLO_HOSTID.
std::string hostName();
/// Whether that is the name of this machine, which no process of another machine has. Then two processes of one machine
/// for which this holds have the same name. It does not with KOLO_HOSTID, or in a container with a name of its own.
bool isNamedByMachine();

/// The variables as read.
struct RankEnvironment {
  int rank = 0;
  int worldSize = 1;
  Address master;
};

/// Reads the variables: see readLaunchedRank. InvalidArgument: names every one that is missing or bad.
Result<RankEnvironment> readRankEnvironment();

/// Where a rank has its control segment.
struct ControlPlace {
  int pid = 0;
  int fd = -1; // in that process
  uint64_t sizeBytes = 0;
};
/// Maps the control segment of another rank of this host. Mismatch: its size is wrong. SystemError, OutOfMemory.
Result<std::shared_ptr<ControlMemory>> openControl(const ControlPlace &place, int numRanks, int numHere);

/// What a rank finds: its host's control segment, with the process numbers of the ranks there, and its connections to
/// other hosts, null if there are none.
struct Meeting {
  std::shared_ptr<ControlMemory> control;
  std::shared_ptr<HostLinks> links;
  RankKind kind = RankKind::Processes; // of the ranks of this host
};

/// Rank 0: blocks until all other ranks have come. Timeout, Mismatch, SystemError: rank 0 sends the same to the others.
Result<Meeting> hostRendezvous(const RankEnvironment &environment, const Settings &settings, const OptionalKey &secret);
/// Any other rank: blocks, and connects until rank 0 answers. Timeout, SystemError, or the error that rank 0 sends.
Result<Meeting> joinRendezvous(const RankEnvironment &environment, const Settings &settings, const OptionalKey &secret);
/// One of the two, with the secret of the environment. Errors as of isSecretSet, too.
Result<Meeting> meetByEnvironment(const RankEnvironment &environment, const Settings &settings);

} // namespace kolo::runtime
