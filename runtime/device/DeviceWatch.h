// DeviceWatch: waits for launches, notices failures, and aborts the communicator.
#pragma once

#include "device/DeviceLaunches.h"
#include "device/DevicePrograms.h"
#include "device/DeviceRanks.h"
#include "wait/Clock.h"

#include <atomic>
#include <optional>

namespace kolo::runtime {

/// What a thread does between two looks at devices whose work it awaits. `turn` counts its looks from 0.
void pauseBetweenLooks(int64_t turn);

class DeviceWatch {
public:
  DeviceWatch(DeviceRanks &allRanks, const DevicePrograms &allPrograms, const DeviceLaunches &ownLaunches)
      : ranks(allRanks), programs(allPrograms), launches(ownLaunches) {}
  /// Called once, when the devices are open. OutOfMemory, DeviceError.
  Status open();
  bool isOpen() const { return abortFlag.data() != nullptr; }

  /// One word in host memory: kernels of this process end soon once it is not 0.
  uint64_t *flag() const { return static_cast<uint64_t *>(abortFlag.data()); }
  bool hasFailed() const { return failure.has_value(); }

  /// Reports what is known already. Makes no system call.
  Status checkUsable();
  /// Likewise, but also looks at peers and launches. Never blocks.
  Status query();
  /// Blocks until all launches outside of graphs are done.
  Status synchronize();
  /// Any thread may call it.
  void abort();

  /// Aborts the communicator, with this cause or that of a peer that aborted first. Returns the cause.
  Status fail(Status cause);
  /// The same where peers would wait for this rank; otherwise only returns the cause.
  Status failBeforePeers(const Status &cause) { return ranks.meeting ? fail(cause) : cause; }
  /// In a meeting: announces this rank's outcome, and returns that of all ranks.
  Status exchange(DeviceRecord &record, const Status &own);

  enum class AfterAbort : uint8_t { Wait, Return };
  /// Kernels end by themselves, because their waits do. If a rank is lost, this function ends them soon. A kernel that
  /// has not begun waits for its stream, so after `abort` this function returns soon, unless the caller frees memory.
  Status waitForLaunches(AfterAbort afterAbort = AfterAbort::Return);
  /// Ends the kernels of this process soon.
  void abortLaunches();

private:
  bool isAborted() const;
  Status abortedHere() const;
  void hearHosts() const;
  std::optional<int> lostPeer() const;
  bool areToEnd(std::optional<int> &lost, Clock::time_point &noticed) const;
  Status causeOfEnd(std::optional<int> lost) const;

  DeviceRanks &ranks;
  const DevicePrograms &programs;
  const DeviceLaunches &launches;
  DeviceMemory abortFlag;
  std::optional<Status> failure;                // why the communicator was aborted
  std::atomic<bool> wasAborted = false;         // by `abort`; then `failure` may not be set yet
  std::optional<Clock::time_point> noticedLoss; // by query: of a peer that a launch may wait for
};

} // namespace kolo::runtime
