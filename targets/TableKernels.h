// Calls with block tables on devices: they have a kernel of their own, so that the kernel of other calls has no code
// for tables. Used by the targets for devices and by packaging.
#pragma once

#include "ir/BlockTables.h"
#include "targets/DeviceCode.h"

namespace kolo {

/// Whether there is a kernel for calls with tables: the program may take them, and needs no notes, which kernels do not
/// write. The program's text alone decides, as the code is the same for all meshes. Proofs say on which of them calls
/// may have tables.
inline bool mayTakeBlockTables(ProgramOp program) {
  auto isNoted = [](BufferOp buffer) { return notesPerLane(buffer).has_value(); };
  return !findTableObstacle(program) && llvm::none_of(program.getBody().getOps<BufferOp>(), isNoted);
}

/// Its name.
inline std::string tableKernelName(std::string program) { return kernelName(std::move(program)) + "_tables"; }

} // namespace kolo
