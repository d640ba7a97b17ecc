// What the last failing call of this thread was, for KoloDeviceDriver::lastError. Shared by the drivers' libraries.
#pragma once

#include "device/DeviceDriver.h"

#include <string>

namespace kolo::device {

inline thread_local std::string lastErrorText;

/// Notes the failure, and gives the code. Out of memory for text too: then the text is an older one.
inline int32_t fail(KoloDriverCode code, const char *what, const char *why) noexcept {
  try {
    lastErrorText = std::string(what) + ": " + why;
  } catch (...) {
  }
  return code;
}

inline const char *lastError() { return lastErrorText.c_str(); }

} // namespace kolo::device
