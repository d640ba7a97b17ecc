// DeviceMeeting: exchanges on the host between ranks in several threads or processes that start collectives on devices.
#pragma once

#include "device/DeviceDriver.h"
#include "kolo/runtime/Device.h"
#include "transport/Peers.h"

#include <optional>
#include <vector>

namespace kolo::runtime {

/// Where memory of a rank is, for its peers.
struct DeviceLocation {
  uint64_t address = 0;     // in the owner's process; 0: none
  uint64_t offsetBytes = 0; // in its allocation
  uint64_t id = 0;          // of the allocation; never used twice in the owner's process
  KoloDriverHandle handle = {};
};

/// What a rank announces in one exchange.
struct DeviceRecord {
  uint64_t callNumber = 0;          // this rank's number of the call: see DeviceState::exchangeNumbers
  StatusCode code = StatusCode::Ok; // not Ok: this rank refuses, and `message` says why
  int32_t mustDrain = 0;            // this rank must free memory before it can go on
  char message[320] = {};
  CallKey call;
  DeviceLocation buffers[KOLO_NUM_BUFFER_ROLES];
  DeviceLocation semaphores;
  // When joining.
  int32_t pid = 0, device = -1, lanes = 0, threads = 0, kind = 0;
  uint8_t uuid[16] = {};
};

/// One rank's end. All ranks call the same functions in the same order. If a rank does not come, the communicator of
/// the host is aborted: Timeout, PeerLost, Aborted.
class DeviceMeeting {
public:
  static Result<DeviceMeeting> create(Communicator host);

  int rank() const { return host.rank(); }
  int size() const { return host.size(); }

  /// The empty record for the next exchange; the caller fills it before `perform`.
  DeviceRecord &next();
  /// The same record, with what it holds now.
  DeviceRecord &said() { return recordsIn(own.data())[(sequence + 1) % 2]; }
  /// Blocks until all ranks have announced theirs. `heard` gives them until the next call of `next`.
  Status perform();
  const DeviceRecord &heard(int peer) const;
  /// The refusal of the first rank that refused, as a Status for this rank.
  Status firstRefusal() const;

  /// Announces whether kernels of this rank may access memory of peers.
  void setRunning(bool isRunning) { peers().block(rank()).isRunning.store(isRunning, std::memory_order_seq_cst); }
  /// Called last. Blocks until this rank's memory may be freed. If all is well, that is when all ranks have come here.
  /// Otherwise, or if a rank never comes, it is when no other rank runs kernels, or after the timeout.
  void leave(bool isWell);

  /// The host's view of the peers.
  Peers &peers() const;

private:
  DeviceMeeting(Communicator communicator, Window board, std::vector<RemoteWindow> boards)
      : host(std::move(communicator)), own(std::move(board)), all(std::move(boards)) {}
  static DeviceRecord *recordsIn(void *board) { return static_cast<DeviceRecord *>(board); }

  Communicator host;
  // Two records per rank, used in turn. A rank writes a record again only after the next exchange, and all peers have
  // finished reading it before they take part in that exchange.
  Window own;
  std::vector<RemoteWindow> all;
  uint64_t sequence = 0;
};

/// Puts a refusal into a record.
void setRefusal(DeviceRecord &record, const Status &status);

} // namespace kolo::runtime
