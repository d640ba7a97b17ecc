// Functions of the CUDA driver that the runtime itself has no use for: graphs, copies, and kernels of other makers. For
// tests and figures, on the driver that the runtime uses.
#pragma once

#include <cuda.h>

#include <stdexcept>
#include <string>

namespace kolo::test {

/// Throws if there is none of this name.
void *driverFunction(const char *symbol);
template <class Function> Function *driverFunction(const char *symbol) {
  return reinterpret_cast<Function *>(driverFunction(symbol));
}

inline void expectDriver(CUresult result, const char *what) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(std::string(what) + ": error " + std::to_string(int(result)) + " of the driver");
}

/// Makes the primary context of device 0 current in this thread, as functions of the driver want it; for a scope.
class CurrentDevice {
public:
  /// Throws.
  CurrentDevice();
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice &) = delete;
  CurrentDevice &operator=(const CurrentDevice &) = delete;
};

/// What `body` puts on a stream of device 0, as a graph. Throws.
class Graph {
public:
  template <class Body>
  Graph(void *handle, Body &&body, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL)
      : stream(static_cast<CUstream>(handle)) {
    begin(mode);
    body();
    end();
  }
  ~Graph();
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  void launch();

private:
  void begin(CUstreamCaptureMode mode);
  void end();

  CUstream stream;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
};

} // namespace kolo::test
