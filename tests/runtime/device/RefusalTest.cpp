// The runtime refuses a wrong call before it launches anything. The message says why, and the communicator stays
// usable.
#include "device/Support.h"

using namespace kolo::test;
using kolo::runtime::Reduction;

namespace {

/// Of a call by one rank on device 0, whose stream and buffers are in order unless a test changes them.
class Refusal : public testing::Test {
protected:
  std::string refused(StatusCode code, const std::vector<std::string> &texts) {
    Status status = local.communicator->run(devicePlugin(), arguments, {&buffers, 1}, {&stream, 1});
    return expectStatus(status, code, texts);
  }
  void TearDown() override { EXPECT_EQ(local.run(1), "") << "not usable any more"; }

  LocalRanks local{{0}, {"pullAllReduce", 100}};
  CallArguments arguments = local.job.arguments();
  RankBuffers buffers = local.ranks[0].buffers();
  StreamHandle stream = local.streams[0].handle();
};

DeviceOptions many(int lanes) { return {.lanes = lanes}; }

std::string creation(std::vector<int> devices, const DeviceOptions &options) {
  auto made = DeviceCommunicator::createLocal(devices, options);
  return made.isOk() ? "it was made"
                     : std::string(kolo::runtime::toString(made.status().code())) + " " + made.status().message();
}

} // namespace

TEST_F(Refusal, BuffersThatAreNoMemoryOfTheDevice) {
  std::vector<int32_t> ordinary(100);
  buffers.input = ordinary.data();
  EXPECT_EQ(refused(StatusCode::InvalidArgument, {"rank 0", "input", "is not memory of device 0"}), "");
  buffers = local.ranks[0].buffers();
  buffers.output = nullptr;
  EXPECT_EQ(refused(StatusCode::InvalidArgument, {"output is null"}), "");
}

TEST_F(Refusal, MemoryThatWasFreed) {
  {
    auto gone = local.communicator->allocate(0, 400);
    buffers.input = gone->data();
  }
  EXPECT_EQ(refused(StatusCode::InvalidArgument, {"input", "is not memory of device 0"}), "");
}

TEST_F(Refusal, MemoryOfAnotherDevice) {
  LocalRanks other({1}, {"pullAllReduce", 100});
  buffers.output = other.ranks[0].buffers().output;
  EXPECT_EQ(refused(StatusCode::InvalidArgument, {"output", "memory of device 1"}), "");
}

TEST_F(Refusal, MemoryThatIsTooSmall) {
  buffers.input = static_cast<const std::byte *>(buffers.input) + 4;
  EXPECT_EQ(refused(StatusCode::InvalidArgument, {"input has 400 bytes, and only 396 are left"}), "");
}

TEST_F(Refusal, TypesAndReductionsThatTheImageHasNoCodeFor) {
  arguments.count = 10;
  arguments.type = DataType::F64;
  EXPECT_EQ(refused(StatusCode::BadPlugin, {"no code for sum of f64 on devices"}), "");
  arguments.type = DataType::F32;
  arguments.reduction = Reduction::Max;
  EXPECT_EQ(refused(StatusCode::BadPlugin, {"no code for max of f32 on devices"}), "");
  arguments.type = DataType::F16;
  arguments.reduction = Reduction::Average;
  EXPECT_EQ(refused(StatusCode::BadPlugin, {"devices do not average f16, whose sums may overflow"}), "");
}

TEST_F(Refusal, BlockTablesThatTheProgramDoesNotTake) {
  const int64_t counts[] = {100};
  const kolo::runtime::BlockTables tables{{counts, {}}, {counts, {}}};
  arguments.program = "ringAllGather";
  buffers.blocks = &tables;
  EXPECT_EQ(refused(StatusCode::InvalidArgument, {"program 'ringAllGather' takes no block tables on mesh rank=1"}), "");
  arguments.program = "pullAllReduce";
  EXPECT_EQ(refused(StatusCode::InvalidArgument, {"all_reduce has one block, and takes no block tables"}), "");
}

TEST_F(Refusal, AProgramThatIsNotWhatTheCallAsksForThoughItRanBefore) {
  EXPECT_EQ(local.run(1), "");
  arguments.collective = kolo::runtime::CollectiveKind::AllGather;
  EXPECT_EQ(refused(StatusCode::InvalidArgument, {"program 'pullAllReduce' is no all_gather"}), "");
}

TEST_F(Refusal, AnotherNumberOfRanksOrStreams) {
  Status status = local.communicator->run(devicePlugin(), arguments, {}, {});
  EXPECT_EQ(expectStatus(status, StatusCode::InvalidArgument, {"1 ranks are here, and the call is for 0"}), "");
}

TEST(Residency, MoreLanesThanTheDeviceHoldsAreRefused) {
  ScopedVariable small("KOLO_STANDIN_RESIDENT", "16");
  EXPECT_EQ(LocalRanks({0, 0}, {"ringAllGather", 100}, many(8)).run(1), "");
  EXPECT_EQ(LocalRanks({0, 0, 1, 1}, {"ringAllGather", 100}, many(8)).run(1, true), "");
  std::string said = LocalRanks({0, 0, 0}, {"ringAllGather", 100}, many(6)).run(1);
  EXPECT_EQ(
      said,
      "3 ranks of 6 lanes are 18 blocks of 512 threads on device 0, which holds 16 of program 'ringAllGather' at once");
  EXPECT_NE(LocalRanks({0, 0, 0}, {"ringAllGather", 100}, many(6)).run(1, true), "") << "with a stream each";
}

