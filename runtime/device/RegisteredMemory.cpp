#include "device/RegisteredMemory.h"

#include "base/Error.h"

#include <map>
#include <mutex>
#include <utility>

namespace kolo::runtime {
namespace {

/// Of this process.
struct Registered {
  std::mutex mutex;
  std::map<std::pair<const KoloDeviceDriver *, void *>, std::weak_ptr<const RegisteredMemory>> byAddress;
};
Registered &registered() {
  static auto *all = new Registered;
  return *all;
}

} // namespace

Result<std::shared_ptr<const RegisteredMemory>> RegisteredMemory::of(const std::shared_ptr<OpenDevice> &device,
                                                                     void *memory, size_t sizeBytes) {
  Registered &all = registered();
  std::scoped_lock lock(all.mutex);
  std::weak_ptr<const RegisteredMemory> &known = all.byAddress[{&device->driver(), memory}];
  if (std::shared_ptr<const RegisteredMemory> found = known.lock())
    return found;
  std::unique_ptr<RegisteredMemory> made(new RegisteredMemory(device, memory));
  int32_t code = device->driver().registerHost(device->ordinal(), memory, sizeBytes, &made->mapped);
  if (Status status = device->status(code, fmt::format("registering {} bytes of the host's memory", sizeBytes));
      !status.isOk()) {
    made->mapped = nullptr;
    return status;
  }
  auto end = [](RegisteredMemory *object) {
    std::scoped_lock ending(registered().mutex);
    registered().byAddress.erase({&object->device->driver(), object->base});
    delete object;
  };
  std::shared_ptr<const RegisteredMemory> shared(made.release(), end);
  known = shared;
  return shared;
}

RegisteredMemory::~RegisteredMemory() {
  if (mapped)
    (void)device->driver().unregisterHost(device->ordinal(), base);
}

} // namespace kolo::runtime
