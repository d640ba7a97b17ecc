#include "Memory.h"

#include <algorithm>
#include <cstring>

namespace kolo::ptx {

namespace {

/// Bits of the bytes in a mask.
uint64_t bitsOf(uint8_t mask) {
  uint64_t bits = 0;
  for (int byte = 0; byte < 8; ++byte)
    bits |= (mask >> byte & 1) ? uint64_t(0xff) << 8 * byte : 0;
  return bits;
}

uint8_t maskOf(uint64_t offset, uint64_t sizeBytes) { return uint8_t(((1u << sizeBytes) - 1) << offset); }

constexpr size_t initial = 0; // of what may be seen: 0 is the content at the start, and i + 1 message i

} // namespace

Memory::Memory(std::vector<ThreadPlace> places) {
  threads.resize(places.size());
  for (size_t thread = 0; thread < places.size(); ++thread)
    threads[thread].place = places[thread];
  reset({});
}

void Memory::addRegion(uint64_t address, uint64_t sizeBytes, const std::byte *content, bool isConstant) {
  regions.push_back({address, sizeBytes, content, isConstant});
  std::ranges::sort(regions, {}, &Region::address);
  pages.clear();
  cache.fill({});
  touched.clear();
}

void Memory::reset(const MemoryStyle &newStyle) {
  style = newStyle, random = Random(style.seed);
  for (Cell *cell : touched)
    cell->history.clear(), cell->readings.clear(), cell->isTouched = false;
  touched.clear();
  scFences.clear(), delayed.clear();
  auto empty = std::make_shared<Clock>();
  empty->epochs.assign(threads.size(), 0);
  for (Thread &thread : threads)
    thread.epoch = 1, thread.clock = thread.start = empty, thread.pending = {}, thread.fences.clear(),
    thread.near.fill(0);
  now = 0, lastMessage = 0, lastUnit = 0;
}

Memory::Page *Memory::makePage(uint64_t number) {
  uint64_t begin = number * pageBytes;
  auto after = std::ranges::upper_bound(regions, begin + pageBytes - 1, {}, &Region::address);
  if (after == regions.begin())
    return nullptr;
  const Region &region = *--after;
  if (region.address + region.sizeBytes <= begin)
    return nullptr;
  auto page = std::make_unique<Page>();
  page->first = std::max(begin, region.address),
  page->end = std::min(begin + pageBytes, region.address + region.sizeBytes);
  page->content = region.content ? region.content + (page->first - region.address) : nullptr;
  page->isConstant = region.isConstant;
  return (pages[number] = std::move(page)).get();
}

Memory::Page &Memory::pageOf(uint64_t address, uint64_t sizeBytes, uint32_t line) {
  uint64_t number = address / pageBytes;
  Cached &cached = cache[number % cache.size()];
  if (cached.number != number) {
    auto found = pages.find(number);
    Page *page = found != pages.end() ? found->second.get() : makePage(number);
    if (!page)
      throw Problem("line " + std::to_string(line) + ": there is no memory at this address");
    cached = {number, page};
  }
  Page &page = *cached.page;
  if (address < page.first || address + sizeBytes > page.end)
    throw Problem("line " + std::to_string(line) + ": the access goes past the end of an allocation");
  return page;
}

Memory::Cell &Memory::touch(Page &page, uint64_t address) {
  Cell &cell = page.cells[address % pageBytes / cellBytes];
  if (!cell.isTouched)
    cell.isTouched = true, touched.push_back(&cell);
  return cell;
}

uint64_t Memory::initialState(const Page &page, uint64_t address) const {
  uint64_t state = 0;
  if (page.content && address < page.end)
    std::memcpy(&state, page.content + (address - page.first), std::min<uint64_t>(cellBytes, page.end - address));
  return state;
}

uint32_t Memory::distance(uint32_t a, uint32_t b) const {
  const ThreadPlace &first = threads[a].place, &second = threads[b].place;
  return first.device != second.device ? 2 : first.block != second.block ? 1 : 0;
}

void Memory::reportRace(const Part &part, const char *what, uint32_t otherThread, uint32_t otherLine,
                        const char *other) const {
  auto name = [&](uint32_t thread) {
    const ThreadPlace &place = threads[thread].place;
    return "thread " + std::to_string(thread) + " (device " + std::to_string(place.device) + ", block " +
           std::to_string(place.block) + ")";
  };
  throw Problem("line " + std::to_string(part.line) + ": data race: " + name(part.thread) + " " + what +
                ", and nothing orders " + other + " of line " + std::to_string(otherLine) + " by " + name(otherThread) +
                " with it");
}

/// The place, in the order of the cell, of the oldest message that may be seen.
size_t Memory::lowestVisible(const Cell &cell, const Part &part) const {
  const auto &history = cell.history;
  size_t lowest = initial;
  for (size_t i = history.size(); i > 0 && lowest == initial; --i)
    if ((history[i - 1].mask & part.mask) && isBefore(history[i - 1], part))
      lowest = i;
  auto raise = [&](uint64_t message) {
    for (size_t i = history.size(); message != 0 && i > lowest; --i)
      if (history[i - 1].id == message)
        lowest = i;
  };
  for (const Reading &reading : cell.readings)
    if (reading.thread == part.thread)
      raise(reading.message);
  const Clock &clock = part.access.isNonCoherent ? *threads[part.thread].start : *threads[part.thread].clock;
  auto seen = std::ranges::lower_bound(clock.seen, std::pair(part.address, uint64_t(0)));
  for (; seen != clock.seen.end() && seen->first == part.address; ++seen)
    raise(seen->second);
  return lowest;
}

size_t Memory::choose(const Cell &cell, const Part &part, size_t lowest, uint32_t wantedUnit) {
  const auto &history = cell.history;
  if (wantedUnit != 0)
    for (size_t i = history.size(); i >= std::max<size_t>(lowest, 1); --i)
      if (history[i - 1].unit == wantedUnit)
        return i;
  std::array<size_t, 16> candidates;
  size_t number = 0;
  for (size_t i = history.size(); i > lowest && number + 1 < candidates.size(); --i)
    if ((history[i - 1].mask & part.mask) && history[i - 1].hiddenUntil <= now)
      candidates[number++] = i;
  if (number == 0)
    return lowest;
  candidates[number++] = lowest;
  uint32_t staleIn8 = part.access.isNonCoherent ? std::max(style.staleIn8, 6u) : style.staleIn8;
  if (random.below(8) >= staleIn8)
    return candidates[0];
  return part.access.isNonCoherent ? lowest : candidates[random.below(uint32_t(number))];
}

void Memory::observe(const Message &message, const Part &part) {
  Thread &thread = threads[part.thread];
  const Access &access = part.access;
  if (!isObserved(message, part))
    return;
  if (message.releases)
    for (const Release &release : *message.releases) {
      if (!isWithin(release.scope, message.writer, part.thread))
        continue;
      if (access.order == Order::Acquire)
        join(part.thread, release.clock);
      auto &pending = thread.pending[distance(message.writer, part.thread)];
      if (style.isExact)
        pending = joined(pending, release.clock);
    }
  if (!style.isExact)
    return;
  auto seen = std::make_shared<Clock>();
  seen->epochs.assign(threads.size(), 0);
  seen->seen.emplace_back(part.address, message.id);
  join(part.thread, seen);
}

void Memory::noteReading(Cell &cell, const Part &part, uint64_t message) {
  bool isStrong = part.access.order != Order::Weak;
  uint32_t epoch = threads[part.thread].epoch;
  for (Reading &reading : cell.readings)
    if (reading.thread == part.thread && reading.mask == part.mask && reading.scope == part.access.scope) {
      reading.epoch = epoch, reading.line = part.line, reading.message = isStrong ? message : 0;
      return;
    }
  cell.readings.push_back({isStrong ? message : 0, part.thread, epoch, part.line, part.mask, part.access.scope});
}

uint64_t Memory::read(Page &page, const Part &part, uint32_t wantedUnit) {
  uint64_t content = initialState(page, part.address);
  if (page.isConstant)
    return content;
  Cell &cell = touch(page, part.address);
  settleOf(part.thread, cell);
  auto &history = cell.history;
  size_t lowest = lowestVisible(cell, part);
  if (style.reportsRaces)
    for (size_t i = lowest; i < history.size(); ++i)
      if (const Message &message = history[i];
          (message.mask & part.mask) && !isBefore(message, part) &&
          !isMorallyStrong(part.thread, part.access.scope, part.mask, message.writer, message.scope, message.mask))
        reportRace(part, "reads", message.writer, message.line, "the store");
  size_t chosen = choose(cell, part, lowest, wantedUnit);
  if (chosen == initial) {
    noteReading(cell, part, 0);
    return content;
  }
  const Message message = history[chosen - 1];
  noteReading(cell, part, isObserved(message, part) ? message.id : 0);
  if (part.access.order != Order::Weak && message.writer != part.thread)
    observe(message, part);
  return message.state;
}

/// A store that is released, what fences before it released, and what an earlier store of this thread to the same place
/// did.
Memory::Releases Memory::releasesOf(const Cell &cell, const Part &part) {
  Thread &thread = threads[part.thread];
  if (part.access.order == Order::Weak)
    return nullptr;
  if (part.access.order == Order::Relaxed && thread.fences.empty()) {
    for (size_t i = cell.history.size(); i > 0; --i)
      if (cell.history[i - 1].writer == part.thread)
        return cell.history[i - 1].releases;
    return nullptr;
  }
  std::vector<Release> releases = thread.fences;
  if (part.access.order == Order::Release)
    releases.push_back({release(part.thread), part.access.scope});
  return std::make_shared<const std::vector<Release>>(std::move(releases));
}

void Memory::write(Page &page, const Part &part, uint64_t value) {
  if (page.isConstant)
    throw Problem("line " + std::to_string(part.line) + ": a store to memory that is never written");
  Cell &cell = touch(page, part.address);
  settleOf(part.thread, cell);
  Thread &thread = threads[part.thread];
  auto &history = cell.history;
  size_t lowest = lowestVisible(cell, part);
  if (style.reportsRaces) {
    for (size_t i = lowest; i < history.size(); ++i)
      if (const Message &message = history[i];
          (message.mask & part.mask) && !isBefore(message, part) &&
          !isMorallyStrong(part.thread, part.access.scope, part.mask, message.writer, message.scope, message.mask))
        reportRace(part, "writes", message.writer, message.line, "the store");
    for (const Reading &reading : cell.readings)
      if ((reading.mask & part.mask) && reading.thread != part.thread && known(part, reading.thread) < reading.epoch &&
          !isMorallyStrong(part.thread, part.access.scope, part.mask, reading.thread, reading.scope, reading.mask))
        reportRace(part, "writes", reading.thread, reading.line, "the load");
  }
  Message message;
  message.id = ++lastMessage, message.writer = part.thread, message.line = part.line, message.unit = part.unit;
  message.mask = part.mask, message.scope = part.access.scope;
  message.hiddenUntil = part.line == style.delayedLine && part.line != 0 ? now + style.delay : 0;
  message.epoch = thread.epoch;
  message.releases = releasesOf(cell, part);
  size_t place = history.size();
  if (style.reordersStores && lowest < place)
    place = lowest + random.below(uint32_t(place - lowest) + 1);
  history.insert(history.begin() + ptrdiff_t(place), message);
  noteLater(cell, part, message.id);
  uint64_t state = place == 0 ? initialState(page, part.address) : history[place - 1].state, bits = bitsOf(part.mask);
  history[place].state = (state & ~bits) | (value & bits);
  for (size_t i = place + 1; i < history.size(); ++i)
    if (uint64_t later = bitsOf(history[i].mask); true)
      history[i].state = (history[i - 1].state & ~later) | (history[i].state & later);
  // Weak loads that all come before this store are of no interest any more.
  std::erase_if(cell.readings, [&](const Reading &reading) {
    return reading.scope == Scope::None && reading.message == 0 && (reading.mask & ~part.mask) == 0 &&
           (reading.thread == part.thread || known(part, reading.thread) >= reading.epoch);
  });
}

void Memory::load(uint32_t thread, uint64_t address, uint32_t sizeBytes, const Access &access, uint32_t line,
                  std::byte *out) {
  if (address % sizeBytes != 0)
    throw Problem("line " + std::to_string(line) + ": the address is not aligned");
  Page &page = pageOf(address, sizeBytes, line);
  ++now;
  uint64_t offset = address % cellBytes;
  for (uint64_t done = 0; done < sizeBytes; done += cellBytes) {
    uint64_t number = std::min<uint64_t>(cellBytes, sizeBytes - done);
    uint64_t state =
        read(page, {thread, line, access, address - offset + done, maskOf(offset, number)}, 0) >> 8 * offset;
    std::memcpy(out + done, &state, number);
  }
}

void Memory::store(uint32_t thread, uint64_t address, uint32_t sizeBytes, const Access &access, uint32_t line,
                   const std::byte *bytes) {
  if (address % sizeBytes != 0)
    throw Problem("line " + std::to_string(line) + ": the address is not aligned");
  Page &page = pageOf(address, sizeBytes, line);
  ++now;
  uint64_t offset = address % cellBytes;
  for (uint64_t done = 0; done < sizeBytes; done += cellBytes) {
    uint64_t number = std::min<uint64_t>(cellBytes, sizeBytes - done), value = 0;
    std::memcpy(&value, bytes + done, number);
    write(page, {thread, line, access, address - offset + done, maskOf(offset, number)}, value << 8 * offset);
  }
}

/// All parts come from the same store of the whole line, if there was one: the one that the last part was read from.
void Memory::loadLine(const std::array<uint32_t, lineThreads> &group, uint64_t address, const Access &access,
                      uint32_t line, std::byte *out) {
  Page &page = pageOf(address, uint64_t(lineThreads) * partBytes, line);
  ++now;
  uint64_t last = address + uint64_t(lineThreads) * partBytes - cellBytes;
  uint32_t unit = 0;
  for (uint64_t place = last;; place -= cellBytes) {
    Part part{group[(place - address) / partBytes], line, access, place, 0xff};
    uint64_t state = read(page, part, unit);
    if (place == last)
      for (const Message &message : touch(page, place).history)
        unit = message.state == state && message.unit != 0 ? message.unit : unit;
    std::memcpy(out + (place - address), &state, cellBytes);
    if (place == address)
      return;
  }
}

void Memory::storeLine(const std::array<uint32_t, lineThreads> &group, uint64_t address, const Access &access,
                       uint32_t line, const std::byte *bytes) {
  Page &page = pageOf(address, uint64_t(lineThreads) * partBytes, line);
  ++now, ++lastUnit;
  for (uint64_t offset = 0; offset < uint64_t(lineThreads) * partBytes; offset += cellBytes) {
    uint64_t value = 0;
    std::memcpy(&value, bytes + offset, cellBytes);
    write(page, {group[offset / partBytes], line, access, address + offset, 0xff, lastUnit}, value);
  }
}

uint64_t Memory::lastState(uint64_t address) {
  Page &page = pageOf(address, cellBytes, 0);
  const auto &history = touch(page, address).history;
  return history.empty() ? initialState(page, address) : history.back().state;
}

bool Memory::isUntouched(uint64_t address, uint64_t sizeBytes, uint32_t ignored) const {
  for (uint64_t cell = address / cellBytes * cellBytes; cell < address + sizeBytes; cell += cellBytes) {
    auto page = pages.find(cell / pageBytes);
    if (page == pages.end())
      continue;
    uint64_t begin = std::max(cell, address), end = std::min(cell + cellBytes, address + sizeBytes);
    for (const Message &message : page->second->cells[cell % pageBytes / cellBytes].history)
      if (message.writer != ignored && (message.mask & maskOf(begin - cell, end - begin)))
        return false;
  }
  return true;
}

} // namespace kolo::ptx
