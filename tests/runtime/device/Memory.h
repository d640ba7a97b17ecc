// Memory that a program makes without the runtime, by functions of the stand-in driver.
#pragma once

#include "device/Graph.h"
#include "device/Support.h"

#include <vector>

namespace kolo::test {

inline CUmemLocation deviceLocation(int device) {
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  return location;
}

inline std::vector<CUmemAccessDesc> accessFor(const std::vector<int> &devices) {
  std::vector<CUmemAccessDesc> entries;
  for (int device : devices)
    entries.push_back({deviceLocation(device), CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  return entries;
}

/// Of a pool of device 0, as cudaMallocAsync gives it.
class PoolMemory {
public:
  explicit PoolMemory(size_t sizeBytes) {
    CurrentContext current;
    CUmemPoolProps properties = {};
    properties.location = deviceLocation(0);
    EXPECT_EQ(driverFunction<decltype(cuMemPoolCreate)>("cuMemPoolCreate")(&pool, &properties), CUDA_SUCCESS);
    EXPECT_EQ(driverFunction<decltype(cuMemAllocFromPoolAsync)>("cuMemAllocFromPoolAsync")(&address, sizeBytes, pool,
                                                                                           nullptr),
              CUDA_SUCCESS);
  }
  ~PoolMemory() {
    CurrentContext current;
    EXPECT_EQ(driverFunction<decltype(cuMemFreeAsync)>("cuMemFreeAsync")(address, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(driverFunction<decltype(cuMemPoolDestroy)>("cuMemPoolDestroy")(pool), CUDA_SUCCESS);
  }
  PoolMemory(const PoolMemory &) = delete;
  PoolMemory &operator=(const PoolMemory &) = delete;

  void open(int device) {
    auto entries = accessFor({device});
    EXPECT_EQ(driverFunction<decltype(cuMemPoolSetAccess)>("cuMemPoolSetAccess")(pool, entries.data(), 1),
              CUDA_SUCCESS);
  }
  void *data() const { return reinterpret_cast<void *>(address); }

private:
  CUmemoryPool pool = nullptr;
  CUdeviceptr address = 0;
};

/// Of the virtual memory interface, for device 0 alone at first, as PyTorch's expandable segments are.
class VirtualMemory {
public:
  explicit VirtualMemory(bool isShareable = true) {
    CurrentContext current;
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = deviceLocation(0);
    if (isShareable)
      properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    EXPECT_EQ(driverFunction<decltype(cuMemCreate)>("cuMemCreate")(&physical, sizeBytes, &properties, 0), CUDA_SUCCESS);
    EXPECT_EQ(driverFunction<decltype(cuMemAddressReserve)>("cuMemAddressReserve")(&address, sizeBytes, 0, 0, 0),
              CUDA_SUCCESS);
    EXPECT_EQ(driverFunction<decltype(cuMemMap)>("cuMemMap")(address, sizeBytes, 0, physical, 0), CUDA_SUCCESS);
    open(0);
  }
  ~VirtualMemory() {
    EXPECT_EQ(driverFunction<decltype(cuMemUnmap)>("cuMemUnmap")(address, sizeBytes), CUDA_SUCCESS);
    EXPECT_EQ(driverFunction<decltype(cuMemAddressFree)>("cuMemAddressFree")(address, sizeBytes), CUDA_SUCCESS);
    EXPECT_EQ(driverFunction<decltype(cuMemRelease)>("cuMemRelease")(physical), CUDA_SUCCESS);
  }
  VirtualMemory(const VirtualMemory &) = delete;
  VirtualMemory &operator=(const VirtualMemory &) = delete;

  void open(int device) {
    auto entries = accessFor({device});
    EXPECT_EQ(driverFunction<decltype(cuMemSetAccess)>("cuMemSetAccess")(address, sizeBytes, entries.data(), 1),
              CUDA_SUCCESS);
  }
  void *data() const { return reinterpret_cast<void *>(address); }

  static constexpr size_t sizeBytes = size_t(64) << 10;

private:
  CUmemGenericAllocationHandle physical = 0;
  CUdeviceptr address = 0;
};

} // namespace kolo::test
