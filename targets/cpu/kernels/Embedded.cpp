// The object files of kernels, as part of this program.
#include "targets/cpu/KernelObjects.h"

#define KOLO_EMBED(symbol, file)                                                                                       \
  asm(".pushsection .rodata\n"                                                                                         \
      ".balign 16\n" #symbol ":\n"                                                                                     \
      ".incbin \"" file "\"\n" #symbol "_end:\n"                                                                       \
      ".popsection\n");                                                                                                \
  extern "C" const char symbol[], symbol##_end[];

KOLO_EMBED(koloKernelsV3, "x86-64-v3.o")
KOLO_EMBED(koloKernelsV4, "x86-64-v4.o")
KOLO_EMBED(koloKernelsThread, "x86-64-v3-thread.o")

namespace kolo::cpu {

llvm::ArrayRef<KernelObject> kernelObjects(bool sanitizeThread) {
  static const KernelObject plain[] = {
      {"x86-64-v3", llvm::StringRef(koloKernelsV3, size_t(koloKernelsV3_end - koloKernelsV3))},
      {"x86-64-v4", llvm::StringRef(koloKernelsV4, size_t(koloKernelsV4_end - koloKernelsV4))}};
  static const KernelObject instrumented[] = {
      {"x86-64-v3", llvm::StringRef(koloKernelsThread, size_t(koloKernelsThread_end - koloKernelsThread))}};
  return sanitizeThread ? llvm::ArrayRef<KernelObject>(instrumented) : llvm::ArrayRef<KernelObject>(plain);
}

} // namespace kolo::cpu
