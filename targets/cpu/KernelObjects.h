// The object files of kernels that this program contains.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace kolo::cpu {

/// One kind of processor, and the kernels for it. The first one is what programs themselves are compiled for.
struct KernelObject {
  const char *cpu; // "x86-64-v3"
  llvm::StringRef
      object; // ELF. Its symbols, all hidden: kernelSymbol() of every kernel; in the first one also copies and packets
};
/// With the thread sanitizer's instrumentation, for the first kind alone, or without.
llvm::ArrayRef<KernelObject> kernelObjects(bool sanitizeThread);

} // namespace kolo::cpu
