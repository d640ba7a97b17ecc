// A kernel whose signal does not come times out, and the error says what it waited for.
#include "device/Support.h"

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace kolo::test;

TEST(DeviceTimeout, NamesWhoWaitedForWhomAndTheAuthorsLine) {
  LocalRanks local({0, 0, 1}, {"hang", 10}, {.lanes = 2, .timeoutMs = 20});
  ASSERT_EQ(local.start().message(), "");
  Status status = local.communicator->synchronize();
  EXPECT_EQ(expectStatus(status, StatusCode::Timeout,
                         {"waited for rank", "(semaphore 0, lane", "program hang, hang.cpp:", "timed out"}),
            "");
  EXPECT_TRUE(status.rank() == 2 || status.rank() == 0);
  EXPECT_EQ(expectStatus(local.communicator->query(), StatusCode::Aborted, {"was aborted", "hang.cpp:"}), "");
  EXPECT_EQ(expectStatus(local.start(), StatusCode::Aborted, {"was aborted", "hang.cpp:"}), "");
}

TEST(DeviceTimeout, IsNoticedByQueryAndByTheNextCall) {
  for (bool byQuery : {true, false}) {
    LocalRanks local({0, 0}, {"hang", 10}, {.lanes = 1, .timeoutMs = 5});
    ASSERT_EQ(local.start().message(), "");
    Status status;
    while (status.isOk()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      status = byQuery ? local.communicator->query() : local.start();
    }
    EXPECT_EQ(expectStatus(status, StatusCode::Timeout, {"program hang, hang.cpp:"}), "");
  }
}

TEST(DeviceTimeout, AnAbortEndsTheWaitForACallWhoseStreamHangs) {
  std::atomic<int> isReleased = 0;
  LocalRanks local({0, 0}, {"ringAllGather", 10});
  auto hold = driverFunction<void(CUstream, const std::atomic<int> *)>("standInHold");
  hold(static_cast<CUstream>(local.streams[0].handle()), &isReleased);
  ASSERT_EQ(local.start().message(), "");
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    local.communicator->abort();
  });
  Status status = local.communicator->synchronize();
  aborter.join();
  isReleased = 1; // before the communicator frees its memory
  EXPECT_EQ(expectStatus(status, StatusCode::PeerLost, {"aborted this communicator"}), "");
}

TEST(DeviceTimeout, LeavesNothingBehind) {
  int64_t before = liveHandles();
  {
    LocalRanks local({0, 0}, {"hang", 10}, {.lanes = 2, .timeoutMs = 5});
    EXPECT_EQ(local.start().message(), "");
  }
  EXPECT_EQ(liveHandles(), before);
}
