// libkolo_hip.so: KoloDeviceDriver by HIP.
#include "base/Variable.h"
#include "device/hip/HipApi.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kolo::device {
namespace {

/// Of each device, mapped into this process: a store of 1 writes back and drops what the host data path holds of the
/// device's memory, through which NICs access it. Null: the device has no such path.
std::array<std::atomic<unsigned int *>, 64> hostDataPaths;

} // namespace

int32_t Hip::describe(int32_t device, KoloDriverDevice *description) {
  hipDeviceProp_t properties = {};
  KOLO_HIP(hipGetDeviceProperties, &properties, device);
  hipDevice_t handle = 0;
  KOLO_HIP(hipDeviceGet, &handle, device);
  hipUUID uuid = {};
  KOLO_HIP(hipDeviceGetUuid, &uuid, handle);
  std::snprintf(description->name, sizeof(description->name), "%s", properties.name);
  std::snprintf(description->architecture, sizeof(description->architecture), "%s", properties.gcnArchName);
  static_assert(sizeof(uuid.bytes) == sizeof(description->uuid));
  std::memcpy(description->uuid, uuid.bytes, sizeof(description->uuid));
  description->memoryBytes = properties.totalGlobalMem;
  description->numMultiprocessors = properties.multiProcessorCount;
  const char *queues = runtime::variable("GPU_MAX_HW_QUEUES");
  constexpr int32_t usual = 4;
  int32_t asked = queues ? std::atoi(queues) : usual;
  description->numQueues = asked >= 1 ? asked : usual;
  description->canLaunchTogether = properties.cooperativeLaunch && api.launchTogether;
  const bool isKnown = static_cast<size_t>(device) < hostDataPaths.size();
  if (isKnown)
    hostDataPaths[static_cast<size_t>(device)] = properties.hdpMemFlushCntl;
  description->needsRead = 1; // HIP does not say that it is not so
  description->needsFlush = description->needsFlushToSend = isKnown && properties.hdpMemFlushCntl;
  return KOLO_DRIVER_OK; // this library allocates no virtual memory
}

int32_t Hip::countMultiprocessors(int32_t device, int32_t *number) {
  hipDeviceProp_t properties = {};
  KOLO_HIP(hipGetDeviceProperties, &properties, device);
  *number = properties.multiProcessorCount;
  return KOLO_DRIVER_OK;
}

int32_t Hip::enablePeer(int32_t device, int32_t peer) {
  KOLO_CURRENT(Hip, device);
  hipError_t result = api.hipDeviceEnablePeerAccess(peer, 0);
  return result == hipErrorPeerAccessAlreadyEnabled ? int32_t(KOLO_DRIVER_OK)
                                                    : check<Hip>(result, "hipDeviceEnablePeerAccess");
}

/// No code for AMD devices uses LL128.
int32_t Hip::keepsLines(int32_t, const uint8_t *, int32_t *answer) {
  *answer = 0;
  return KOLO_DRIVER_OK;
}

/// A device that reads what the host stores after this reads it behind the store here: PCIe keeps their order.
int32_t Hip::flushAccesses(int32_t device) {
  unsigned int *path = hostDataPaths[static_cast<size_t>(device) % hostDataPaths.size()];
  if (path)
    __atomic_store_n(path, 1u, __ATOMIC_SEQ_CST);
  return KOLO_DRIVER_OK;
}

int32_t Hip::copy(int32_t device, void *dst, const void *src, uint64_t sizeBytes, void *stream) {
  KOLO_CURRENT(Hip, device);
  KOLO_HIP(hipMemcpyAsync, dst, src, sizeBytes, hipMemcpyDefault, static_cast<hipStream_t>(stream));
  return KOLO_DRIVER_OK;
}

} // namespace kolo::device

extern "C" __attribute__((visibility("default"))) const KoloDeviceDriver *kolo_device_driver() {
  return &kolo::device::driverOf<kolo::device::Hip>;
}
