// PlanRoom: how many plans a communicator may keep, of those that the communicators of its rank keep together.
#pragma once

#include "memory/Holding.h"

#include <cstddef>

namespace kolo::runtime {

/// For the thread that runs the communicator's calls.
class PlanRoom {
public:
  /// A communicator has room for so many plans whatever others keep: for one that is replaced, and the new one.
  static constexpr size_t least = 2;

  /// `planBytes`: of one plan. `counts` must outlive this object.
  PlanRoom(Holding &counts, size_t planBytes) : holding(counts), bytesEach(planBytes) {}

  /// Whether there is room for one plan more. It stays this communicator's then.
  bool reserve() {
    if (used >= reserved && holding.keep(Keeps::Plans, bytesEach).isOk())
      ++reserved;
    return used < reserved;
  }
  /// There is one plan more, or less.
  void add() { ++used; }
  void remove() { --used; }

  /// Whether all ranks had room for one plan more, as they told in the last agreement.
  void setEverywhere(bool isRoom) { isEverywhere = isRoom; }
  bool hasEverywhere() const { return isEverywhere; }

private:
  Holding &holding;
  const size_t bytesEach;
  size_t used = 0, reserved = least;
  bool isEverywhere = false;
};

} // namespace kolo::runtime
