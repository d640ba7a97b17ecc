// The memory that a choreography takes on every rank beside its caller's. Private to Explore.
#pragma once

#include "ir/Kolo.h"

#include <vector>

namespace kolo::tools {

/// Scratch memory, packets and published copies of inputs. Without what rounding to 64 bytes adds, a few bytes for each
/// buffer.
class ScratchNeed {
public:
  /// On a mesh of these sizes, of a choreography after the passes on it and without codecs. Fails with a diagnostic
  /// where index arithmetic does.
  static mlir::FailureOr<ScratchNeed> of(ChoreographyOp choreography, llvm::ArrayRef<int64_t> sizes);

  /// Of a call with blocks of so many bytes.
  double bytes(double blockBytes) const;

private:
  struct Memory {
    double blocks;      // or slots
    double cut = 1;     // of slots: chunks that a block is cut into
    double perByte = 1; // of data
    double slotEnd = 0; // bytes after each slot
  };
  std::vector<Memory> memories;
};

} // namespace kolo::tools
