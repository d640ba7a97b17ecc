// The linker, in process. Shared by the targets.
#pragma once

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace kolo {

/// Links object files to a shared library. `arguments` go to the linker beside the names of its inputs and output. All
/// files are temporary, and removed before this returns.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> linkShared(llvm::ArrayRef<llvm::StringRef> objects,
                                                               llvm::ArrayRef<const char *> arguments);

} // namespace kolo
