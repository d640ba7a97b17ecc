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

/// As error, for a failure that one rank caused.
template <class... Args>
Status rankError(StatusCode code, int rank, fmt::format_string<Args...> format, Args &&...args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...), rank);
}

/// "what: why", where why is the text for errnoValue. OutOfMemory for ENOMEM, else SystemError.
inline Status systemError(std::string_view what, int errnoValue) {
  return error(errnoValue == ENOMEM ? StatusCode::OutOfMemory : StatusCode::SystemError, "{}: {}", what,
               strerrordesc_np(errnoValue) ? strerrordesc_np(errnoValue) : "unknown error");
}

/// Calls `body`, whose result a Status converts to, and turns what it throws into a Status. Around every public
/// function.
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
