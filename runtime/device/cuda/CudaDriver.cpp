// libkolo_cuda.so: KoloDeviceDriver by the CUDA driver API.
#include "base/Variable.h"
#include "device/cuda/CudaApi.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kolo::device {
namespace {

int32_t attribute(CUdevice_attribute which, CUdevice device, int32_t *value) {
  KOLO_CUDA(cuDeviceGetAttribute, value, which, device);
  return KOLO_DRIVER_OK;
}

/// 0 where the driver is older than the attribute.
int32_t laterAttribute(CUdevice_attribute which, CUdevice device) {
  int32_t value = 0;
  return Cuda::api.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

/// What this device's own kernels need to see what NICs wrote.
void describeWrites(CUdevice device, KoloDriverDevice *description) {
  const bool isOrdered = laterAttribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, device) >=
                         CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
  const bool canFlush = Cuda::api.cuFlushGPUDirectRDMAWrites &&
                        laterAttribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, device) &
                            CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
  description->needsRead = !isOrdered;
  description->flushesInstead = !isOrdered && canFlush;
}

} // namespace

int32_t Cuda::describe(int32_t ordinal, KoloDriverDevice *description) {
  CUdevice device = 0;
  KOLO_CUDA(cuDeviceGet, &device, ordinal);
  KOLO_CUDA(cuDeviceGetName, description->name, sizeof(description->name), device);
  CUuuid uuid = {};
  KOLO_CUDA(cuDeviceGetUuid, &uuid, device);
  std::memcpy(description->uuid, uuid.bytes, sizeof(description->uuid));
  size_t memoryBytes = 0;
  KOLO_CUDA(cuDeviceTotalMem, &memoryBytes, device);
  description->memoryBytes = memoryBytes;
  int32_t major = 0, minor = 0;
  const struct {
    CUdevice_attribute which;
    int32_t *value;
  } wanted[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
                {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
                {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &description->numMultiprocessors},
                {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, &description->canLaunchTogether},
                {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &description->hasVirtualMemory}};
  for (const auto &[which, value] : wanted)
    KOLO_TRY(attribute(which, device, value));
  describeWrites(device, description);
  // What streams share, as the driver reads the variable when it makes the device's context.
  const char *connections = runtime::variable("CUDA_DEVICE_MAX_CONNECTIONS");
  constexpr int32_t usual = 8, most = 32;
  int32_t asked = connections ? std::atoi(connections) : usual;
  description->numQueues = asked >= 1 && asked <= most ? asked : usual;
  std::snprintf(description->architecture, sizeof(description->architecture), "sm_%d%d", major, minor);
  return KOLO_DRIVER_OK;
}

int32_t Cuda::countMultiprocessors(int32_t device, int32_t *number) {
  CUdevice handle = 0;
  KOLO_CUDA(cuDeviceGet, &handle, device);
  return attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle, number);
}

int32_t Cuda::enablePeer(int32_t device, int32_t peer) {
  CUcontext theirs = nullptr;
  {
    KOLO_CURRENT(Cuda, peer);
    KOLO_CUDA(cuCtxPopCurrent, &theirs);
    KOLO_CUDA(cuCtxPushCurrent, theirs);
  }
  KOLO_CURRENT(Cuda, device);
  CUresult result = api.cuCtxEnablePeerAccess(theirs, 0);
  return result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ? int32_t(KOLO_DRIVER_OK)
                                                          : check(result, "cuCtxEnablePeerAccess");
}

/// Lines arrive whole on the device itself and over NVLink. Native atomics between two devices show that they have
/// NVLink, because PCIe has none between devices. Of a device that is invisible to this process, as where each rank
/// sees one alone, the management library knows that.
int32_t Cuda::keepsLines(int32_t device, const uint8_t *uuid, int32_t *answer) {
  *answer = 0;
  CUdevice own = 0;
  KOLO_CUDA(cuDeviceGet, &own, device);
  int count = 0;
  KOLO_CUDA(cuDeviceGetCount, &count);
  CUuuid mine = {};
  KOLO_CUDA(cuDeviceGetUuid, &mine, own);
  bool isVisible = false;
  for (int number = 0; number < count && !isVisible; ++number) {
    CUdevice peer = 0;
    KOLO_CUDA(cuDeviceGet, &peer, number);
    CUuuid theirs = {};
    KOLO_CUDA(cuDeviceGetUuid, &theirs, peer);
    if (std::memcmp(theirs.bytes, uuid, sizeof(theirs.bytes)) != 0)
      continue;
    isVisible = true;
    if (number == device)
      *answer = 1;
    else
      KOLO_CUDA(cuDeviceGetP2PAttribute, answer, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, own, peer);
  }
  if (!isVisible)
    *answer = haveNvlink(reinterpret_cast<const uint8_t *>(mine.bytes), uuid);
  return KOLO_DRIVER_OK;
}

int32_t Cuda::flushAccesses(int32_t device) {
  KOLO_CURRENT(Cuda, device);
  KOLO_CUDA(cuFlushGPUDirectRDMAWrites, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
            CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
  return KOLO_DRIVER_OK;
}

int32_t Cuda::copy(int32_t device, void *dst, const void *src, uint64_t sizeBytes, void *stream) {
  KOLO_CURRENT(Cuda, device);
  KOLO_CUDA(cuMemcpyAsync, toDevice(dst), toDevice(src), sizeBytes, static_cast<CUstream>(stream));
  return KOLO_DRIVER_OK;
}

} // namespace kolo::device

extern "C" __attribute__((visibility("default"))) const KoloDeviceDriver *kolo_device_driver() {
  return &kolo::device::driverOf<kolo::device::Cuda>;
}
