#include "device/DriverLibrary.h"

#include "Error.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace kolo::runtime {
namespace {

/// By DeviceKind.
struct Library {
  const char *file;
  const char *variable; // names the vendor's library
};
constexpr Library libraries[] = {{"libkolo_cuda.so", "KOLO_CUDA_DRIVER"}, {"libkolo_hip.so", "KOLO_HIP_DRIVER"}};

std::string ownFolder() {
  Dl_info info = {};
  if (!dladdr(reinterpret_cast<const void *>(&openDriver), &info) || !info.dli_fname)
    return ".";
  std::error_code ignored;
  std::filesystem::path real = std::filesystem::canonical(info.dli_fname, ignored);
  return (ignored ? std::filesystem::path(info.dli_fname) : real).parent_path().string();
}

Result<const KoloDeviceDriver *> load(const Library &library) {
  std::string path = ownFolder() + "/" + library.file;
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return error(StatusCode::DeviceError, "no devices of this kind: {}", reason ? reason : path);
  }
  auto entry = reinterpret_cast<KoloDeviceDriverEntry>(dlsym(handle, KOLO_DEVICE_DRIVER_SYMBOL));
  const KoloDeviceDriver *driver = entry ? entry() : nullptr;
  if (!driver || driver->version != KOLO_DEVICE_DRIVER_VERSION) {
    dlclose(handle);
    return error(StatusCode::DeviceError, "{} is not of this version of the runtime", path);
  }
  return driver;
}

} // namespace

Result<const KoloDeviceDriver *> openDriver(DeviceKind kind) {
  static std::mutex mutex;
  static const KoloDeviceDriver *opened[std::size(libraries)] = {};
  auto index = static_cast<size_t>(kind);
  if (index >= std::size(libraries))
    return error(StatusCode::InvalidArgument, "{} is not a kind of device", index);
  std::scoped_lock lock(mutex);
  if (opened[index])
    return opened[index];
  Result<const KoloDeviceDriver *> driver = load(libraries[index]);
  if (!driver.isOk())
    return driver;
  const char *path = std::getenv(libraries[index].variable);
  if ((*driver)->open(path && *path ? path : nullptr) != KOLO_DRIVER_OK)
    return error(StatusCode::DeviceError, "{}{}", path && *path ? std::string(libraries[index].variable) + ": " : "",
                 (*driver)->lastError());
  opened[index] = *driver;
  return driver;
}

} // namespace kolo::runtime
