// Completions: the functions of MPI that complete requests, and MPI_Ibarrier, whose requests they are about. Each lets
// MPI complete those barriers that are over, and then is MPI's own function. Those that wait see to it that MPI's
// function need not wait for a barrier, because only the door knows when that is over. Those that free a communicator
// first complete the door's own request there.
#include "Calls.h"
#include "PendingBarriers.h"
#include "Process.h"

using namespace kolo::mpi;

KOLO_MPI_API int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request) {
  static auto *const next = nextDefinition(&MPI_Ibarrier, "MPI_Ibarrier");
  if (Carrier *carrier = enterAtOnce(comm))
    if (auto code = carrier->beginBarrier(request))
      return *code;
  return next(comm, request);
}

KOLO_MPI_API int MPI_Comm_free(MPI_Comm *comm) {
  static auto *const next = nextDefinition(&MPI_Comm_free, "MPI_Comm_free");
  if (comm)
    prepareToFree(*comm);
  return next(comm);
}

KOLO_MPI_API int MPI_Comm_disconnect(MPI_Comm *comm) {
  static auto *const next = nextDefinition(&MPI_Comm_disconnect, "MPI_Comm_disconnect");
  if (comm)
    prepareToFree(*comm);
  return next(comm);
}

KOLO_MPI_API int MPI_Wait(MPI_Request *request, MPI_Status *status) {
  static auto *const next = nextDefinition(&MPI_Wait, "MPI_Wait");
  if (arePending() && request) [[unlikely]]
    awaitBarrier(*request);
  return next(request, status);
}

KOLO_MPI_API int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
  static auto *const next = nextDefinition(&MPI_Waitall, "MPI_Waitall");
  if (arePending(count, requests)) [[unlikely]]
    for (int i = 0; i < count; ++i)
      awaitBarrier(requests[i]);
  return next(count, requests, statuses);
}

KOLO_MPI_API int MPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status) {
  static auto *const next = nextDefinition(&MPI_Waitany, "MPI_Waitany");
  int code = MPI_SUCCESS, isDone = 0;
  auto test = [&] {
    code = PMPI_Testany(count, requests, index, &isDone, status);
    return isDone || code != MPI_SUCCESS;
  };
  return testUntilFound(count, requests, test) ? code : next(count, requests, index, status);
}

KOLO_MPI_API int MPI_Waitsome(int count, MPI_Request *requests, int *numDone, int *indices, MPI_Status *statuses) {
  static auto *const next = nextDefinition(&MPI_Waitsome, "MPI_Waitsome");
  int code = MPI_SUCCESS;
  auto test = [&] {
    code = PMPI_Testsome(count, requests, numDone, indices, statuses);
    return *numDone != 0 || code != MPI_SUCCESS;
  };
  return testUntilFound(count, requests, test) ? code : next(count, requests, numDone, indices, statuses);
}

KOLO_MPI_API int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
  static auto *const next = nextDefinition(&MPI_Test, "MPI_Test");
  completeBarriers();
  return next(request, flag, status);
}

KOLO_MPI_API int MPI_Testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses) {
  static auto *const next = nextDefinition(&MPI_Testall, "MPI_Testall");
  completeBarriers();
  return next(count, requests, flag, statuses);
}

KOLO_MPI_API int MPI_Testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status) {
  static auto *const next = nextDefinition(&MPI_Testany, "MPI_Testany");
  completeBarriers();
  return next(count, requests, index, flag, status);
}

KOLO_MPI_API int MPI_Testsome(int count, MPI_Request *requests, int *numDone, int *indices, MPI_Status *statuses) {
  static auto *const next = nextDefinition(&MPI_Testsome, "MPI_Testsome");
  completeBarriers();
  return next(count, requests, numDone, indices, statuses);
}

KOLO_MPI_API int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status) {
  static auto *const next = nextDefinition(&MPI_Request_get_status, "MPI_Request_get_status");
  completeBarriers();
  return next(request, flag, status);
}

// Since MPI 4.1.
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
/// The second parameter of a function: the standard's requests are const, and those in some libraries' headers are not.
template <class Function> struct SecondOf;
template <class First, class Second, class... Others> struct SecondOf<int(First, Second, Others...)> {
  using Type = Second;
};
using Requests = SecondOf<decltype(MPI_Request_get_status_all)>::Type;

KOLO_MPI_API int MPI_Request_get_status_all(int count, Requests requests, int *flag, MPI_Status *statuses) {
  static auto *const next = nextDefinition(&MPI_Request_get_status_all, "MPI_Request_get_status_all");
  completeBarriers();
  return next(count, requests, flag, statuses);
}

KOLO_MPI_API int MPI_Request_get_status_any(int count, Requests requests, int *index, int *flag, MPI_Status *status) {
  static auto *const next = nextDefinition(&MPI_Request_get_status_any, "MPI_Request_get_status_any");
  completeBarriers();
  return next(count, requests, index, flag, status);
}

KOLO_MPI_API int MPI_Request_get_status_some(int count, Requests requests, int *numDone, int *indices,
                                             MPI_Status *statuses) {
  static auto *const next = nextDefinition(&MPI_Request_get_status_some, "MPI_Request_get_status_some");
  completeBarriers();
  return next(count, requests, numDone, indices, statuses);
}
#endif
