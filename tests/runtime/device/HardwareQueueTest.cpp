// Streams share hardware queues: what waits in one keeps its queue-mates waiting, also for those that it waits for.
#include "device/Member.h"

using namespace kolo::test;

class Queues : public testing::TestWithParam<int> {};

/// Two ranks of device 0 and one of device 1, each in a thread with a stream of its own, and calls in pieces.
TEST_P(Queues, RanksInThreadsGetTheirPiecesInOrderOrAreRefused) {
  const int number = GetParam();
  ScopedVariable queues("CUDA_DEVICE_MAX_CONNECTIONS", std::to_string(number).c_str());
  std::string said = inAll(Launch::Threads, [](Communicator &host) {
    return Member(host, jobOf("ringAllGather", 30000), {.lanes = 2, .timeoutMs = 3000, .internalBytes = 64 << 10})
        .run(2);
  });
  if (number >= 3)
    EXPECT_EQ(said, "");
  else
    EXPECT_NE(said.find("2 ranks of this process on device 0 need 3 hardware queues, and it has " +
                        std::to_string(number) + ": set CUDA_DEVICE_MAX_CONNECTIONS"),
              std::string::npos)
        << said;
}

INSTANTIATE_TEST_SUITE_P(Numbers, Queues, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 16, 32));

TEST(HardwareQueues, AStreamForEachRankNeedsAQueueForEach) {
  ScopedVariable queues("CUDA_DEVICE_MAX_CONNECTIONS", "3");
  EXPECT_EQ(LocalRanks({0, 0}, {"ringAllGather", 100}, {.lanes = 2, .timeoutMs = 2000}).run(2, true), "");
  EXPECT_EQ(LocalRanks({0, 0, 0, 0}, {"ringAllGather", 100}, {.lanes = 2, .timeoutMs = 2000}).run(2), "");
  EXPECT_EQ(LocalRanks({0, 0, 0, 0}, {"ringAllGather", 100}, {.lanes = 2, .timeoutMs = 2000}).run(1, true),
            "4 streams of one call wait for each other on device 0, which has 3 hardware queues: set "
            "CUDA_DEVICE_MAX_CONNECTIONS");
}

/// A launch of the last rank would wait in the stream for that of the first one, which waits for it.
TEST(HardwareQueues, AStreamThatComesAgainBehindAnotherIsRefused) {
  LocalRanks local({0, 0, 0}, {"ringAllGather", 100}, {.lanes = 2, .timeoutMs = 2000});
  std::vector<RankBuffers> buffers;
  for (Rank &rank : local.ranks)
    buffers.push_back(rank.buffers());
  std::vector<StreamHandle> streams = {local.streams[0].handle(), local.streams[1].handle(), local.streams[0].handle()};
  Status status = local.communicator->run(devicePlugin(), local.job.arguments(), buffers, streams);
  EXPECT_EQ(expectStatus(status, StatusCode::InvalidArgument,
                         {"ranks 0 and 2 are on one stream of device 0, and rank 1 between them on another"}),
            "");
  EXPECT_EQ(local.run(2), "");
}

TEST(HardwareQueues, StreamsForPiecesAreMadeWhenACallHasPieces) {
  EXPECT_EQ(inAll(Launch::Forked,
                  [](Communicator &host) -> std::string {
                    Member member(host, jobOf("ringAllGather", 100), {.lanes = 2, .internalBytes = 64 << 10});
                    auto *count = driverFunction<int64_t()>("standInStreams");
                    std::string wrong = member.run(2);
                    if (int64_t number = count(); number != 2) // the rank's own, and that for copies
                      wrong += "there are " + std::to_string(number) + " streams";
                    member.changeJob(jobOf("ringAllGather", 30000));
                    wrong += member.run(2);
                    return wrong + (count() == 4 ? "" : "no streams for pieces");
                  }),
            "");
}
