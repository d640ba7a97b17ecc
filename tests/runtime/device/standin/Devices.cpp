// Devices, contexts and errors of the stand-in driver.
#include "StandIn.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kolo::standin {
namespace {

thread_local std::vector<CUctx_st *> contexts;
std::mutex handleMutex;
std::set<const void *> handles;

} // namespace

int setting(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}
int numDevices() { return setting("KOLO_STANDIN_DEVICES", 2); }
int numMultiprocessors() { return setting("KOLO_STANDIN_RESIDENT", 64); }
int physicalNumber(int device) { return setting("CUDA_VISIBLE_DEVICES", 0) + device; }

CUctx_st *current() { return contexts.empty() ? nullptr : contexts.back(); }

CUctx_st *primaryContext(int device) {
  static std::mutex mutex;
  static std::map<int, CUctx_st> all;
  std::scoped_lock lock(mutex);
  auto [found, isNew] = all.try_emplace(device);
  if (isNew)
    found->second.device = device;
  return &found->second;
}

CUresult checkContext() { return current() ? current()->failure.load() : CUDA_ERROR_INVALID_CONTEXT; }

void addHandle(void *handle) {
  std::scoped_lock lock(handleMutex);
  handles.insert(handle);
}
bool removeHandle(void *handle) {
  std::scoped_lock lock(handleMutex);
  return handles.erase(handle) == 1;
}
bool isHandle(const void *handle) {
  std::scoped_lock lock(handleMutex);
  return handles.contains(handle);
}

int64_t countHandles() {
  std::scoped_lock lock(handleMutex);
  return static_cast<int64_t>(handles.size());
}

} // namespace kolo::standin

using namespace kolo::standin;

extern "C" {

CUresult cuInit(unsigned int flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuGetErrorString(CUresult error, const char **text) {
  static const std::map<CUresult, const char *> texts = {
      {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
      {CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
      {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
      {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
      {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
      {CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"},
      {CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX JIT compiler library not found"},
      {CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"},
      {CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"},
      {CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
      {CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"},
      {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
      {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
      {CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"}};
  auto found = texts.find(error);
  *text = found == texts.end() ? "an error of the stand-in driver" : found->second;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  *count = numDevices();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < numDevices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  std::snprintf(name, static_cast<size_t>(size), "stand-in %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  std::memset(uuid->bytes, 0x40 + physicalNumber(device), sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
  *bytes = size_t(1) << 30;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
  int architecture = setting("KOLO_STANDIN_ARCHITECTURE", 90);
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return *value = architecture / 10, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return *value = architecture % 10, CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return *value = numMultiprocessors(), CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    return *value = 1, CUDA_SUCCESS;
  default:
    return describeRdma(value, attribute);
  }
}

CUresult cuDeviceCanAccessPeer(int *answer, CUdevice, CUdevice) {
  *answer = 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer) {
  *value = setting("KOLO_STANDIN_NVLINK", 1);
  return attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED && device != peer ? CUDA_SUCCESS
                                                                                        : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  *context = primaryContext(device);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  contexts.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context) {
  if (contexts.empty())
    return CUDA_ERROR_INVALID_CONTEXT;
  *context = contexts.back();
  contexts.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  if (CUresult refused = checkContext())
    return refused;
  if (!peer || flags != 0 || peer == current())
    return CUDA_ERROR_INVALID_CONTEXT;
  std::scoped_lock lock(memoryMutex);
  return current()->peers.insert(peer->device).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

/// For tests: the context of a device fails as by a kernel, or is as new again.
void standInFail(int device, CUresult failure) { primaryContext(device)->failure = failure; }

/// For tests.
int64_t standInLive() { return countHandles() + countLive(); }
int64_t standInModuleLoads() { return numModuleLoads; }
}
