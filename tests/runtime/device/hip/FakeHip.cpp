// A stand-in for HIP that only records launches. With HIP_IS_OLD it has no cooperative launches.
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <cstring>

static char launched[128];

static hipError_t note(const char *how, const unsigned int (&sizes)[6], void **arguments) {
  std::snprintf(launched, sizeof(launched), "%s: %ux%ux%u blocks of %ux%ux%u threads with %p", how, sizes[0], sizes[1],
                sizes[2], sizes[3], sizes[4], sizes[5], *static_cast<void **>(arguments[0]));
  return hipSuccess;
}

extern "C" {

const char *fakeHipLaunched() { return launched; }

hipError_t hipInit(unsigned int) { return hipSuccess; }

hipError_t hipGetDevice(int *device) {
  *device = 0;
  return hipSuccess;
}

hipError_t hipSetDevice(int) { return hipSuccess; }

hipError_t hipDeviceGet(hipDevice_t *handle, int device) {
  *handle = device;
  return hipSuccess;
}

hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t) {
  *uuid = {};
  return hipSuccess;
}

hipError_t hipGetDeviceCount(int *count) {
  *count = 1;
  return hipSuccess;
}

hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int) {
  *properties = {};
  std::strcpy(properties->gcnArchName, "gfx90a");
  properties->cooperativeLaunch = 1;
  return hipSuccess;
}

hipError_t hipModuleLaunchKernel(hipFunction_t, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
                                 unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int,
                                 hipStream_t, void **arguments, void **) {
  return note("alone", {gridX, gridY, gridZ, blockX, blockY, blockZ}, arguments);
}

#ifndef HIP_IS_OLD
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
                                            unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int,
                                            hipStream_t, void **arguments) {
  return note("together", {gridX, gridY, gridZ, blockX, blockY, blockZ}, arguments);
}
#endif
}
