// Compiled algorithms and streams, in one process: graphs, calls back to back with skew, and a peer that never starts.
#include "Driver.h"
#include "Member.h"

#include <gtest/gtest.h>

using namespace kolo::test;

namespace {

class DeviceStreams : public testing::Test {
protected:
  void SetUp() override {
    if (std::string why = whyNoDevice(); !why.empty())
      GTEST_SKIP() << why;
  }
};

/// What all ranks say, each in a thread.
std::string inThreads(int numRanks, const std::function<std::string(int rank, Communicator host)> &body) {
  return runRanks(Launch::Threads, numRanks, {.timeoutMs = 15000}, [&](Communicator &host) {
    int rank = host.rank(); // before it moves away
    return guarded([&] { return body(rank, std::move(host)); });
  });
}

} // namespace

TEST_F(DeviceStreams, ACapturedCallGivesTheRightResultEachTimeItsGraphIsLaunched) {
  for (const char *protocol : {"bulk", "ll"})
    for (const char *name : {"ringAllGather", "ringAllReduce"}) {
      DeviceAlgorithm algorithm(name, protocol);
      for (const kolo::runtime::Mesh &mesh : algorithm.meshes()) {
        DeviceRanks ranks(algorithm, mesh, {.lanes = 2, .threads = 256});
        ranks.prepare(algorithm.call(mesh, 1001), 0);
        std::string problem;
        Graph graph(ranks.stream.handle(), [&] { problem = ranks.start(2); });
        ASSERT_EQ(problem, "");
        for (uint64_t turn = 1; turn < 5; ++turn) {
          ranks.fill(turn);
          graph.launch();
          // Marks, since `synchronize` waits for no graph.
          EXPECT_TRUE(ranks.stream.mark(0).isOk() && ranks.stream.mark(1).isOk());
          EXPECT_TRUE(ranks.stream.elapsedMicroseconds().isOk());
          EXPECT_EQ(ranks.check(), "") << name << " " << protocol << ", " << mesh.toString() << ", turn " << turn;
        }
      }
    }
}

TEST_F(DeviceStreams, CallsWithSkewNeedNoWaitingBetweenThem) {
  for (const char *protocol : {"bulk", "ll"})
    for (const char *name : {"ringAllGather", "ringAllReduce"}) {
      DeviceAlgorithm algorithm(name, protocol);
      EXPECT_EQ(inThreads(4,
                          [&](int rank, Communicator host) {
                            Member member(std::move(host), algorithm, 3001);
                            return runWithSkew(member, rank, 4, 30);
                          }),
                "")
          << name << " " << protocol;
    }
}

TEST_F(DeviceStreams, AKernelWhosePeerIsNeverLaunchedTimesOutAndNamesTheAuthorsLine) {
  DeviceAlgorithm algorithm("ringAllGather", "bulk");
  EXPECT_EQ(inThreads(2,
                      [&](int rank, Communicator host) -> std::string {
                        Member member(std::move(host), algorithm, 1000, {.lanes = 2, .timeoutMs = 200});
                        Status status;
                        if (rank == 0) {
                          status = member.start();
                          if (status.isOk())
                            status = member.finish();
                          return expectStatus(status, StatusCode::Timeout,
                                              {"waited for rank 1", "program ringAllGather, algorithms/", "timed out"});
                        }
                        // It takes part in the call, but only in a graph that nobody launches.
                        Graph graph(
                            member.stream.handle(), [&] { status = member.start(); },
                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
                        return status.message();
                      }),
            "");
}
