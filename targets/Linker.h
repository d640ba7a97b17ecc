// The linker, in process. Shared by the targets.
#pragma once

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace kolo {

/// Links object files to a shared library, with these arguments beside what the inputs and the output are. Files are
/// temporary and gone afterwards.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> linkShared(llvm::ArrayRef<llvm::StringRef> objects,
                                                               llvm::ArrayRef<const char *> arguments);

} // namespace kolo
