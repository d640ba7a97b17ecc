// NVIDIA's assembler, as a program beside this one: from PTX to cubins, where they are asked for.
#pragma once

#include "targets/DeviceCode.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace kolo::tools {

/// Where ptxas is: `asked` is its path or name; "auto" looks on PATH, then in bin of $CUDA_PATH, of $CUDA_HOME and of
/// /usr/local/cuda. Throws ToolError (Usage) when it is not there.
std::string findPtxas(const std::string &asked);

/// Has ptxas assemble an image of PTX, with these programs as its kernels, for the architecture it was generated for.
/// The resources are what ptxas says. Nothing is written to any disk. Throws ToolError (Usage) with what ptxas
/// complains of first.
DeviceImage assemble(const DeviceImage &ptx, llvm::ArrayRef<std::string> programs, const std::string &ptxas);

} // namespace kolo::tools
