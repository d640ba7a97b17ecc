#include "compiler/import/Slots.h"

#include <fmt/format.h>

namespace kolo::foreign {

namespace {

class SlotRun {
public:
  SlotRun(const ForeignSchedule &schedule, int32_t slots)
      : schedule(schedule), slots(slots), next(schedule.threads.size()), chunk(schedule.threads.size()),
        held(schedule.connections.size()), isRaised(size_t(schedule.numEvents)) {}
  std::optional<Stuck> run();

private:
  bool advance(size_t thread);
  Stuck describe(size_t thread) const;

  const ForeignSchedule &schedule;
  const int32_t slots;
  std::vector<size_t> next;
  std::vector<int32_t> chunk; // of the next action, by thread
  std::vector<int32_t> held;  // messages, by connection
  std::vector<char> isRaised; // by event
};

} // namespace

/// As far as the thread comes. Whether it did anything.
bool SlotRun::advance(size_t thread) {
  const std::vector<Action> &actions = schedule.threads[thread].actions;
  bool didAdvance = false;
  while (next[thread] < actions.size()) {
    const Action &action = actions[next[thread]];
    for (int32_t event : action.waits)
      if (!isRaised[size_t(event)])
        return didAdvance;
    bool hasMessages = action.receives >= 0 || action.sends >= 0;
    for (; hasMessages && chunk[thread] < action.count;
         chunk[thread] += schedule.messages.chunksPerMessage, didAdvance = true) {
      if ((action.receives >= 0 && held[size_t(action.receives)] == 0) ||
          (action.sends >= 0 && held[size_t(action.sends)] >= slots))
        return didAdvance;
      if (action.receives >= 0)
        --held[size_t(action.receives)];
      if (action.sends >= 0)
        ++held[size_t(action.sends)];
    }
    for (int32_t event : action.raises)
      isRaised[size_t(event)] = 1;
    chunk[thread] = 0;
    ++next[thread];
    didAdvance = true;
  }
  return didAdvance;
}

Stuck SlotRun::describe(size_t thread) const {
  const Thread &text = schedule.threads[thread];
  const Action &action = text.actions[next[thread]];
  return {text.rank, action.line,
          fmt::format("{} of rank {} cannot send to rank {}, since {} messages wait there", text.name, text.rank,
                      schedule.connections[size_t(action.sends)].receiver, slots)};
}

std::optional<Stuck> SlotRun::run() {
  for (bool didAdvance = true; didAdvance;) {
    didAdvance = false;
    for (size_t thread = 0; thread < next.size(); ++thread)
      didAdvance |= advance(thread);
  }
  for (size_t thread = 0; thread < next.size(); ++thread) {
    const std::vector<Action> &actions = schedule.threads[thread].actions;
    if (next[thread] < actions.size() && actions[next[thread]].sends >= 0 &&
        held[size_t(actions[next[thread]].sends)] >= slots)
      return describe(thread);
  }
  return std::nullopt;
}

std::optional<Stuck> findStuck(const ForeignSchedule &schedule, int32_t slots) {
  return SlotRun(schedule, slots).run();
}

} // namespace kolo::foreign
