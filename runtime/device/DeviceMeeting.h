// DeviceMeeting: what ranks in several threads or processes tell each other, on the host, to start collectives on
// devices.
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
  uint64_t id = 0;          // of the allocation, among those of the owner's process
  KoloDriverHandle handle = {};
};

/// What a rank says in one exchange.
struct DeviceRecord {
  uint64_t callNumber = 0;          // its number of its call: see DeviceState::exchangeNumbers
  StatusCode code = StatusCode::Ok; // this rank's own refusal, then `message`
  int32_t mustDrain = 0;            // it has to free memory before it can go on
  char message[320] = {};
  CallKey call;
  DeviceLocation buffers[KOLO_NUM_BUFFER_ROLES];
  DeviceLocation semaphores;
  // When joining.
  int32_t pid = 0, device = -1, lanes = 0, threads = 0, kind = 0;
  uint8_t uuid[16] = {};
};

/// One rank's end. Everything here is collective, and in the same order on every rank; a failure of another rank to
/// come ends the communicator on the host: Timeout, PeerLost, Aborted.
class DeviceMeeting {
public:
  static Result<DeviceMeeting> create(Communicator host);

  int rank() const { return host.rank(); }
  int size() const { return host.size(); }

  /// An empty record, to be filled before `perform`.
  DeviceRecord &next();
  /// The same, as it is now.
  DeviceRecord &said() { return recordsIn(own.data())[(sequence + 1) % 2]; }
  /// Returns when all ranks have said theirs, which `heard` gives until the next call of `next`.
  Status perform();
  const DeviceRecord &heard(int peer) const;
  /// The first rank that refused, as a Status for this one.
  Status firstRefusal() const;

  /// Whether kernels of this rank may touch memory of others.
  void setRunning(bool isRunning) { peers().block(rank()).isRunning.store(isRunning, std::memory_order_seq_cst); }
  /// The last thing: returns when this rank's memory may go. If all is well, once all ranks have come here; else, or if
  /// some never will, once no other runs kernels, or the time is up.
  void leave(bool isWell);

  /// The host's view of the peers: liveness, and the failure that ended it all.
  Peers &peers() const;

private:
  DeviceMeeting(Communicator communicator, Window board, std::vector<RemoteWindow> boards)
      : host(std::move(communicator)), own(std::move(board)), all(std::move(boards)) {}
  static DeviceRecord *recordsIn(void *board) { return static_cast<DeviceRecord *>(board); }

  Communicator host;
  // Two records per rank, used in turn: whoever writes into one again has finished the exchange after, for which all
  // peers had to be done with reading it.
  Window own;
  std::vector<RemoteWindow> all;
  uint64_t sequence = 0;
};

/// Puts a refusal into a record.
void setRefusal(DeviceRecord &record, const Status &status);

} // namespace kolo::runtime
