// How the tools fail: one line for the user, and an exit code.
#pragma once

#include "kolo/runtime/Status.h"

#include <stdexcept>
#include <string>

namespace kolo::tools {

/// Documented by `kolo --help`.
enum class ExitCode {
  Ok = 0,
  Refused = 1, // the program has mistakes, is refuted, or its result is wrong
  Usage = 2,   // a flag, a file or the environment is not as it must be
  Failed = 3,  // ranks could not run to the end: lost, timed out, out of memory
};

/// Of a failure of the runtime: Usage where the call could never work on this machine, else Failed.
inline ExitCode exitCodeOf(runtime::StatusCode code) {
  switch (code) {
  case runtime::StatusCode::Ok:
    return ExitCode::Ok;
  case runtime::StatusCode::InvalidArgument:
  case runtime::StatusCode::BadPlugin:
  case runtime::StatusCode::UnsupportedMesh:
  case runtime::StatusCode::UnsupportedCpu:
    return ExitCode::Usage;
  default:
    return ExitCode::Failed;
  }
}

/// An empty message: everything was said already.
class ToolError : public std::runtime_error {
public:
  ToolError(ExitCode code, const std::string &message) : std::runtime_error(message), exitCode(code) {}
  ExitCode code() const { return exitCode; }

private:
  ExitCode exitCode;
};

} // namespace kolo::tools
