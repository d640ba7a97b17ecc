#include "compiler/import/Judge.h"
#include "compiler/import/Slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

namespace kolo::foreign {

namespace {

/// Of one kind of call.
class Judge {
public:
  Judge(const ForeignSchedule &schedule, bool isInPlace) : schedule(schedule), isInPlace(isInPlace) {}
  Judgement run();

private:
  void checkBounds();
  void checkPlace(int32_t rank, const Action &action, const ChunkPlace &place, bool isWrite);
  void checkOverlap(int32_t rank, const Action &action);
  void checkBalance();
  void checkSlots();
  void report(Property property, std::string message, int32_t line, std::vector<int32_t> ranks) {
    findings.push_back({property, std::move(message), line, 0, "", isInPlace, std::move(ranks)});
  }
  /// Of one step.
  void report(Property property, const std::string &message, int32_t line, int32_t rank) {
    report(property, message, line, std::vector{rank});
    findings.back().steps = {{rank, 0, line, message}};
  }

  const ForeignSchedule &schedule;
  const bool isInPlace;
  std::vector<Finding> findings;
};

} // namespace

void Judge::checkPlace(int32_t rank, const Action &action, const ChunkPlace &place, bool isWrite) {
  static constexpr std::array names{"input", "output", "scratch memory"};
  int32_t size = schedule.numChunks(place.rank, place.memory);
  if (place.chunk < 0 || place.chunk > size - action.count)
    report(Property::Bounds,
           fmt::format("{} {} chunks from {} on, and the {} of rank {} has {}", isWrite ? "writes" : "reads",
                       action.count, place.chunk, names[size_t(place.memory)], place.rank, size),
           action.line, rank);
  else if (isWrite && place.memory == Memory::Input && !isInPlace)
    report(Property::Bounds, fmt::format("writes {}, which belongs to the caller", describe(schedule, place)),
           action.line, rank);
}

/// The interpreter may cut a step into pieces, in any way: then it is not said whether a chunk is read before it is
/// written.
void Judge::checkOverlap(int32_t rank, const Action &action) {
  for (const ChunkPlace &source : action.sources)
    for (const ChunkPlace &destination : action.destinations) {
      ChunkPlace from = resolve(schedule, isInPlace, source), to = resolve(schedule, isInPlace, destination);
      if (from.rank == to.rank && from.memory == to.memory && from.chunk != to.chunk &&
          std::abs(from.chunk - to.chunk) < action.count)
        report(Property::Race,
               fmt::format("reads {} chunks from {} on and writes as many from {} on, in one step", action.count,
                           describe(schedule, source), describe(schedule, destination)),
               action.line, rank);
    }
}

void Judge::checkBounds() {
  for (const Thread &thread : schedule.threads)
    for (const Action &action : thread.actions) {
      if (!action.isMove())
        continue;
      for (const ChunkPlace &place : action.sources)
        checkPlace(thread.rank, action, place, false);
      for (const ChunkPlace &place : action.destinations)
        checkPlace(thread.rank, action, place, true);
      checkOverlap(thread.rank, action);
    }
}

void Judge::checkBalance() {
  std::vector<int32_t> sent(schedule.connections.size()), received(sent), signalled(schedule.semaphores.size()),
      acquired(signalled), lines(sent), semaphoreLines(signalled);
  for (const Thread &thread : schedule.threads)
    for (const Action &action : thread.actions) {
      if (action.sends >= 0) {
        ++sent[size_t(action.sends)];
        lines[size_t(action.sends)] = action.line;
      }
      if (action.receives >= 0) {
        ++received[size_t(action.receives)];
        lines[size_t(action.receives)] = action.line;
      }
      for (int32_t semaphore : action.signals) {
        ++signalled[size_t(semaphore)];
        semaphoreLines[size_t(semaphore)] = action.line;
      }
      for (int32_t semaphore : action.acquires) {
        ++acquired[size_t(semaphore)];
        semaphoreLines[size_t(semaphore)] = action.line;
      }
    }
  for (size_t each = 0; each < sent.size(); ++each)
    if (const BlockConnection &ends = schedule.connections[each]; sent[each] != received[each])
      report(Property::Balance,
             fmt::format("in one call, rank {} sends {} messages to rank {} on channel {}, which receives {}",
                         ends.sender, sent[each], ends.receiver, ends.channel, received[each]),
             lines[each], std::vector{ends.sender, ends.receiver});
  for (size_t each = 0; each < signalled.size(); ++each)
    if (signalled[each] != acquired[each])
      report(Property::Balance,
             fmt::format("in one call, {} is signalled {} times and waited for {} times",
                         schedule.semaphores[each].name, signalled[each], acquired[each]),
             semaphoreLines[each], std::vector{schedule.semaphores[each].rank});
}

/// Asked last: what waits for ever with any number of slots is told of without them.
void Judge::checkSlots() {
  if (schedule.messages.slots == 0)
    return;
  std::optional<Stuck> stuck = findStuck(schedule, schedule.messages.slots);
  if (!stuck)
    return;
  int32_t tooFew = schedule.messages.slots, enough = 2 * tooFew;
  for (; findStuck(schedule, enough); enough *= 2)
    tooFew = enough;
  while (enough - tooFew > 1)
    (findStuck(schedule, (enough + tooFew) / 2) ? tooFew : enough) = (enough + tooFew) / 2;
  report(
      Property::Deadlock,
      fmt::format("{}: {} holds no more, and the largest call needs {}", stuck->message, schedule.interpreter, enough),
      stuck->line, stuck->rank);
}

Judgement Judge::run() {
  checkBounds();
  if (!findings.empty())
    return {std::move(findings), {}};
  checkBalance();
  BlockRun blocks(schedule, isInPlace);
  blocks.run();
  findings.insert(findings.end(), blocks.findings().begin(), blocks.findings().end());
  if (std::ranges::none_of(findings, [](const Finding &each) { return each.property == Property::Deadlock; }))
    checkSlots();
  return {std::move(findings), blocks.order()};
}

std::variant<Judgement, Refusal> judge(const ForeignSchedule &schedule) {
  if (double bytes = BlockRun::bytesNeeded(schedule); bytes > BlockRun::mostBytes)
    return Refusal{schedule.line,
                   fmt::format("has {} thread blocks, and to check what orders them would take {:.3g} GiB",
                               schedule.threads.size(), bytes / (1 << 30))};
  Judgement result;
  for (bool isInPlace : {false, true}) {
    if (isInPlace ? !schedule.runsInPlace : !schedule.runsOutOfPlace)
      continue;
    Judgement one = Judge(schedule, isInPlace).run();
    result.findings.insert(result.findings.end(), one.findings.begin(), one.findings.end());
    result.order = std::move(one.order);
  }
  std::ranges::sort(result.findings, [](const Finding &a, const Finding &b) {
    return std::tuple(a.property, a.isInPlace, a.line) < std::tuple(b.property, b.isInPlace, b.line);
  });
  return result;
}

} // namespace kolo::foreign
