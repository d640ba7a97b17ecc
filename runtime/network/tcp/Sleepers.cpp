#include "network/tcp/Sleepers.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace kolo::runtime::tcp {

Sleepers::Sleeper::Wakeup *Sleepers::add() {
  std::scoped_lock lock(mutex);
  auto found = std::ranges::find(wakeups, false, &Sleeper::Wakeup::isUsed);
  if (found == wakeups.end()) {
    Socket made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!made.isOpen())
      return nullptr;
    wakeups.push_back({std::move(made)});
    found = std::prev(wakeups.end());
  }
  found->isUsed = true;
  numAsleep.fetch_add(1, std::memory_order_seq_cst);
  return &*found;
}

Sleepers::Sleeper::~Sleeper() {
  if (!own)
    return;
  std::scoped_lock lock(all.mutex);
  uint64_t ignored = 0;
  (void)!::read(own->event.descriptor(), &ignored, sizeof(ignored));
  own->isUsed = false;
  all.numAsleep.fetch_sub(1, std::memory_order_seq_cst);
}

void Sleepers::wake(int exceptDescriptor) {
  if (numAsleep.load(std::memory_order_seq_cst) <= (exceptDescriptor >= 0 ? 1 : 0))
    return;
  std::scoped_lock lock(mutex);
  uint64_t number = 1;
  for (const Sleeper::Wakeup &one : wakeups)
    if (one.isUsed && one.event.descriptor() != exceptDescriptor)
      (void)!::write(one.event.descriptor(), &number, sizeof(number));
}

} // namespace kolo::runtime::tcp
