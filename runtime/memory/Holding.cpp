#include "memory/Holding.h"

#include "base/Error.h"
#include "wait/Clock.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

namespace kolo::runtime {
namespace {

/// Peers that are still in a call which this rank has finished need nothing of it, so they finish soon.
constexpr std::chrono::milliseconds patience{20};

constexpr size_t mebibyte = size_t(1) << 20;
constexpr size_t kibibytes(size_t sizeBytes) { return (sizeBytes + 1023) / 1024; }

/// The budgets of one process.
struct Budgets {
  const pid_t process = getpid();
  std::mutex mutex;
  std::map<int, Budget> byRank = {};
};

/// A forked child begins with none: its parent's memory is not its own to give back.
Budgets &budgetsHere() {
  static std::atomic<Budgets *> current = new Budgets;
  Budgets *found = current.load();
  if (found->process == getpid())
    return *found;
  auto *made = new Budgets;
  if (current.compare_exchange_strong(found, made))
    return *made;
  delete made; // another thread of the child was first
  return *found;
}

} // namespace

Budget &Budget::ofRank(RankKind kind, int rank) {
  Budgets &here = budgetsHere();
  std::scoped_lock lock(here.mutex);
  return here.byRank[kind == RankKind::Threads ? rank : -1]; // a process is one rank
}

size_t Budget::heldBytes() const {
  std::scoped_lock lock(mutex);
  return held;
}

size_t Holding::numOthers() const {
  std::scoped_lock lock(budget.mutex);
  return static_cast<size_t>(
      std::ranges::count_if(budget.holdings, [this](const Holding *each) { return each != this && each->bytes > 0; }));
}

/// The caller has the lock. OutOfMemory.
Status Budget::makeRoom(const Holding &needing, size_t moreBytes) {
  const Clock::time_point start = Clock::now();
  while (held + keptBytes() + moreBytes > needing.limitBytes) {
    const Found found = takeFromOldest(needing);
    if (found == Found::GivenBack)
      continue;
    const bool isOnlyOne = held == (needing.state.load() == Holding::State::GivenBack ? 0 : needing.bytes);
    if (isOnlyOne)
      return {};
    if (found == Found::Nothing || Clock::now() - start > patience)
      return error(
          StatusCode::OutOfMemory,
          "the call needs {} KiB: communicators of this rank keep {} KiB as long as they live, and {} KiB that nobody "
          "gives back now, of the {} MiB that all may hold together (KOLO_MEMORY_MIB)",
          kibibytes(moreBytes), kibibytes(keptBytes()), kibibytes(held), needing.limitBytes / mebibyte);
    sched_yield();
  }
  return {};
}

/// The caller has the lock.
Budget::Found Budget::takeFromOldest(const Holding &needing) {
  std::vector<Holding *> candidates;
  for (Holding *each : holdings)
    if (each != &needing && each->bytes > 0 && each->isFinished)
      candidates.push_back(each);
  std::ranges::sort(candidates, {}, [](const Holding *each) { return each->lastUse.load(std::memory_order_relaxed); });
  bool isUnfinished = false;
  for (Holding *each : candidates) {
    // Its thread may begin a call at any time, so the memory is taken before it is known whether peers access it.
    Holding::State expected = Holding::State::Idle;
    if (!each->state.compare_exchange_strong(expected, Holding::State::GivenBack, std::memory_order_acquire))
      continue;
    if (each->isFinished()) {
      each->giveBack();
      held -= each->bytes;
      return Found::GivenBack;
    }
    each->state.store(Holding::State::Idle, std::memory_order_release);
    isUnfinished = true;
  }
  return isUnfinished ? Found::Unfinished : Found::Nothing;
}

Holding::Holding(Budget &ofRank, size_t mostBytes, std::function<bool()> mayGiveBack)
    : budget(ofRank), limitBytes(mostBytes), isFinished(std::move(mayGiveBack)) {
  std::scoped_lock lock(budget.mutex);
  budget.holdings.push_back(this);
}

Holding::~Holding() {
  std::scoped_lock lock(budget.mutex);
  budget.holdings.remove(this);
  for (size_t what = 0; what < numKeeps; ++what)
    budget.kept[what] -= kept[what];
  if (state.load() != State::GivenBack)
    budget.held -= bytes;
}

Status Holding::keep(Keeps what, size_t sizeBytes) {
  std::scoped_lock lock(budget.mutex);
  size_t &ofAll = budget.kept[static_cast<size_t>(what)];
  if (ofAll + sizeBytes > keptLimit(what, limitBytes))
    return error(
        StatusCode::OutOfMemory,
        "{} communicators of this rank keep {} KiB as long as they live, and all may keep {} KiB, a part of the "
        "{} MiB that they may hold together (KOLO_MEMORY_MIB)",
        budget.holdings.size() - 1, kibibytes(ofAll), kibibytes(keptLimit(what, limitBytes)), limitBytes / mebibyte);
  ofAll += sizeBytes;
  kept[static_cast<size_t>(what)] += sizeBytes;
  while (budget.held + budget.keptBytes() > limitBytes && budget.takeFromOldest(*this) == Budget::Found::GivenBack)
    ;
  return {};
}

/// Another thread is taking the memory, or has taken it.
Status Holding::restore() {
  std::scoped_lock lock(budget.mutex);
  if (state.load(std::memory_order_acquire) == State::GivenBack) {
    if (Status status = budget.makeRoom(*this, bytes); !status.isOk())
      return status;
    for (const Segment *segment : segments)
      if (Status status = segment->takeAgain(); !status.isOk())
        return status;
    budget.held += bytes;
  }
  state.store(State::InUse, std::memory_order_release);
  isBegun = true;
  return {};
}

/// The caller holds the budget's lock, and nobody uses the memory.
void Holding::giveBack() {
  for (const Segment *segment : segments)
    segment->giveBack();
}

Result<std::unique_ptr<Segment>> Holding::create(SegmentTable &table, size_t sizeBytes) {
  if (Status status = begin(); !status.isOk())
    return status;
  {
    std::scoped_lock lock(budget.mutex);
    if (Status status = budget.makeRoom(*this, sizeBytes); !status.isOk())
      return status;
    budget.held += sizeBytes; // before it is there, so that no other thread takes the room
    bytes += sizeBytes;
  }
  Result<std::unique_ptr<Segment>> created = table.create(sizeBytes);
  std::scoped_lock lock(budget.mutex);
  if (created.isOk()) {
    segments.push_back(created->get());
  } else {
    budget.held -= sizeBytes;
    bytes -= sizeBytes;
  }
  return created;
}

void Holding::drop(std::unique_ptr<Segment> segment) {
  std::scoped_lock lock(budget.mutex);
  const size_t sizeBytes = segment->sizeBytes();
  segments.remove(segment.get());
  bytes -= sizeBytes;
  if (state.load() != State::GivenBack)
    budget.held -= sizeBytes;
}

} // namespace kolo::runtime
