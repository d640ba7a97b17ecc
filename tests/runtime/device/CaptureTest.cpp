// Calls that are captured into graphs, seen before or not, and the graphs launched again and again.
#include "device/Support.h"

#include <cuda.h>

using namespace kolo::test;

namespace {

/// A graph of what `body` puts on a stream.
class Graph {
public:
  template <class Body> Graph(StreamHandle handle, Body &&body) : stream(static_cast<CUstream>(handle)) {
    EXPECT_EQ(driverFunction<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(stream,
                                                                                        CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_SUCCESS);
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

} // namespace

TEST(Capture, ACallMayBeCapturedTheFirstTimeAndLaunchedAgain) {
  for (const char *program : {"ringAllGather", "pullAllReduce", "scratchAllReduce"})
    for (bool isSeenBefore : {false, true})
      for (bool isInPlace : {false, true}) {
        LocalRanks world({0, 0, 0}, {program, 500}, {.lanes = 2}, DeviceMemoryKind::Plain, isInPlace);
        if (isSeenBefore)
          ASSERT_EQ(world.run(1), "");
        Graph graph(world.streams[0].handle(), [&] { EXPECT_EQ(world.start().message(), ""); });
        for (int turn = 0; turn < 5; ++turn) {
          world.fill(turn);
          graph.launchAndWait(world.streams[0]);
          EXPECT_EQ(world.check(turn), "") << program << ", turn " << turn;
        }
        EXPECT_EQ(world.communicator->query().message(), "");
      }
}

TEST(Capture, ACapturedCallStaysWhenOthersGo) {
  LocalRanks world({0, 0}, {"scratchAllReduce", 400}, {.lanes = 1});
  Graph graph(world.streams[0].handle(), [&] { EXPECT_EQ(world.start().message(), ""); });
  for (int64_t count = 1; count < 300; ++count) { // more than are kept
    world.job.count = count;
    ASSERT_EQ(world.start().message(), "");
  }
  world.job.count = 400;
  ASSERT_EQ(world.communicator->synchronize().message(), "");
  world.fill(3);
  graph.launchAndWait(world.streams[0]);
  EXPECT_EQ(world.check(3), "");
  EXPECT_EQ(world.run(2), "");
}

TEST(Capture, AGraphThatWaitsInVainIsNoticedByQuery) {
  LocalRanks world({0, 0}, {"hang", 10}, {.lanes = 1, .timeoutMs = 5});
  Graph graph(world.streams[0].handle(), [&] { EXPECT_EQ(world.start().message(), ""); });
  EXPECT_EQ(world.communicator->query().message(), "");
  graph.launchAndWait(world.streams[0]);
  EXPECT_EQ(expectStatus(world.communicator->query(), StatusCode::Timeout, {"program hang, hang.cpp:"}), "");
}
