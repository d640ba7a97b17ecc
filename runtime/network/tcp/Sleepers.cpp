#include "network/tcp/Sleepers.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace kolo::runtime::tcp {

Sleepers::Sleeper::Place *Sleepers::add() {
  std::scoped_lock lock(mutex);
  auto place = std::ranges::find(places, false, &Sleeper::Place::isThere);
  if (place == places.end()) {
    Socket made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!made.isOpen())
      return nullptr;
    places.push_back({std::move(made)});
    place = std::prev(places.end());
  }
  place->isThere = true;
  numAsleep.fetch_add(1, std::memory_order_seq_cst);
  return &*place;
}

Sleepers::Sleeper::~Sleeper() {
  if (!place)
    return;
  std::scoped_lock lock(all.mutex);
  uint64_t ignored = 0;
  (void)!::read(place->wakeUp.descriptor(), &ignored, sizeof(ignored));
  place->isThere = false;
  all.numAsleep.fetch_sub(1, std::memory_order_seq_cst);
}

void Sleepers::wake(int exceptDescriptor) {
  if (numAsleep.load(std::memory_order_seq_cst) <= (exceptDescriptor >= 0 ? 1 : 0))
    return;
  std::scoped_lock lock(mutex);
  uint64_t one = 1;
  for (const Sleeper::Place &place : places)
    if (place.isThere && place.wakeUp.descriptor() != exceptDescriptor)
      (void)!::write(place.wakeUp.descriptor(), &one, sizeof(one));
}

} // namespace kolo::runtime::tcp
