// DriverLibrary: opens libkolo_cuda.so or libkolo_hip.so, beside the runtime, when a device is first asked for.
#pragma once

#include "device/DeviceDriver.h"
#include "kolo/runtime/Device.h"

namespace kolo::runtime {

/// The driver of this kind, with the vendor's library loaded; it stays for the rest of the process.
/// DeviceError: the library is not there, or cannot be used; the message says which and why.
Result<const KoloDeviceDriver *> openDriver(DeviceKind kind);

} // namespace kolo::runtime
