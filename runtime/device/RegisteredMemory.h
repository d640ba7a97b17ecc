// RegisteredMemory: memory of the host that a device accesses, though its driver did not allocate it.
#pragma once

#include "device/OpenDevice.h"

#include <cstddef>
#include <memory>

namespace kolo::runtime {

/// A driver takes no byte twice. So the ranks of one process, which are threads, share the registration.
class RegisteredMemory {
public:
  /// Memory of this size at this address, whoever asks first. OutOfMemory, DeviceError.
  static Result<std::shared_ptr<const RegisteredMemory>> of(const std::shared_ptr<OpenDevice> &device, void *memory,
                                                            size_t sizeBytes);
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory &) = delete;
  RegisteredMemory &operator=(const RegisteredMemory &) = delete;

  /// Where devices access it.
  void *address() const { return mapped; }

private:
  RegisteredMemory(std::shared_ptr<OpenDevice> onDevice, void *memory) : device(std::move(onDevice)), base(memory) {}

  std::shared_ptr<OpenDevice> device;
  void *base;
  void *mapped = nullptr; // null: it is not registered
};

} // namespace kolo::runtime
