// What orders what threads do: releases, acquires, fences, barriers.
#include "Memory.h"

#include <algorithm>
#include <iterator>

namespace kolo::ptx {

ClockPointer Memory::joined(const ClockPointer &a, const ClockPointer &b) {
  if (!a || a == b)
    return b;
  if (!b)
    return a;
  auto result = std::make_shared<Clock>(*a);
  for (size_t thread = 0; thread < result->epochs.size(); ++thread)
    result->epochs[thread] = std::max(result->epochs[thread], b->epochs[thread]);
  std::vector<std::pair<uint64_t, uint64_t>> seen;
  std::ranges::set_union(a->seen, b->seen, std::back_inserter(seen));
  result->seen = std::move(seen);
  return result;
}

void Memory::join(uint32_t thread, const ClockPointer &other) {
  threads[thread].clock = joined(threads[thread].clock, other);
}

void Memory::copyNear(uint32_t thread, Clock &clock) const {
  size_t first = thread / warpThreads * warpThreads;
  for (size_t i = 0; i < warpThreads && first + i < clock.epochs.size(); ++i)
    clock.epochs[first + i] = std::max(clock.epochs[first + i], threads[thread].near[i]);
}

/// All that the thread did until now, and knows of others. What it does from now on is of another epoch.
ClockPointer Memory::release(uint32_t thread) {
  auto clock = std::make_shared<Clock>(*threads[thread].clock);
  copyNear(thread, *clock);
  clock->epochs[thread] = threads[thread].epoch++;
  return clock;
}

void Memory::order(const std::vector<uint32_t> &before, const std::vector<uint32_t> &after) {
  ClockPointer last, result;
  for (uint32_t thread : before)
    if (threads[thread].clock != last)
      last = threads[thread].clock, result = joined(result, last);
  if (!result)
    return;
  auto own = std::make_shared<Clock>(*result);
  for (uint32_t thread : before)
    copyNear(thread, *own);
  for (uint32_t thread : before)
    own->epochs[thread] = threads[thread].epoch++;
  ClockPointer shared = std::move(own), joinedOnce;
  last = nullptr;
  for (uint32_t thread : after) {
    Thread &next = threads[thread];
    if (next.clock != last)
      last = next.clock, joinedOnce = joined(shared, last);
    next.clock = joinedOnce;
  }
}

/// Threads of one warp that know the same of others meet often, and tell each other of themselves alone.
void Memory::meet(const std::vector<uint32_t> &group) {
  const ClockPointer &first = threads[group.front()].clock;
  bool isNear = group.front() / warpThreads == group.back() / warpThreads &&
                std::ranges::all_of(group, [&](uint32_t thread) { return threads[thread].clock == first; });
  if (isNear) {
    std::array<uint32_t, warpThreads> near{};
    for (uint32_t thread : group)
      for (size_t i = 0; i < warpThreads; ++i)
        near[i] = std::max(near[i], threads[thread].near[i]);
    for (uint32_t thread : group)
      near[thread % warpThreads] = threads[thread].epoch++;
    for (uint32_t thread : group)
      threads[thread].near = near;
    return;
  }
  order(group, group);
}

uint32_t Memory::delay(uint32_t thread, uint64_t address, const Access &access, uint32_t line) {
  Page &page = pageOf(address, cellBytes, line);
  ++now;
  Part part{thread, line, access, address, 0xff};
  Cell &cell = touch(page, address);
  settleOf(thread, cell);
  size_t lowest = lowestVisible(cell, part);
  delayed.push_back(
      {part, &page, &cell, threads[thread].epoch, lowest ? cell.history[lowest - 1].id : 0, lastMessage, {}, false, 0});
  return uint32_t(delayed.size() - 1);
}

uint64_t Memory::settle(uint32_t number) {
  Delayed &load = delayed[number];
  if (load.isSettled)
    return load.value;
  load.isSettled = true;
  const auto &history = load.cell->history;
  std::vector<const Message *> candidates;
  bool isReached = load.lowest == 0;
  if (isReached)
    candidates.push_back(nullptr);
  for (const Message &message : history) {
    isReached |= message.id == load.lowest;
    if (isReached && (message.id <= load.last || std::ranges::find(load.later, message.id) != load.later.end()))
      candidates.push_back(&message);
  }
  const Message *chosen = candidates[random.below(uint32_t(candidates.size()))];
  noteReading(*load.cell, load.part, chosen && isObserved(*chosen, load.part) ? chosen->id : 0);
  if (!chosen)
    return load.value = initialState(*load.page, load.part.address);
  load.value = chosen->state;
  if (const Message seen = *chosen; load.part.access.order != Order::Weak && seen.writer != load.part.thread)
    observe(seen, load.part);
  return load.value;
}

/// A thread that comes back to a place does so after its earlier loads.
void Memory::settleOf(uint32_t thread, const Cell &cell) {
  for (uint32_t number = 0; number < delayed.size(); ++number)
    if (!delayed[number].isSettled && delayed[number].part.thread == thread && delayed[number].cell == &cell)
      settle(number);
}

/// A load sees no store that comes after it.
void Memory::noteLater(const Cell &cell, const Part &part, uint64_t message) {
  for (Delayed &load : delayed)
    if (!load.isSettled && load.cell == &cell && known(part, load.part.thread) < load.epoch)
      load.later.push_back(message);
}

/// Those of one kind, whose scopes name each other's threads, happen one after the other.
void Memory::fence(uint32_t number, const Access &access) {
  Thread &thread = threads[number];
  for (uint32_t away = 0; away < uint32_t(access.scope); ++away)
    if (thread.pending[away])
      join(number, thread.pending[away]);
  if (access.order == Order::SequentiallyConsistent)
    for (const ScFence &earlier : scFences)
      if (isWithin(earlier.scope, earlier.thread, number) && isWithin(access.scope, earlier.thread, number))
        join(number, earlier.clock);
  ClockPointer clock = release(number);
  std::erase_if(thread.fences, [&](const Release &earlier) { return earlier.scope <= access.scope; });
  thread.fences.push_back({clock, access.scope});
  if (access.order == Order::SequentiallyConsistent)
    scFences.push_back({number, access.scope, clock});
}

} // namespace kolo::ptx
