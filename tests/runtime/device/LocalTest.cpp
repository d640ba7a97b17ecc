// All ranks in one process, on one device and on several.
#include "device/Support.h"

using namespace kolo::test;

namespace {

std::vector<int> onOneDevice(int numRanks) { return std::vector<int>(static_cast<size_t>(numRanks), 0); }

} // namespace

TEST(LocalDevices, SeveralRanksOnOneDeviceGiveTheRightResultInOneLaunch) {
  for (int numRanks : {1, 2, 4, 8})
    for (const char *program : programs)
      for (int64_t count : {0, 1, 17, 1000})
        EXPECT_EQ(
            LocalRanks(onOneDevice(numRanks), {program, count}, {.lanes = 3, .internalBytes = littleMemory}).run(2), "")
            << numRanks << " ranks, " << program << ", count " << count;
}

TEST(LocalDevices, RanksMayHaveAStreamEach) {
  for (const char *program : programs)
    EXPECT_EQ(LocalRanks(onOneDevice(4), {program, 1000}, {.lanes = 2}).run(3, true), "") << program;
}

TEST(LocalDevices, RanksMayBeOnSeveralDevices) {
  for (const char *program : programs)
    for (bool haveOwnStreams : {false, true})
      EXPECT_EQ(LocalRanks({0, 1, 1, 0}, {program, 1000}, {.lanes = 2}).run(3, haveOwnStreams), "") << program;
}

TEST(LocalDevices, VirtualMemoryServesAsWell) {
  EXPECT_EQ(LocalRanks({0, 1}, {"pullAllReduce", 1000}, {}, DeviceMemoryKind::Virtual).run(2), "");
}

TEST(LocalDevices, CallsInPlaceAreRightWhetherTheProgramIsMadeForThatOrNot) {
  for (const char *program : programs)
    EXPECT_EQ(LocalRanks(onOneDevice(4), {program, 1000}, {.lanes = 2}, DeviceMemoryKind::Plain, true).run(3), "")
        << program;
}

TEST(LocalDevices, CallsBackToBackNeedNoWaitingBetweenThem) {
  LocalRanks local({0, 0, 1, 1}, {"scratchAllReduce", 5000}, {.lanes = 4});
  local.fill(0);
  for (int call = 0; call < 50; ++call)
    ASSERT_EQ(local.start(call % 3 == 0).message(), ""); // now and then on other streams
  EXPECT_EQ(local.communicator->synchronize().message(), "");
  EXPECT_EQ(local.check(0), "");
}

TEST(LocalDevices, ACallThatIsRepeatedAllocatesNothingAndTheImageIsLoadedOnce) {
  int64_t before = liveHandles(), loads = moduleLoads();
  {
    LocalRanks local(onOneDevice(4), {"scratchAllReduce", 100}, {.lanes = 2});
    EXPECT_EQ(local.run(1), "");
    int64_t after = liveHandles();
    EXPECT_EQ(local.run(20), "");
    EXPECT_EQ(liveHandles(), after);
    LocalRanks other(onOneDevice(2), {"ringAllGather", 100});
    EXPECT_EQ(other.run(1), "");
    EXPECT_EQ(moduleLoads(), loads + 1);
  }
  EXPECT_EQ(liveHandles(), before); // everything went
}

TEST(LocalDevices, CallsThatDifferInTheCollectiveAloneAreDifferentCalls) {
  using enum kolo::runtime::CollectiveKind;
  LocalRanks local(onOneDevice(2), {"", 100, 2, AllGather}, {.lanes = 2});
  EXPECT_EQ(local.run(2), "");
  for (Rank &rank : local.ranks)
    rank.setCollective(AllReduce);
  local.job.collective = AllReduce;
  EXPECT_EQ(local.run(2), "");
}

