// An image for a device that is being compiled. The device targets begin it, and tools finish several side by side.
#pragma once

#include "targets/DeviceCode.h"

#include "llvm/ADT/FunctionExtras.h"
#include "llvm/Support/Error.h"

namespace kolo {

/// The rest of an image's compilation, which may run beside that of others, on any thread, as long as nothing changes
/// the programs.
using PendingImage = llvm::unique_function<llvm::Expected<DeviceImage>()>;

} // namespace kolo
