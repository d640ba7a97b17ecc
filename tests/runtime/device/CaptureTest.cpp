// New and repeated calls that are captured into graphs, and repeated launches of these graphs.
#include "device/Graph.h"

using namespace kolo::test;

TEST(Capture, ACallMayBeCapturedTheFirstTimeAndLaunchedAgain) {
  for (const char *program : {"ringAllGather", "pullAllReduce", "scratchAllReduce"})
    for (bool isSeenBefore : {false, true})
      for (bool isInPlace : {false, true}) {
        LocalRanks local({0, 0, 0}, {program, 500}, {.lanes = 2}, DeviceMemoryKind::Plain, isInPlace);
        if (isSeenBefore)
          ASSERT_EQ(local.run(1), "");
        Graph graph(local.streams[0].handle(), [&] { EXPECT_EQ(local.start().message(), ""); });
        for (int turn = 0; turn < 5; ++turn) {
          local.fill(turn);
          graph.launchAndWait(local.streams[0]);
          EXPECT_EQ(local.check(turn), "") << program << ", turn " << turn;
        }
        EXPECT_EQ(local.communicator->query().message(), "");
      }
}

TEST(Capture, ACapturedCallStaysWhenOthersGo) {
  LocalRanks local({0, 0}, {"scratchAllReduce", 400}, {.lanes = 1});
  Graph graph(local.streams[0].handle(), [&] { EXPECT_EQ(local.start().message(), ""); });
  for (int64_t count = 1; count < 300; ++count) { // more than are kept
    local.job.count = count;
    ASSERT_EQ(local.start().message(), "");
  }
  local.job.count = 400;
  ASSERT_EQ(local.communicator->synchronize().message(), "");
  local.fill(3);
  graph.launchAndWait(local.streams[0]);
  EXPECT_EQ(local.check(3), "");
  EXPECT_EQ(local.run(2), "");
}

TEST(Capture, OfAnotherStreamForbidsNeitherToWaitNorToEnd) {
  LocalRanks capturing({0}, {"ringAllGather", 10, 1});
  int64_t before = liveHandles();
  {
    LocalRanks local({0, 0}, {"ringAllGather", 500});
    local.fill(0);
    ASSERT_EQ(local.start().message(), "");
    Graph graph(capturing.streams[0].handle(), [&] {
      EXPECT_EQ(local.communicator->synchronize().message(), "");
      local.communicator.reset();
    });
    EXPECT_EQ(local.check(0), "");
  }
  EXPECT_EQ(liveHandles(), before);
}

TEST(Capture, AGraphThatWaitsInVainIsNoticedByQuery) {
  LocalRanks local({0, 0}, {"hang", 10}, {.lanes = 1, .timeoutMs = 5});
  Graph graph(local.streams[0].handle(), [&] { EXPECT_EQ(local.start().message(), ""); });
  EXPECT_EQ(local.communicator->query().message(), "");
  graph.launchAndWait(local.streams[0]);
  EXPECT_EQ(expectStatus(local.communicator->query(), StatusCode::Timeout, {"program hang, hang.cpp:"}), "");
}