TEST(Architecture, PtxRunsOnItsOwnAndLaterOnesAndTheLatestIsChosen) {
  for (const char *architecture : {"70", "90"}) {
    ScopedVariable device("KOLO_STANDIN_ARCHITECTURE", architecture);
    EXPECT_EQ(LocalRanks({0}, {"ringAllGather", 100}).run(1), "") << architecture;
  }
  {
    ScopedVariable device("KOLO_STANDIN_ARCHITECTURE", "61");
    std::string said = LocalRanks({0}, {"ringAllGather", 100}).run(1);
    EXPECT_NE(
        said.find(
            "no code for cuda devices of architecture sm_61; it has code for: cuda sm_100, cuda sm_70, cuda sm_100 "
            "(cubin), cuda sm_80 (cubin), hip gfx1234, hip gfx90a"),
        std::string::npos)
        << said;
  }
}

TEST(Architecture, ACubinIsForItsOwnAndIsTakenThereInsteadOfPtx) {
  ScopedVariable noPtx("KOLO_STANDIN_JIT", "0");
  ScopedVariable device("KOLO_STANDIN_ARCHITECTURE", "100");
  EXPECT_EQ(LocalRanks({0}, {"ringAllGather", 100}).run(1), "");
}

TEST(Architecture, AnImageThatTheDriverRefusesLeavesThePlaceToTheNextOne) {
  for (const char *architecture : {"120", "86"}) { // the PTX for sm_100 is rubbish
    ScopedVariable device("KOLO_STANDIN_ARCHITECTURE", architecture);
    EXPECT_EQ(LocalRanks({0}, {"ringAllGather", 100}).run(1), "") << architecture;
  }
  {
    ScopedVariable device("KOLO_STANDIN_ARCHITECTURE", "80"); // for which the cubin is of another architecture
    EXPECT_EQ(LocalRanks({0}, {"ringAllGather", 100}).run(1), "");
  }
  ScopedVariable device("KOLO_STANDIN_ARCHITECTURE", "100");
  ScopedVariable oldDriver("KOLO_STANDIN_CUBINS", "0");
  EXPECT_EQ(LocalRanks({0}, {"ringAllGather", 100}).run(1), "");
}

TEST(Architecture, WhereTheDriverRefusesAllImagesItsReasonsAreSaid) {
  ScopedVariable device("KOLO_STANDIN_ARCHITECTURE", "100");
  ScopedVariable oldDriver("KOLO_STANDIN_CUBINS", "0");
  ScopedVariable noPtx("KOLO_STANDIN_JIT", "0");
  std::string said = LocalRanks({0}, {"ringAllGather", 100}).run(1);
  for (const char *reason : {"loading the image for sm_100 (cubin): cuModuleLoadData: device kernel image is invalid; ",
                             "loading the image for sm_100: cuModuleLoadData: PTX JIT compiler library not found; ",
                             "loading the image for sm_70: cuModuleLoadData: PTX JIT compiler library not found"})
    EXPECT_NE(said.find(reason), std::string::npos) << said;
}

TEST(Creation, WhatCannotBeIsRefused) {
  EXPECT_EQ(creation({0, 2}, {}), "InvalidArgument cuda device 2: opening it: device 2: there are 2");
  EXPECT_EQ(creation({}, {}), "InvalidArgument a communicator has between 1 and 4096 ranks, not 0");
  EXPECT_EQ(creation({0}, {.lanes = -1}), "InvalidArgument lanes must be between 1 and 64, not -1");
  EXPECT_EQ(creation({0}, {.threads = 100}),
            "InvalidArgument threads must be a multiple of 64 between 64 and 512, not 100");
  EXPECT_EQ(creation({0}, {.timeoutMs = 0}), "InvalidArgument timeoutMs must be at least 1, not 0");
}

TEST(Creation, ADriverThatIsNotThereIsNamed) {
  auto said = runProcesses(1, [](int) -> std::string {
    setenv("KOLO_CUDA_DRIVER", "/nowhere/libcuda.so", 1);
    return creation({0}, {});
  });
  EXPECT_EQ(said[0].find("DeviceError KOLO_CUDA_DRIVER: the CUDA driver cannot be loaded: /nowhere/libcuda.so"), 0u)
      << said[0];
}

TEST(Creation, DevicesThatAreNotThereAreAnErrorWithAReason) {
  auto number = kolo::runtime::countDevices(kolo::runtime::DeviceKind::Hip);
  if (number.isOk())
    GTEST_SKIP() << "there are HIP devices: " << *number;
  EXPECT_EQ(number.status().code(), StatusCode::DeviceError);
  EXPECT_NE(number.status().message(), "");
}

TEST(Creation, CodeForTheHostAloneIsRefused) {
  LocalRanks local({0}, {"ringAllGather", 100});
  auto other = Plugin::load(KOLO_TEST_HOST_PLUGIN);
  ASSERT_TRUE(other.isOk());
  RankBuffers buffers = local.ranks[0].buffers();
  StreamHandle stream = local.streams[0].handle();
  Status status = local.communicator->run(*other, local.job.arguments(), {&buffers, 1}, {&stream, 1});
  EXPECT_EQ(expectStatus(status, StatusCode::BadPlugin, {"has no code for devices"}), "");
}
