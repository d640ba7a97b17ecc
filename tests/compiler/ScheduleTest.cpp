// What `resolve` makes of a schedule: every choice that follows from others, and every refusal.
#include "compiler/Schedule.h"

#include <gtest/gtest.h>

using namespace kolo;

namespace {

constexpr Setting any{}, host{.runners = Runners::Host}, devices{.runners = Runners::HostAndDevices};

ResolvedSchedule resolved(const Schedule &schedule, const Setting &setting) {
  return std::get<ResolvedSchedule>(resolve(schedule, setting));
}

/// Empty if the schedule is not refused.
std::string refusalOf(const Schedule &schedule, const Setting &setting = any) {
  auto result = resolve(schedule, setting);
  const auto *mistake = std::get_if<ScheduleMistake>(&result);
  return mistake ? mistake->message : "";
}

TEST(Resolve, MakesADefaultConstructedScheduleOfTheDefaults) { EXPECT_EQ(resolved({}, {}), ResolvedSchedule()); }

TEST(Resolve, LeavesEveryOptionalPassOutOfTheDefaults) {
  ResolvedSchedule schedule = resolved({}, any);
  EXPECT_TRUE(schedule.isOptimized());
  EXPECT_EQ(schedule.pipelineDepth(), 1);
  EXPECT_EQ(schedule.transfers(), Transfers::Auto);
  EXPECT_FALSE(schedule.publishesInputs() || schedule.usesPackets() || schedule.usesLL128() ||
               schedule.entersTogether() || schedule.usesHandshakes());
}

TEST(Resolve, KeepsWhatTheUserChose) {
  Schedule chosen{.pipelineDepth = maxPipelineDepth,
                  .synchronisation = Synchronisation::Handshake,
                  .transfers = Transfers::Push,
                  .entry = Entry::Together};
  ResolvedSchedule schedule = resolved(chosen, any);
  EXPECT_EQ(schedule.pipelineDepth(), maxPipelineDepth);
  EXPECT_TRUE(schedule.usesHandshakes());
  EXPECT_EQ(schedule.transfers(), Transfers::Push);
  EXPECT_TRUE(schedule.entersTogether());
  EXPECT_EQ(resolved({.transfers = Transfers::Pull}, any).transfers(), Transfers::Pull);
}

TEST(Resolve, LetsRanksEnterTogetherWhereOnlyTheHostRunsThem) {
  EXPECT_TRUE(resolved({}, host).entersTogether());
  EXPECT_FALSE(resolved({}, devices).entersTogether());
  EXPECT_FALSE(resolved({}, any).entersTogether());
}

TEST(Resolve, LetsTheUserDecideHowRanksEnterOnTheHost) {
  EXPECT_FALSE(resolved({.entry = Entry::Credits}, host).entersTogether());
  EXPECT_TRUE(resolved({.entry = Entry::Together}, host).entersTogether());
  EXPECT_FALSE(resolved({.entry = Entry::Credits}, devices).entersTogether());
}

TEST(Resolve, HasPublishedInputsReadByRanksThatEnterTogether) {
  for (const Setting &setting : {any, host}) {
    ResolvedSchedule schedule = resolved({.protocol = Protocol::Published}, setting);
    EXPECT_TRUE(schedule.publishesInputs());
    EXPECT_EQ(schedule.transfers(), Transfers::Pull);
    EXPECT_TRUE(schedule.entersTogether());
    EXPECT_FALSE(schedule.usesPackets());
  }
}

TEST(Resolve, HasPacketsWrittenByTheirSender) {
  for (Protocol protocol : {Protocol::LL, Protocol::LL128}) {
    ResolvedSchedule schedule = resolved({.protocol = protocol}, devices);
    EXPECT_TRUE(schedule.usesPackets());
    EXPECT_EQ(schedule.usesLL128(), protocol == Protocol::LL128);
    EXPECT_EQ(schedule.transfers(), Transfers::Push);
    EXPECT_FALSE(schedule.publishesInputs() || schedule.entersTogether());
  }
}

TEST(Resolve, UsesHandshakesWithoutOptimisation) {
  ResolvedSchedule schedule = resolved({}, {.runners = Runners::Host, .optimize = false});
  EXPECT_FALSE(schedule.isOptimized());
  EXPECT_TRUE(schedule.usesHandshakes());
}

TEST(Resolve, RefusesAPipelineOfImpossibleDepth) {
  EXPECT_EQ(refusalOf({.pipelineDepth = 0}), "pipeline: 0 is no number from 1 to 64");
  EXPECT_EQ(refusalOf({.pipelineDepth = 65}), "pipeline: 65 is no number from 1 to 64");
  EXPECT_EQ(refusalOf({.pipelineDepth = 64}), "");
}

TEST(Resolve, RefusesWhatPublishedInputsExclude) {
  std::string message = "protocol published: all of the input is published at once as all ranks enter, and read; not "
                        "with pipeline, transfers push or entry credits";
  EXPECT_EQ(refusalOf({.pipelineDepth = 2, .protocol = Protocol::Published}), message);
  EXPECT_EQ(refusalOf({.transfers = Transfers::Push, .protocol = Protocol::Published}), message);
  EXPECT_EQ(refusalOf({.entry = Entry::Credits, .protocol = Protocol::Published}), message);
  EXPECT_EQ(refusalOf({.transfers = Transfers::Pull, .entry = Entry::Together, .protocol = Protocol::Published}), "");
}

TEST(Resolve, RefusesWhatPacketsExclude) {
  for (auto [protocol, name] : {std::pair(Protocol::LL, "ll"), std::pair(Protocol::LL128, "ll128")}) {
    std::string message = std::string("protocol ") + name +
                          ": everything is written by its sender, a packet at a time; not with pipeline or transfers "
                          "pull";
    EXPECT_EQ(refusalOf({.pipelineDepth = 2, .protocol = protocol}), message);
    EXPECT_EQ(refusalOf({.transfers = Transfers::Pull, .protocol = protocol}), message);
    EXPECT_EQ(refusalOf({.transfers = Transfers::Push, .entry = Entry::Together, .protocol = protocol}), "");
  }
}

TEST(Resolve, RefusesOnDevicesWhatOnlyTheHostCanDo) {
  std::string message = "protocol published, and ranks that enter together, are for the host alone";
  EXPECT_EQ(refusalOf({.protocol = Protocol::Published}, devices), message);
  EXPECT_EQ(refusalOf({.entry = Entry::Together}, devices), message);
  EXPECT_EQ(refusalOf({.protocol = Protocol::Published}, host), "");
  EXPECT_EQ(refusalOf({.entry = Entry::Together}, host), "");
}

} // namespace
