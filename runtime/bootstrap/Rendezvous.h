// Rendezvous: processes that only know RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT find rank 0's control segment.
//
// Every other rank connects to rank 0 and says Hello. Rank 0 answers all at once, when all have come or when something
// is wrong: with a Welcome that says where the control segment is, or why there is none. Nothing else goes over the
// network.
#pragma once

#include "Environment.h"
#include "bootstrap/Host.h"
#include "bootstrap/Socket.h"
#include "transport/Peers.h"

#include <memory>
#include <vector>

namespace kolo::runtime {

struct RankEnvironment {
  int rank = 0;
  int worldSize = 1;
  Address master;
};

/// Reads the four variables. InvalidArgument: names every one that is missing or bad.
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

/// Rank 0: waits for all others. Returns the control segment with everybody's process number in it.
/// Timeout, Mismatch, SystemError: the others are told the same.
Result<std::shared_ptr<ControlMemory>> hostRendezvous(const RankEnvironment &place, const Settings &settings);
/// Any other rank: retries until rank 0 is there. Timeout, SystemError, or what rank 0 says.
Result<std::shared_ptr<ControlMemory>> joinRendezvous(const RankEnvironment &place, const Settings &settings);

} // namespace kolo::runtime