TEST(LocalDevices, ATableSaysHowManyLanesACallHas) {
  using kolo::runtime::CollectiveKind, kolo::runtime::mostTableLanes, kolo::runtime::defaultLanes;
  constexpr int64_t most = 20000;
  LocalRanks local({0, 0, 1, 1}, {"", most, 4, CollectiveKind::AllReduce}, {.threads = 64});
  local.fill(0);
  const std::pair<int64_t, int> calls[] = {
      {100, 1}, {256, 1}, {257, 3}, {2048, 3}, {2049, mostTableLanes}, {most, mostTableLanes}};
  for (int turn = 0; turn < 5; ++turn)
    for (auto [count, lanes] : calls) { // back to back
      local.job.count = count;
      ASSERT_EQ(local.start().message(), "");
      ASSERT_EQ(lastLanes(), lanes) << count;
    }
  EXPECT_EQ(local.run(3), "");
  local.job.program = "scratchAllReduce"; // no table is asked
  EXPECT_EQ(local.run(2), "");
  EXPECT_EQ(lastLanes(), defaultLanes);
  local.job.lanes = 2;
  EXPECT_EQ(local.run(2), "");
  EXPECT_EQ(lastLanes(), 2);
}

TEST(LocalDevices, OptionsThatNameLanesGoBeforeATable) {
  LocalRanks local({0, 0, 1, 1}, {"", 100, 4, kolo::runtime::CollectiveKind::AllReduce}, {.lanes = 2});
  EXPECT_EQ(local.run(2), "");
  EXPECT_EQ(lastLanes(), 2);
}

TEST(LocalDevices, MoreDifferentCallsThanAreKeptAreRightToo) {
  LocalRanks local(onOneDevice(2), {"scratchAllReduce", 400}, {.lanes = 1});
  local.fill(0);
  for (int64_t count = 1; count <= 300; ++count) {
    local.job.count = count;
    ASSERT_EQ(local.start().message(), "");
  }
  EXPECT_EQ(local.communicator->synchronize().message(), "");
  local.job.count = 400;
  EXPECT_EQ(local.run(2), "");
}

TEST(LocalDevices, CallsOnEverNewBuffersUseTheMemoryOfEarlierOnes) {
  constexpr size_t numCalls = 1400, stride = 64; // bytes of one output
  LocalRanks local(onOneDevice(2), {"ringAllGather", 4, 2}, {.lanes = 1});
  local.fill(0);
  DeviceBuffer outputs = std::move(*local.communicator->allocate(0, 2 * numCalls * stride));
  const kolo::runtime::StreamHandle streams[] = {local.streams[0].handle(), local.streams[0].handle()};
  int64_t alive = 0;
  for (size_t call = 0; call < numCalls; ++call) {
    std::vector<RankBuffers> buffers;
    for (size_t rank : {0, 1})
      buffers.push_back({local.ranks[rank].buffers().input,
                         static_cast<std::byte *>(outputs.data()) + (call + rank * numCalls) * stride});
    ASSERT_EQ(local.communicator->run(devicePlugin(), local.job.arguments(), buffers, streams).message(), "");
    if (call % 100 == 0)
      ASSERT_EQ(local.communicator->synchronize().message(), "");
    if (call == numCalls / 2)
      alive = liveHandles();
  }
  EXPECT_EQ(local.communicator->synchronize().message(), "");
  EXPECT_EQ(liveHandles(), alive);
  for (size_t output = 0; output < 2 * numCalls; ++output)
    for (int64_t index = 0; index < 8; ++index) {
      int32_t found = 0;
      ASSERT_EQ(outputs.read(output * stride + size_t(index) * 4, &found, 4).message(), "");
      ASSERT_EQ(found, elementOf(int(index / 4), index % 4, 0)) << "call " << output % numCalls;
    }
}

TEST(LocalDevices, AStreamTellsTheTimeBetweenItsMarks) {
  LocalRanks local(onOneDevice(2), {"ringAllGather", 1000});
  EXPECT_EQ(local.run(1), "");
  EXPECT_TRUE(local.streams[0].mark(0).isOk());
  EXPECT_EQ(local.start().message(), "");
  EXPECT_TRUE(local.streams[0].mark(1).isOk());
  auto elapsed = local.streams[0].elapsedMicroseconds();
  ASSERT_TRUE(elapsed.isOk()) << elapsed.status().message();
  EXPECT_GT(*elapsed, 0);
  EXPECT_EQ(expectStatus(local.streams[0].mark(2), StatusCode::InvalidArgument, {"marks 0 and 1"}), "");
}
