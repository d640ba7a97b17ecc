// Graphs of the stand-in driver.
#pragma once

#include "device/Support.h"

#include <cuda.h>

namespace kolo::test {

/// Makes the context of device 0 current in this thread, for a scope.
class CurrentContext {
public:
  CurrentContext() {
    CUcontext context = nullptr;
    EXPECT_EQ(driverFunction<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0),
              CUDA_SUCCESS);
    EXPECT_EQ(driverFunction<decltype(cuCtxPushCurrent)>("cuCtxPushCurrent_v2")(context), CUDA_SUCCESS);
  }
  ~CurrentContext() {
    CUcontext popped = nullptr;
    EXPECT_EQ(driverFunction<decltype(cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&popped), CUDA_SUCCESS);
  }
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;
};

/// A graph of what `body` puts on a stream.
class Graph {
public:
  template <class Body>
  Graph(StreamHandle handle, Body &&body, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL)
      : stream(static_cast<CUstream>(handle)) {
    {
      CurrentContext current;
      EXPECT_EQ(driverFunction<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(stream, mode), CUDA_SUCCESS);
    }
    body();
    CurrentContext current;
    EXPECT_EQ(driverFunction<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(driverFunction<decltype(cuGraphInstantiate)>("cuGraphInstantiateWithFlags")(&executable, graph, 0),
              CUDA_SUCCESS);
  }
  ~Graph() {
    CurrentContext current;
    driverFunction<decltype(cuGraphExecDestroy)>("cuGraphExecDestroy")(executable);
    driverFunction<decltype(cuGraphDestroy)>("cuGraphDestroy")(graph);
  }
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  void launch() {
    CurrentContext current;
    EXPECT_EQ(driverFunction<decltype(cuGraphLaunch)>("cuGraphLaunch")(executable, stream), CUDA_SUCCESS);
  }
  void launchAndWait(DeviceStream &marks) {
    launch();
    EXPECT_TRUE(marks.mark(0).isOk() && marks.mark(1).isOk());
    EXPECT_TRUE(marks.elapsedMicroseconds().isOk()); // blocks until the stream came here
  }

private:
  CUstream stream;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
};

} // namespace kolo::test
