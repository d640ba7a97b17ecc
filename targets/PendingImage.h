// An image for a device whose code is still to be generated. Passed from the device targets to who packs plugins.
#pragma once

#include "targets/DeviceCode.h"

#include "llvm/ADT/FunctionExtras.h"
#include "llvm/Support/Error.h"

namespace kolo {

/// The rest of an image's compilation, which may go on beside that of others, on any thread, while nothing changes the
/// programs.
using PendingImage = llvm::unique_function<llvm::Expected<DeviceImage>()>;

} // namespace kolo
