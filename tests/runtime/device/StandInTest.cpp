// What the stand-in driver does as the real one, and tests rely on.
#include "device/Support.h"

#include <cuda.h>

using namespace kolo::test;

namespace {

void expectDone(CUresult code) { EXPECT_EQ(code, CUDA_SUCCESS); }

} // namespace

TEST(StandIn, FreeingMemoryWaitsForAllStreamsOfTheDevice) {
  ScopedVariable late("KOLO_STANDIN_LATE_US", "30000");
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr freed = 0, written = 0;
  expectDone(driverFunction<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0));
  expectDone(driverFunction<decltype(cuCtxPushCurrent)>("cuCtxPushCurrent_v2")(context));
  expectDone(driverFunction<decltype(cuStreamCreate)>("cuStreamCreate")(&stream, CU_STREAM_NON_BLOCKING));
  for (int turn = 0; turn < 5; ++turn) {
    expectDone(driverFunction<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&freed, 64));
    expectDone(driverFunction<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&written, 64));
    auto *set = driverFunction<decltype(cuMemsetD8Async)>("cuMemsetD8Async");
    for (unsigned char value : {1, 2, 3})
      expectDone(set(written, value, 64, stream));
    expectDone(driverFunction<decltype(cuMemFree)>("cuMemFree_v2")(freed));
    EXPECT_EQ(*reinterpret_cast<const unsigned char *>(written), 3);
    expectDone(driverFunction<decltype(cuMemFree)>("cuMemFree_v2")(written));
  }
  expectDone(driverFunction<decltype(cuStreamDestroy)>("cuStreamDestroy_v2")(stream));
  expectDone(driverFunction<decltype(cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&context));
}
