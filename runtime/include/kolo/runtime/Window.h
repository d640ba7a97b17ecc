// Window: memory of this rank that its peers read and write directly, with no copy in between.
#pragma once

#include "kolo/runtime/Export.h"

#include <cstddef>
#include <memory>

namespace kolo::runtime {

class CommunicatorState;
struct WindowState;
struct RemoteWindowState;

/// Made by Communicator::allocate. Owns the memory, which starts zeroed, is aligned to a page, is already touched, and
/// is on huge pages from 2 MiB on where the kernel has them. Pointers anywhere into it may be passed to
/// Communicator::run. It may outlive its communicator. Destroy it only while no call that uses it is running on any
/// rank: after `run` or `barrier` returned.
class KOLO_RUNTIME_API Window {
public:
  Window(Window &&) noexcept;
  Window &operator=(Window &&) noexcept;
  ~Window();

  void *data() const;
  /// As asked for in allocate, without rounding.
  size_t sizeBytes() const;

private:
  friend class Communicator;
  friend class CommunicatorState;
  explicit Window(std::unique_ptr<WindowState> state);
  std::unique_ptr<WindowState> state;
};

/// A peer's window as it is mapped here. Made by Communicator::exchange. Copies share one mapping. In a world of
/// processes the mapping stays valid while any copy lives; in a world of threads it is the peer's memory itself, so the
/// peer must keep its window.
class KOLO_RUNTIME_API RemoteWindow {
public:
  /// The peer that owns the memory.
  int rank() const;
  /// Where the memory is mapped in this process: readable and writable. Ordering against the peer's own accesses is the
  /// user's business: see Channel.
  void *data() const;
  size_t sizeBytes() const;

private:
  friend class Communicator;
  friend class CommunicatorState;
  friend class Channel;
  explicit RemoteWindow(std::shared_ptr<const RemoteWindowState> state);
  std::shared_ptr<const RemoteWindowState> state;
};

} // namespace kolo::runtime
