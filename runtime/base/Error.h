// How the runtime's own code makes Statuses, and keeps exceptions inside.
#pragma once

#include "kolo/runtime/Status.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <new>

namespace kolo::runtime {

template <class... Args> Status error(StatusCode code, fmt::format_string<Args...> format, Args &&...args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

/// The same for a failure that one rank caused.
template <class... Args>
Status rankError(StatusCode code, int rank, fmt::format_string<Args...> format, Args &&...args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...), rank);
}

/// "what: why", where `why` is the system's text for errnoValue. OutOfMemory for ENOMEM, else SystemError.
inline Status systemError(std::string_view what, int errnoValue) {
  return error(errnoValue == ENOMEM ? StatusCode::OutOfMemory : StatusCode::SystemError, "{}: {}", what,
               strerrordesc_np(errnoValue) ? strerrordesc_np(errnoValue) : "unknown error");
}

/// The same, but OutOfMemory also where another limit of this process or machine is reached. Where callers can do
/// without.
inline Status limitError(std::string_view what, int errnoValue) {
  const bool isLimit = errnoValue == EMFILE || errnoValue == ENFILE || errnoValue == ENOSPC;
  Status status = systemError(what, errnoValue);
  return isLimit ? Status(StatusCode::OutOfMemory, status.message()) : status;
}

/// Calls `body` and turns an exception into a Status, to which the result of `body` converts. Every public function
/// that may throw uses it.
template <class Body> auto guarded(Body &&body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::OutOfMemory, "out of memory");
  } catch (const std::exception &exception) {
    return Status(StatusCode::SystemError, exception.what());
  }
}

} // namespace kolo::runtime
