// DriverError: the text of KoloDeviceDriver::lastError, by thread. Both driver libraries use it.
#pragma once

#include "device/DeviceDriver.h"

#include <string>

namespace kolo::device {

inline thread_local std::string lastErrorText;

/// Keeps the text of a failure and returns its code. Without memory for the text, an older one remains.
inline int32_t fail(KoloDriverCode code, const char *what, const char *why) noexcept {
  try {
    lastErrorText = std::string(what) + ": " + why;
  } catch (...) {
  }
  return code;
}

inline const char *lastError() { return lastErrorText.c_str(); }

} // namespace kolo::device
