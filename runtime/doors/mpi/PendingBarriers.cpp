#include "PendingBarriers.h"

#include "Process.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kolo::mpi {

std::atomic<int> numPendingBarriers = 0;

namespace {

using runtime::Result;
using runtime::Status;

/// What MPI is told when it completes the request; its own to delete.
struct Outcome {
  int code = MPI_SUCCESS;
};

struct BegunBarrier {
  MPI_Request request;
  std::shared_ptr<runtime::Communicator> communicator;
  uint64_t number;
  Outcome *outcome;
};

struct AllPending {
  std::mutex mutex;
  std::vector<BegunBarrier> barriers;
};
/// Lives as long as the process, in which other threads may still use it.
AllPending &all() {
  static auto *const only = new AllPending;
  return *only;
}

int tellOutcome(void *state, MPI_Status *status) {
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_ANY_SOURCE;
  status->MPI_TAG = MPI_ANY_TAG;
  return static_cast<Outcome *>(state)->code;
}

int deleteOutcome(void *state) {
  delete static_cast<Outcome *>(state);
  return MPI_SUCCESS;
}

/// As MPI's libraries say of a collective.
int refuseToCancel(void *, int) { return MPI_ERR_REQUEST; }

auto find(std::vector<BegunBarrier> &barriers, MPI_Request request) {
  return std::ranges::find(barriers, request, &BegunBarrier::request);
}

/// Takes it from the pending ones. Nothing: another thread has.
std::optional<BegunBarrier> take(MPI_Request request) {
  std::scoped_lock lock(all().mutex);
  auto found = find(all().barriers, request);
  if (found == all().barriers.end())
    return std::nullopt;
  BegunBarrier taken = std::move(*found);
  all().barriers.erase(found);
  numPendingBarriers.fetch_sub(1, std::memory_order_release);
  return taken;
}

/// Tells MPI. MPI raises the error when the program completes the request.
void end(MPI_Request request, const Status &status) {
  std::optional<BegunBarrier> ended = take(request);
  if (!ended)
    return;
  if (!status.isOk()) {
    print("MPI_Ibarrier: " + status.message());
    ended->outcome->code = MPI_ERR_OTHER;
  }
  PMPI_Grequest_complete(request);
}

/// The file of this library, or that from which the program takes a function of this name.
const void *fileOf(const void *address) {
  Dl_info found = {};
  return dladdr(address, &found) ? found.dli_fbase : nullptr;
}

} // namespace

bool arePending(int count, const MPI_Request *requests) {
  if (!arePending() || !requests || count <= 0)
    return false;
  std::scoped_lock lock(all().mutex);
  return std::ranges::any_of(all().barriers, [&](const BegunBarrier &each) {
    return std::find(requests, requests + count, each.request) != requests + count;
  });
}

int beginBarrier(const std::shared_ptr<runtime::Communicator> &communicator, MPI_Request *request, Status &begun) {
  OwnCalls own;
  auto *outcome = new Outcome;
  if (int code = PMPI_Grequest_start(tellOutcome, deleteOutcome, refuseToCancel, outcome, request);
      code != MPI_SUCCESS) {
    delete outcome;
    return code;
  }
  Result<uint64_t> number = communicator->beginBarrier();
  begun = number.status();
  if (!number.isOk()) {
    PMPI_Grequest_complete(*request);
    return PMPI_Request_free(request);
  }
  std::scoped_lock lock(all().mutex);
  all().barriers.push_back({*request, communicator, *number, outcome});
  numPendingBarriers.fetch_add(1, std::memory_order_release);
  return MPI_SUCCESS;
}

void completeBarriers() {
  if (!arePending())
    return;
  OwnCalls own;
  std::vector<std::pair<MPI_Request, Status>> ended;
  {
    std::scoped_lock lock(all().mutex);
    for (const BegunBarrier &each : all().barriers)
      if (Result<bool> isOver = each.communicator->isBarrierOver(each.number); !isOver.isOk() || *isOver)
        ended.emplace_back(each.request, isOver.status());
  }
  for (const auto &[request, status] : ended)
    end(request, status);
}

void awaitBarrier(MPI_Request request) {
  if (!arePending())
    return;
  std::shared_ptr<runtime::Communicator> communicator;
  uint64_t number = 0;
  {
    std::scoped_lock lock(all().mutex);
    auto found = find(all().barriers, request);
    if (found == all().barriers.end())
      return;
    communicator = found->communicator;
    number = found->number;
  }
  OwnCalls own;
  end(request, communicator->finishBarrier(number));
}

void pauseBetweenLooks() {
  constexpr int looksPerYield = 16;
  thread_local int numLooks = 0;
  if (++numLooks % looksPerYield == 0)
    sched_yield();
}

bool seesCompletions() {
  const void *own = fileOf(&numPendingBarriers);
  for (std::string name :
       {"Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome", "Request_get_status"}) {
    if (fileOf(dlsym(RTLD_DEFAULT, ("MPI_" + name).c_str())) != own)
      return false;
    // Open MPI's Fortran functions are the door's, too, which does not see what they call.
    std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
    if (KOLO_MPI_IS_OPENMPI && fileOf(dlsym(RTLD_DEFAULT, ("mpi_" + name + "_").c_str())) != own)
      return false;
  }
  return true;
}

} // namespace kolo::mpi
