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

void Graph::begin(CUstreamCaptureMode mode) {
  expectDriver(driverFunction<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(stream, mode),
               "cuStreamBeginCapture");
}

void Graph::end() {
  expectDriver(driverFunction<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph),
               "cuStreamEndCapture");
  expectDriver(driverFunction<decltype(cuGraphInstantiate)>("cuGraphInstantiateWithFlags")(&executable, graph, 0),
               "cuGraphInstantiate");
}

Graph::~Graph() {
  if (executable)
    driverFunction<decltype(cuGraphExecDestroy)>("cuGraphExecDestroy")(executable);
  if (graph)
    driverFunction<decltype(cuGraphDestroy)>("cuGraphDestroy")(graph);
}

void Graph::launch() {
  expectDriver(driverFunction<decltype(cuGraphLaunch)>("cuGraphLaunch")(executable, stream), "cuGraphLaunch");
}

} // namespace kolo::test
