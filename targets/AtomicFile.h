// AtomicFile: writes a file that is there as a whole or not at all.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace kolo {

/// Writes the pieces one behind the other, or reports an error and leaves `path`, a regular file or none, as it was.
/// The new file has no name until it is whole, where the file system can do that: so a process that is killed leaves
/// nothing. `mode`: its permissions, of which the umask takes some.
llvm::Error writeAtomically(llvm::StringRef path, llvm::ArrayRef<llvm::StringRef> pieces, unsigned mode);

} // namespace kolo
