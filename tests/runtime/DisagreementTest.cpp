// All ranks refuse a wrong call at once, and the communicator stays usable.
#include "Ranks.h"
#include "TestPlugin.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>

using namespace kolo::test;
using namespace kolo::runtime;

namespace {

struct Call {
  std::vector<int32_t> in = std::vector<int32_t>(64, 1), out = std::vector<int32_t>(256, -1);
  CallArguments arguments{"scratchAllReduce", *Mesh::parse("rank=3"), 10, DataType::I32};
  Call() {
    arguments.input = in.data();
    arguments.output = out.data();
  }
};

/// Runs a changed call on three ranks, expects the status everywhere, then a good call.
std::string refused(const std::function<void(int rank, CallArguments &)> &change, StatusCode code,
                    const std::vector<std::string> &texts) {
  (void)testPlugin();
  std::string said;
  for (Launch kind : {Launch::Threads, Launch::Forked})
    said += runRanks(kind, 3, {}, [&](Communicator &communicator) {
      Call call, good;
      change(communicator.rank(), call.arguments);
      std::string wrong;
      for (int round = 0; round < 3; ++round)
        wrong += expectStatus(communicator.run(testPlugin(), call.arguments), code, texts);
      wrong += expectStatus(communicator.run(testPlugin(), good.arguments), StatusCode::Ok);
      return wrong + (good.out[9] == 3 ? "" : "wrong result");
    });
  return said;
}

} // namespace

TEST(Disagreement, OnCountNamesBothRanksAndValues) {
  EXPECT_EQ(refused([](int rank, CallArguments &arguments) { arguments.count = rank == 2 ? 9 : 10; },
                    StatusCode::Mismatch, {"ranks disagree on count: rank 0 called with 10, rank 2 with 9"}),
            "");
}

TEST(Disagreement, OnTypeReductionAndProgramIsNamed) {
  EXPECT_EQ(refused([](int rank, CallArguments &arguments) { arguments.type = rank ? DataType::I32 : DataType::F32; },
                    StatusCode::Mismatch, {"on type: rank 0 called with f32, rank 1 with i32"}),
            "");
  EXPECT_EQ(refused(
                [](int rank, CallArguments &arguments) {
                  arguments.type = DataType::F32;
                  arguments.reduction = rank == 1 ? Reduction::Average : Reduction::Sum;
                },
                StatusCode::Mismatch, {"on reduction: rank 0 called with sum, rank 1 with average"}),
            "");
  EXPECT_EQ(
      refused([](int rank,
                 CallArguments &arguments) { arguments.program = rank == 1 ? "ringAllGather" : "scratchAllReduce"; },
              StatusCode::Mismatch, {"on program"}),
      "");
}

TEST(Disagreement, OnTheOperationIsNamed) {
  EXPECT_EQ(runRanks(Launch::Threads, 2, {},
                     [](Communicator &communicator) {
                       std::vector<int32_t> out(4);
                       CallArguments arguments{"ringAllGather", *Mesh::parse("rank=2"), 1, DataType::I32};
                       arguments.input = arguments.output = out.data();
                       Status status = communicator.rank() == 0 ? communicator.barrier()
                                                                : communicator.run(testPlugin(), arguments);
                       return expectStatus(status, StatusCode::Mismatch, {"rank 0 called barrier, rank 1 called run"}) +
                              expectStatus(communicator.barrier(), StatusCode::Ok);
                     }),
            "");
}

TEST(Refusal, OfOneRankReachesTheOthersAtOnce) {
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(refused([](int rank, CallArguments &arguments) { arguments.count = rank == 1 ? -5 : 10; },
                    StatusCode::InvalidArgument, {"count is -5"}),
            "");
  EXPECT_EQ(refused(
                [](int rank, CallArguments &arguments) {
                  if (rank == 1)
                    arguments.output = nullptr;
                },
                StatusCode::InvalidArgument, {"output is null, this rank writes 40 bytes"}),
            "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Refusal, ListsTheMeshesOfTheProgram) {
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.mesh = *Mesh::parse("rank=5"); },
                    StatusCode::UnsupportedMesh, {"rank=5", "rank=1; rank=2; rank=3; rank=4; rank=8"}),
            "");
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.mesh = *Mesh::parse("node=3"); },
                    StatusCode::UnsupportedMesh, {"node=3"}),
            "");
}

TEST(Refusal, OfAMeshThatTheProgramIsNotProvedOn) {
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.program = "misbehave"; }, StatusCode::UnsupportedMesh,
                    {"program 'misbehave' is not proved on mesh rank=3"}),
            "");
}

TEST(Refusal, NamesWhatIsWrongWithTheCall) {
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.mesh = *Mesh::parse("rank=4"); },
                    StatusCode::InvalidArgument, {"4 ranks, the communicator has 3"}),
            "");
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.program = "nothing"; }, StatusCode::InvalidArgument,
                    {"no program 'nothing'"}),
            "");
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.program = ""; }, StatusCode::InvalidArgument,
                    {"14 programs: name one"}),
            "");
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.type = static_cast<DataType>(99); },
                    StatusCode::InvalidArgument, {"99 is not a data type"}),
            "");
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.reduction = static_cast<Reduction>(9); },
                    StatusCode::InvalidArgument, {"9 is not a reduction"}),
            "");
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.reduction = Reduction::Max; }, StatusCode::BadPlugin,
                    {"no code for max of i32"}),
            "");
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.count = std::numeric_limits<int64_t>::max() / 5; },
                    StatusCode::InvalidArgument, {"too large"}),
            "");
  EXPECT_EQ(refused(
                [](int, CallArguments &arguments) {
                  arguments.program = "rowBroadcast";
                  arguments.mesh = *Mesh::parse("node=1,gpu=3");
                  arguments.root = 3;
                },
                StatusCode::InvalidArgument, {"root 3"}),
            "");
}

TEST(Refusal, OfTooMuchScratchIsOutOfMemoryOnEveryRank) {
  EXPECT_EQ(refused([](int, CallArguments &arguments) { arguments.count = int64_t(1) << 55; }, StatusCode::OutOfMemory,
                    {"bytes"}),
            "");
}
