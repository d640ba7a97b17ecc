#include "device/cuda/CudaApi.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>

namespace kolo::device {

const char *Cuda::textOf(CUresult result) {
  const char *text = nullptr;
  bool isKnown = api.cuGetErrorString && api.cuGetErrorString(result, &text) == CUDA_SUCCESS && text;
  return isKnown ? text : "unknown error";
}

bool Cuda::isBadImage(CUresult result) {
  constexpr CUresult ofImages[] = {CUDA_ERROR_INVALID_IMAGE,           CUDA_ERROR_INVALID_PTX,
                                   CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_NO_BINARY_FOR_GPU,
                                   CUDA_ERROR_INVALID_SOURCE,          CUDA_ERROR_JIT_COMPILER_NOT_FOUND};
  return std::ranges::find(ofImages, result) != std::end(ofImages);
}

const char *Cuda::findFunctions(void *library) {
#define KOLO_FIND(function, symbol)                                                                                    \
  api.function = reinterpret_cast<decltype(api.function)>(dlsym(library, symbol));                                     \
  if (!api.function)                                                                                                   \
    return symbol;
  KOLO_CUDA_FUNCTIONS(KOLO_FIND)
#undef KOLO_FIND
#define KOLO_FIND(function, symbol) api.function = reinterpret_cast<decltype(api.function)>(dlsym(library, symbol));
  KOLO_CUDA_LATER_FUNCTIONS(KOLO_FIND)
#undef KOLO_FIND
  return nullptr;
}

namespace {

std::string managementPath = "libnvidia-ml.so.1"; // set before there is any device

/// What the management library says of two devices; nullopt in place of the functions: there is no such library.
struct Management {
  using Device = void *;
  int (*initialize)() = nullptr;
  int (*find)(const char *uuid, Device *) = nullptr;
  int (*ask)(Device, Device, int index, int *status) = nullptr;
  bool isThere = false;

  Management() {
    void *library = dlopen(managementPath.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return;
    auto symbol = [&](const char *name) { return dlsym(library, name); };
    initialize = reinterpret_cast<decltype(initialize)>(symbol("nvmlInit_v2"));
    find = reinterpret_cast<decltype(find)>(symbol("nvmlDeviceGetHandleByUUID"));
    ask = reinterpret_cast<decltype(ask)>(symbol("nvmlDeviceGetP2PStatus"));
    isThere = initialize && find && ask && initialize() == 0;
  }
};

/// "GPU-8c1f...": as the management library writes it.
std::string textOf(const uint8_t *uuid) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text = "GPU";
  for (int byte = 0; byte < 16; ++byte) {
    if (byte == 0 || byte == 4 || byte == 6 || byte == 8 || byte == 10)
      text += '-';
    text += digits[uuid[byte] >> 4];
    text += digits[uuid[byte] & 15];
  }
  return text;
}

/// The contexts that are retained, by device.
std::array<CUcontext, 64> contexts;
std::mutex contextMutex;

} // namespace

bool haveNvlink(const uint8_t *uuid, const uint8_t *peer) {
  static const Management management;
  constexpr int nvlink = 2, works = 0; // nvmlGpuP2PCapsIndex_t and nvmlGpuP2PStatus_t
  Management::Device own = nullptr, theirs = nullptr;
  int status = works + 1;
  return management.isThere && management.find(textOf(uuid).c_str(), &own) == 0 &&
         management.find(textOf(peer).c_str(), &theirs) == 0 && management.ask(own, theirs, nvlink, &status) == 0 &&
         status == works;
}

void Cuda::setManagement(const char *path) {
  if (path)
    managementPath = path;
}

CudaContext::CudaContext(int32_t device) {
  if (device < 0 || static_cast<size_t>(device) >= contexts.size()) {
    code = fail(KOLO_DRIVER_BAD_ARGUMENT, "device", "there is none of this number");
    return;
  }
  CUcontext context;
  {
    std::scoped_lock lock(contextMutex);
    CUcontext &retained = contexts[static_cast<size_t>(device)];
    CUdevice handle = 0;
    code = retained ? int32_t(KOLO_DRIVER_OK) : check(Cuda::api.cuDeviceGet(&handle, device), "cuDeviceGet");
    if (code == KOLO_DRIVER_OK && !retained)
      code = check(Cuda::api.cuDevicePrimaryCtxRetain(&retained, handle), "cuDevicePrimaryCtxRetain");
    context = retained;
  }
  if (code == KOLO_DRIVER_OK)
    code = check(Cuda::api.cuCtxPushCurrent(context), "cuCtxPushCurrent");
}

CudaContext::~CudaContext() {
  CUcontext popped;
  if (code == KOLO_DRIVER_OK)
    (void)Cuda::api.cuCtxPopCurrent(&popped);
}

} // namespace kolo::device
