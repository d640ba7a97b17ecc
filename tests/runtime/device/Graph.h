// Graphs of the stand-in driver.
#pragma once

#include "device/Support.h"

#include <cuda.h>

namespace kolo::test {

/// A graph of what `body` puts on a stream.
class Graph {
public:
  template <class Body>
  Graph(StreamHandle handle, Body &&body, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL)
      : stream(static_cast<CUstream>(handle)) {
    EXPECT_EQ(driverFunction<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(stream, mode), CUDA_SUCCESS);
    body();
    EXPECT_EQ(driverFunction<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(driverFunction<decltype(cuGraphInstantiate)>("cuGraphInstantiateWithFlags")(&executable, graph, 0),
              CUDA_SUCCESS);
  }
  ~Graph() {
    driverFunction<decltype(cuGraphExecDestroy)>("cuGraphExecDestroy")(executable);
    driverFunction<decltype(cuGraphDestroy)>("cuGraphDestroy")(graph);
  }
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  void launch() {
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
