// Variables of the environment, as the runtime reads them.
#pragma once

#include <cstdlib>

namespace kolo::runtime {

/// Null if the variable is not set or empty; and in a program with more rights than its caller, who set the variable.
inline const char *variable(const char *name) {
  const char *text = secure_getenv(name);
  return text && *text ? text : nullptr;
}

} // namespace kolo::runtime
