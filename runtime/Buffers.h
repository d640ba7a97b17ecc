// Buffers: where the buffers of one call are, for this rank's code and for its peers.
#pragma once

#include "Call.h"
#include "Environment.h"
#include "memory/Segments.h"

#include <memory>

namespace kolo::runtime {

/// Memory of the runtime's own that peers access: scratch, and copies of ordinary memory. Grows, and is then a new segment.
/// The old one can go at once: every earlier call has returned, and with it all access to this rank's memory.
class Arena {
public:
  /// At least sizeBytes (> 0) bytes. What they held before is lost. OutOfMemory, SystemError.
  Result<std::byte *> reserve(SegmentTable &segments, size_t sizeBytes);

private:
  std::unique_ptr<Segment> segment;
};

struct Buffers {
  void *local[KOLO_NUM_BUFFER_ROLES] = {};      // for this rank's code
  Location remote[KOLO_NUM_BUFFER_ROLES];       // for the peers
  bool isOutputStaged = false;                  // to be copied to the caller's memory at the end
  bool isInputStaged = false;                   // to be copied from the caller's memory before the peers are told

  /// The copies, in call order.
  void copyIn(const Call &call) const;
  void copyOut(const Call &call) const;
};

/// Decides for each buffer between direct use, attach and staging, and reserves what that takes. Cross-memory attach is
/// used only when `ordinaryMemory` is not Staged. OutOfMemory, SystemError.
Result<Buffers> placeBuffers(const Call &call, SegmentTable &segments, Arena &arena, OrdinaryMemory ordinaryMemory);

} // namespace kolo::runtime
