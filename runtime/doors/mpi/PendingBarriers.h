// PendingBarriers: the requests of barriers that Kolo carries and that are not over. The functions that complete
// requests call it before MPI's own. To MPI they are generalized requests, so one may stand among others in an array.
#pragma once

#include "Handles.h"

#include "kolo/runtime/Communicator.h"

#include <atomic>
#include <memory>

namespace kolo::mpi {

extern std::atomic<int> numPendingBarriers;
/// Whether there are any in this process: if not, nobody need call the functions below.
inline bool arePending() { return numPendingBarriers.load(std::memory_order_acquire) != 0; }
/// Whether one of these requests is one.
bool arePending(int count, const MPI_Request *requests);

/// Begins a barrier of the communicator, which lives until the barrier is over. `begun`: why it could not; there is
/// then no request. Returns MPI's code. Never blocks.
int beginBarrier(const std::shared_ptr<runtime::Communicator> &communicator, MPI_Request *request,
                 runtime::Status &begun);

/// Lets MPI complete the requests of barriers that are over. Never blocks.
void completeBarriers();
/// Blocks until MPI can complete this request, if it is a barrier's.
void awaitBarrier(MPI_Request request);

/// Calls `test`, which says whether it found something, until it does or none of these requests is a barrier's.
template <class Test> bool testUntilFound(int count, const MPI_Request *requests, Test test);

/// Between two looks of such a loop: leaves the core to others now and then.
void pauseBetweenLooks();

/// Whether this library sees all that the program does with requests. Not if another tool takes these functions before
/// it: the tool would call MPI's own.
bool seesCompletions();

template <class Test> bool testUntilFound(int count, const MPI_Request *requests, Test test) {
  while (arePending(count, requests)) {
    completeBarriers();
    if (test())
      return true;
    pauseBetweenLooks();
  }
  return false;
}

} // namespace kolo::mpi
