// Calls with block tables on devices: they have a kernel of their own, so that the kernel of other calls has no code
// for tables. Used by the targets for devices and by packaging.
#pragma once

#include "ir/BlockTables.h"
#include "targets/DeviceCode.h"

namespace kolo {

/// Whether a program takes block tables on a mesh that it was proved on, or may do so if nobody has checked it. Then
/// there is a kernel for calls with tables; unless the program needs notes, which kernels do not write.
inline bool mayTakeBlockTables(ProgramOp program) {
  auto known = program->getAttrOfType<mlir::ArrayAttr>(blockTablesAttrName);
  auto isNoted = [](BufferOp buffer) { return notesPerLane(buffer).has_value(); };
  return !findTableObstacle(program) && llvm::none_of(program.getBody().getOps<BufferOp>(), isNoted) &&
         (!known || llvm::any_of(known, llvm::IsaPred<mlir::UnitAttr>));
}

/// Its name.
inline std::string tableKernelName(std::string program) { return kernelName(std::move(program)) + "_tables"; }

} // namespace kolo
