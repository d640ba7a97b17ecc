// Status and Result: how every function of the runtime reports failure. The runtime never throws, prints or aborts the
// process.
#pragma once

#include "kolo/runtime/Export.h"

#include <optional>
#include <string>
#include <utility>

namespace kolo::runtime {

enum class StatusCode {
  Ok,
  InvalidArgument, // the caller passed something that can never work
  Mismatch,        // ranks disagree about one call; the communicator stays usable
  Timeout,         // a peer did not do its part in time; the communicator is aborted
  PeerLost,        // a peer ended or left; the communicator is aborted
  Aborted,         // an earlier failure ended this communicator; the message gives that failure
  OutOfMemory,     // or out of what memory needs: descriptors, or a limit of file sizes
  BadPlugin,       // the file is not a plugin, is damaged, has another ABI version, or lacks code for the call
  UnsupportedMesh, // the program was not compiled for this mesh, or not proved on it
  UnsupportedCpu,  // the plugin needs instructions that this host lacks
  SystemError,     // the operating system refused something; the message names it
  DeviceError,     // a device or its driver refused something, or does not exist; the message names it
};

/// The enumerator's name, for example "PeerLost". Never null.
KOLO_RUNTIME_API const char *toString(StatusCode code);

/// The outcome of a call: a code, the rank at fault, and one line of text for a person.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message, int rank = -1)
      : statusCode(code), faultyRank(rank), text(std::move(message)) {}

  StatusCode code() const { return statusCode; }
  /// The rank that caused the failure: it did not answer, was lost, or disagrees. -1: unknown, or this call alone
  /// failed.
  int rank() const { return faultyRank; }
  const std::string &message() const { return text; }
  bool isOk() const { return statusCode == StatusCode::Ok; }

private:
  StatusCode statusCode = StatusCode::Ok;
  int faultyRank = -1;
  std::string text;
};

/// A value, or the Status that says why there is no value.
template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : held(std::move(value)) {}
  /// `status` must not be Ok.
  Result(Status status) : failure(std::move(status)) {}

  bool isOk() const { return held.has_value(); }
  /// Ok exactly when there is a value.
  const Status &status() const { return failure; }

  /// Only when isOk().
  T &operator*() { return *held; }
  const T &operator*() const { return *held; }
  T *operator->() { return &*held; }
  const T *operator->() const { return &*held; }
  T value() && { return std::move(*held); }

private:
  std::optional<T> held;
  Status failure;
};

} // namespace kolo::runtime
