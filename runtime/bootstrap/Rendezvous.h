// Rendezvous: processes that know only their rank, MASTER_ADDR and MASTER_PORT find rank 0's control segment.
//
// Every other rank connects to rank 0 and sends a Hello. When all ranks have come, or after the first error, rank 0
// sends a Welcome to all of them. It says where the control segment is, or why there is none. Nothing else uses the
// network.
#pragma once

#include "Environment.h"
#include "bootstrap/Socket.h"
#include "transport/Peers.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace kolo::runtime {

/// Equal for two processes exactly when they can see each other by process number: they have the same boot of the same
/// kernel, and the same process namespace. Host names do not tell.
struct HostId {
  char boot[40] = {};
  uint64_t pidNamespace = 0;
  bool operator==(const HostId &) const = default;
};

/// Parts that cannot be read stay empty.
HostId currentHost();

/// The variables as read.
struct RankEnvironment {
  int rank = 0;
  int worldSize = 1;
  Address master;
};

/// Reads the variables: see readLaunchedRank. InvalidArgument: names every one that is missing or bad.
Result<RankEnvironment> readRankEnvironment();

inline constexpr uint32_t rendezvousVersion = 1;
inline constexpr char helloMagic[8] = {'K', 'O', 'L', 'O', 'H', 'E', 'L', 'O'};
inline constexpr char welcomeMagic[8] = {'K', 'O', 'L', 'O', 'W', 'E', 'L', 'C'};

struct Hello {
  char magic[8] = {};
  uint32_t version = rendezvousVersion;
  int32_t rank = 0;
  int32_t worldSize = 0;
  int32_t pid = 0;
  HostId host;
};

struct Welcome {
  char magic[8] = {};
  uint32_t version = rendezvousVersion;
  StatusCode code = StatusCode::Ok; // not Ok: `message` and `culprit` say why
  int32_t culprit = -1;
  int32_t rootPid = 0;
  int32_t controlFd = -1; // in rank 0's process
  uint64_t controlBytes = 0;
  char message[256] = {};
};

/// Where rank 0 has its control segment.
struct ControlPlace {
  int pid = 0;
  int fd = -1; // in that process
  uint64_t sizeBytes = 0;
};
/// Maps the control segment of rank 0. Mismatch: its size is wrong. SystemError, OutOfMemory.
Result<std::shared_ptr<ControlMemory>> openControl(const ControlPlace &place, int numRanks);

/// Rank 0: blocks until all other ranks have come. Returns the control segment with the process numbers of all ranks.
/// Timeout, Mismatch, SystemError: rank 0 sends the same to the others.
Result<std::shared_ptr<ControlMemory>> hostRendezvous(const RankEnvironment &environment, const Settings &settings);
/// Any other rank: blocks, and connects until rank 0 answers. Timeout, SystemError, or the error that rank 0 sends.
Result<std::shared_ptr<ControlMemory>> joinRendezvous(const RankEnvironment &environment, const Settings &settings);

} // namespace kolo::runtime
