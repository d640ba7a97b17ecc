// The accesses of a run: which of them are ordered, and what the memory holds.
#include "compiler/import/BlockRun.h"

#include <fmt/format.h>

#include <algorithm>

namespace kolo::foreign {

static int32_t lineOf(const ForeignSchedule &schedule, const BlockAccess &access) {
  if (access.thread < 0 || size_t(access.thread) >= schedule.threads.size())
    return 0;
  return schedule.threads[size_t(access.thread)].actions[size_t(access.action)].line;
}

static std::string describe(const ForeignSchedule &schedule, const BlockAccess &access, bool isWrite) {
  const char *what = isWrite ? "writes" : "reads";
  if (size_t(access.thread) >= schedule.threads.size())
    return fmt::format("the application {} it {} call {}", what, isWrite ? "before" : "after", access.call + 1);
  const Thread &thread = schedule.threads[size_t(access.thread)];
  return fmt::format("{} of rank {} {} it in call {}", thread.name, thread.rank, what, access.call + 1);
}

static FindingStep stepOf(const ForeignSchedule &schedule, const BlockAccess &access, bool isWrite,
                          const ChunkPlace &place) {
  bool isThread = size_t(access.thread) < schedule.threads.size();
  int32_t rank =
      isThread ? schedule.threads[size_t(access.thread)].rank : access.thread - int32_t(schedule.threads.size());
  return {rank, access.call, lineOf(schedule, access),
          fmt::format("{} {} {}", isThread ? schedule.threads[size_t(access.thread)].name : "the application",
                      isWrite ? "writes" : "reads", foreign::describe(schedule, place))};
}

static std::string describeInput(const ForeignSchedule &schedule, const BlockContribution &part, int32_t call) {
  return foreign::describe(schedule, {part.rank, Memory::Input, part.chunk}) +
         (part.call == call ? "" : " in an earlier call");
}

static std::string describeWrong(const ForeignSchedule &schedule, const ChunkPlace &place, const Content &value,
                                 const Contributions &wanted, int32_t call) {
  std::string what = foreign::describe(schedule, place);
  if (!value)
    return what + " holds what nobody wrote in this call";
  for (const BlockContribution &part : *value) {
    auto found = std::ranges::find_if(wanted, [&](const BlockContribution &each) {
      return each.call == part.call && each.rank == part.rank && each.chunk == part.chunk;
    });
    if (found == wanted.end())
      return fmt::format("{} holds {}, which does not belong there", what, describeInput(schedule, part, call));
    if (part.times != found->times)
      return fmt::format("{} holds {} {} times", what, describeInput(schedule, part, call), part.times);
  }
  for (const BlockContribution &part : wanted)
    if (std::ranges::none_of(*value, [&](const BlockContribution &each) { return each == part; }))
      return fmt::format("{} lacks {}", what, describeInput(schedule, part, call));
  return what;
}

size_t BlockRun::cellIndex(ChunkPlace place, int32_t call) const {
  place = resolve(schedule, isInPlace, place);
  auto chunk = size_t(place.chunk);
  if (place.memory == Memory::Input)
    return chunk;
  chunk += size_t(schedule.numChunks(place.rank, Memory::Input));
  if (place.memory == Memory::Output)
    return chunk;
  chunk += size_t(schedule.numChunks(place.rank, Memory::Output));
  bool isSecond = schedule.hasTwoPacketBuffers && call % 2 == 1;
  return chunk + (isSecond ? size_t(schedule.numChunks(place.rank, Memory::Scratch)) : 0);
}

bool BlockRun::isOver(const BlockAccess &access, int32_t thread) const {
  return access.thread < 0 || progress[size_t(thread)].clock[size_t(access.thread)] >= access.time ||
         access.thread == thread;
}

void BlockRun::read(const ChunkPlace &place, int32_t thread, const BlockAccess &now) {
  BlockCell &accessed = cell(place, now.call);
  if (!isOver(accessed.write, thread))
    reportConflict(place, accessed.write, now, true, false);
  std::erase_if(accessed.reads, [&](const BlockAccess &earlier) { return earlier.thread == thread; });
  accessed.reads.push_back(now);
}

void BlockRun::write(const ChunkPlace &place, int32_t thread, const BlockAccess &now, Content value) {
  BlockCell &accessed = cell(place, now.call);
  if (!isOver(accessed.write, thread))
    reportConflict(place, accessed.write, now, true, true);
  for (const BlockAccess &earlier : accessed.reads)
    if (!isOver(earlier, thread))
      reportConflict(place, earlier, now, false, true);
  accessed.reads.clear();
  accessed.write = now;
  accessed.value = std::move(value);
}

void BlockRun::reportConflict(const ChunkPlace &place, const BlockAccess &earlier, const BlockAccess &now,
                              bool isEarlierWrite, bool isWrite) {
  bool isInOneCall = earlier.call == now.call && lineOf(schedule, earlier) != 0 && lineOf(schedule, now) != 0;
  int32_t line = lineOf(schedule, now), other = lineOf(schedule, earlier);
  std::string first = describe(schedule, earlier, isEarlierWrite), second = describe(schedule, now, isWrite);
  if (line == 0)
    std::swap(line, other);
  std::string chunk = foreign::describe(schedule, place);
  Finding finding{isInOneCall ? Property::Race : Property::Invocations,
                  fmt::format("nothing orders two accesses to {}: {}, {}", chunk, first, second), line, other,
                  other == 0 ? "" : "the other access"};
  finding.chunk = chunk;
  finding.steps = {stepOf(schedule, earlier, isEarlierWrite, place), stepOf(schedule, now, isWrite, place)};
  report(std::move(finding));
}

Contributions BlockRun::expected(int32_t rank, int32_t chunk, int32_t call) const {
  Contributions result;
  int32_t per = schedule.chunksPerBlock;
  switch (schedule.collective) {
  case Collective::AllGather:
    return {{call, chunk / per, chunk % per, 1}};
  case Collective::AllToAll:
    return {{call, chunk / per, rank * per + chunk % per, 1}};
  case Collective::AllReduce:
  case Collective::ReduceScatter:
    for (int32_t sender = 0; sender < schedule.numRanks; ++sender)
      result.push_back({call, sender, schedule.collective == Collective::AllReduce ? chunk : rank * per + chunk, 1});
  }
  return result;
}

void BlockRun::checkOutput(int32_t rank, int32_t chunk, int32_t call) {
  ChunkPlace place{rank, Memory::Output, chunk};
  const BlockCell &output = cell(place, call);
  Contributions wanted = expected(rank, chunk, call);
  if (output.value && *output.value == wanted)
    return;
  int32_t line = lineOf(schedule, output.write);
  std::string wrong = describeWrong(schedule, place, output.value, wanted, call);
  Finding finding{call == 0 ? Property::Result : Property::Invocations, wrong + (call == 0 ? "" : ", in the next call"),
                  line == 0 ? schedule.line : line};
  finding.chunk = foreign::describe(schedule, place);
  finding.ranks = {rank};
  if (line != 0)
    finding.steps.push_back(stepOf(schedule, output.write, true, place));
  finding.steps.push_back({rank, call, 0, "ends the call: " + wrong});
  report(std::move(finding));
}

void BlockRun::report(Finding finding) {
  finding.isInPlace = isInPlace;
  for (const FindingStep &step : finding.steps)
    if (std::ranges::find(finding.ranks, step.rank) == finding.ranks.end())
      finding.ranks.push_back(step.rank);
  if (std::ranges::none_of(allFindings, [&](const Finding &other) { return other.property == finding.property; }))
    allFindings.push_back(std::move(finding));
}

} // namespace kolo::foreign
