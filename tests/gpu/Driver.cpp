#include "Driver.h"

#include <dlfcn.h>

#include <cstdlib>

namespace kolo::test {

void *driverFunction(const char *symbol) {
  static const char *path = std::getenv("KOLO_CUDA_DRIVER") ? std::getenv("KOLO_CUDA_DRIVER") : "libcuda.so.1";
  static void *library = dlopen(path, RTLD_NOW);
  void *function = library ? dlsym(library, symbol) : nullptr;
  if (!function)
    throw std::runtime_error(std::string(path) + " has no " + symbol);
  return function;
}

CurrentDevice::CurrentDevice() {
  static CUcontext context = [] { // stays retained
    CUcontext made = nullptr;
    expectDriver(driverFunction<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&made, 0),
                 "cuDevicePrimaryCtxRetain");
    return made;
  }();
  expectDriver(driverFunction<decltype(cuCtxPushCurrent)>("cuCtxPushCurrent_v2")(context), "cuCtxPushCurrent");
}

CurrentDevice::~CurrentDevice() {
  CUcontext popped = nullptr;
  (void)driverFunction<decltype(cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&popped);
}

void Graph::begin(CUstreamCaptureMode mode) {
  CurrentDevice current;
  expectDriver(driverFunction<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(stream, mode),
               "cuStreamBeginCapture");
}

void Graph::end() {
  CurrentDevice current;
  expectDriver(driverFunction<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph),
               "cuStreamEndCapture");
  expectDriver(driverFunction<decltype(cuGraphInstantiate)>("cuGraphInstantiateWithFlags")(&executable, graph, 0),
               "cuGraphInstantiate");
}

Graph::~Graph() {
  CurrentDevice current;
  if (executable)
    driverFunction<decltype(cuGraphExecDestroy)>("cuGraphExecDestroy")(executable);
  if (graph)
    driverFunction<decltype(cuGraphDestroy)>("cuGraphDestroy")(graph);
}

void Graph::launch() {
  CurrentDevice current;
  expectDriver(driverFunction<decltype(cuGraphLaunch)>("cuGraphLaunch")(executable, stream), "cuGraphLaunch");
}

} // namespace kolo::test
