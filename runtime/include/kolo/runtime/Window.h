// Window: a registered buffer of this rank, which its peers read and write directly (zero-copy).
#pragma once

#include "kolo/runtime/Export.h"
#include "kolo/runtime/Status.h"

#include <cstddef>
#include <memory>

namespace kolo::runtime {

class CommunicatorState;
struct WindowState;
struct RemoteWindowState;

/// Owns memory that Communicator::allocate, `create` or `reserve` made. The memory is zeroed and aligned to a page,
/// from 2 MiB on to a huge page. If `reserve` did not make it, it is touched, and from 2 MiB on it is on huge pages
/// where the kernel has them. Communicator::run takes pointers to any byte of it. It may outlive its communicator.
/// Destroy it only while no rank runs a call that uses it: after `run` or `barrier` has returned.
class KOLO_RUNTIME_API Window {
public:
  /// Makes memory that belongs to no communicator, for Communicator::adopt. Errors as for Communicator::allocate.
  static Result<Window> create(size_t sizeBytes);

  /// As create, but touches nothing: the kernel gives a page when somebody first uses it, and nobody asks whether there
  /// is one. InvalidArgument: sizeBytes is 0. OutOfMemory: no descriptor is left, or another limit of the process is
  /// reached. SystemError.
  static Result<Window> reserve(size_t sizeBytes);

  Window(Window &&) noexcept;
  Window &operator=(Window &&) noexcept;
  ~Window();

  void *data() const;
  /// The size that allocate was called with, without rounding.
  size_t sizeBytes() const;

private:
  friend class Communicator;
  friend class CommunicatorState;
  friend class DeviceMeeting;
  explicit Window(std::unique_ptr<WindowState> state);
  std::unique_ptr<WindowState> state;
};

/// A peer's window as this process maps it. Communicator::exchange makes it; copies share one mapping. Between
/// processes the mapping stays valid while any copy lives. Between threads it is the peer's own memory, so the peer
/// must keep its window.
class KOLO_RUNTIME_API RemoteWindow {
public:
  /// The peer that owns the memory.
  int rank() const;
  /// Address in this process; readable and writable. The caller orders its accesses against those of the peer, for
  /// example by a Channel.
  void *data() const;
  size_t sizeBytes() const;

private:
  friend class Communicator;
  friend class CommunicatorState;
  friend class Channel;
  friend class DeviceMeeting;
  explicit RemoteWindow(std::shared_ptr<const RemoteWindowState> state);
  std::shared_ptr<const RemoteWindowState> state;
};

} // namespace kolo::runtime
