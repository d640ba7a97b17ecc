// The same functions as in Completions.cpp, from Fortran, where the library's own call PMPI_ functions: all of Open
// MPI, and the module mpi_f08 of MPICH. Arguments go on as they are: a status, or none, is the library's own matter.
#include "Calls.h"
#include "FortranNames.h"
#include "PendingBarriers.h"

#include <algorithm>
#include <vector>

using namespace kolo::mpi;

namespace {

/// The requests, where some barrier is pending.
std::vector<MPI_Request> fromFortran(const MPI_Fint *requests, MPI_Fint count) {
  std::vector<MPI_Request> all(arePending() ? static_cast<size_t>(std::max(count, 0)) : 0);
  std::transform(requests, requests + all.size(), all.begin(), [](MPI_Fint each) { return PMPI_Request_f2c(each); });
  return all;
}
int numberOf(const std::vector<MPI_Request> &requests) { return static_cast<int>(requests.size()); }

} // namespace

// A function that does not wait: the library's own, after barriers that are over. Open MPI's module mpi_f08 has its own
// bindings of these to PMPI_ functions, because they have logical arguments.
#define KOLO_AFTER_BARRIERS(FUNCTION, NAME, ARGUMENTS)                                                                 \
  static auto *const next = nextDefinition(&FUNCTION, NAME);                                                           \
  completeBarriers();                                                                                                  \
  next ARGUMENTS;
#define KOLO_FORTRAN_TEST_OF(LOWER, UPPER, PARAMETERS, ARGUMENTS)                                                      \
  KOLO_FORTRAN(LOWER, UPPER, PARAMETERS) {                                                                             \
    KOLO_AFTER_BARRIERS(KOLO_FORTRAN_NAME(LOWER), KOLO_FORTRAN_CALLED(LOWER), ARGUMENTS)                               \
  }
#if KOLO_MPI_IS_OPENMPI
#define KOLO_FORTRAN_TEST(LOWER, UPPER, PARAMETERS, ARGUMENTS)                                                         \
  KOLO_FORTRAN_TEST_OF(LOWER, UPPER, PARAMETERS, ARGUMENTS)                                                            \
  extern "C" KOLO_RUNTIME_API void mpi_##LOWER##_f08_ PARAMETERS;                                                      \
  extern "C" KOLO_RUNTIME_API void mpi_##LOWER##_f08_ PARAMETERS {                                                     \
    KOLO_AFTER_BARRIERS(mpi_##LOWER##_f08_, "mpi_" #LOWER "_f08_", ARGUMENTS)                                          \
  }
#else
#define KOLO_FORTRAN_TEST KOLO_FORTRAN_TEST_OF
#endif

KOLO_FORTRAN_TEST(test, TEST, (MPI_Fint * request, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *ierr),
                  (request, flag, status, ierr))
KOLO_FORTRAN_TEST(testall, TESTALL,
                  (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *flag, MPI_Fint *statuses, MPI_Fint *ierr),
                  (count, requests, flag, statuses, ierr))
KOLO_FORTRAN_TEST(testany, TESTANY,
                  (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *flag, MPI_Fint *status,
                   MPI_Fint *ierr),
                  (count, requests, index, flag, status, ierr))
KOLO_FORTRAN_TEST(testsome, TESTSOME,
                  (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *numDone, MPI_Fint *indices, MPI_Fint *statuses,
                   MPI_Fint *ierr),
                  (count, requests, numDone, indices, statuses, ierr))
KOLO_FORTRAN_TEST(request_get_status, REQUEST_GET_STATUS,
                  (MPI_Fint * request, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *ierr), (request, flag, status, ierr))

KOLO_FORTRAN(ibarrier, IBARRIER, (MPI_Fint * comm, MPI_Fint *request, MPI_Fint *ierr)) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = MPI_Ibarrier(PMPI_Comm_f2c(*comm), &made);
  if (code == MPI_SUCCESS)
    *request = PMPI_Request_c2f(made);
  setError(ierr, code);
}

KOLO_FORTRAN(wait, WAIT, (MPI_Fint * request, MPI_Fint *status, MPI_Fint *ierr)) {
  static auto *const next = nextDefinition(&KOLO_FORTRAN_NAME(wait), KOLO_FORTRAN_CALLED(wait));
  if (arePending())
    awaitBarrier(PMPI_Request_f2c(*request));
  next(request, status, ierr);
}

KOLO_FORTRAN(waitall, WAITALL, (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *statuses, MPI_Fint *ierr)) {
  static auto *const next = nextDefinition(&KOLO_FORTRAN_NAME(waitall), KOLO_FORTRAN_CALLED(waitall));
  for (MPI_Request each : fromFortran(requests, *count))
    awaitBarrier(each);
  next(count, requests, statuses, ierr);
}

KOLO_FORTRAN(waitany, WAITANY,
             (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *status, MPI_Fint *ierr)) {
  static auto *const next = nextDefinition(&KOLO_FORTRAN_NAME(waitany), KOLO_FORTRAN_CALLED(waitany));
  static auto *const test = nextDefinition(&KOLO_FORTRAN_NAME(testany), KOLO_FORTRAN_CALLED(testany));
  const std::vector<MPI_Request> all = fromFortran(requests, *count);
  MPI_Fint isDone = 0, code = MPI_SUCCESS;
  bool wasFound = testUntilFound(numberOf(all), all.data(), [&] {
    test(count, requests, index, &isDone, status, &code);
    return isDone || code != MPI_SUCCESS;
  });
  return wasFound ? setError(ierr, code) : next(count, requests, index, status, ierr);
}

KOLO_FORTRAN(waitsome, WAITSOME,
             (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *numDone, MPI_Fint *indices, MPI_Fint *statuses,
              MPI_Fint *ierr)) {
  static auto *const next = nextDefinition(&KOLO_FORTRAN_NAME(waitsome), KOLO_FORTRAN_CALLED(waitsome));
  static auto *const test = nextDefinition(&KOLO_FORTRAN_NAME(testsome), KOLO_FORTRAN_CALLED(testsome));
  const std::vector<MPI_Request> all = fromFortran(requests, *count);
  MPI_Fint code = MPI_SUCCESS;
  bool wasFound = testUntilFound(numberOf(all), all.data(), [&] {
    test(count, requests, numDone, indices, statuses, &code);
    return *numDone != 0 || code != MPI_SUCCESS;
  });
  return wasFound ? setError(ierr, code) : next(count, requests, numDone, indices, statuses, ierr);
}
