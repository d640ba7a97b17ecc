// MPICH's Fortran functions call those of C, which the door sees, with these exceptions of the module mpi_f08: they
// call PMPI_ functions. Of ranks that call one function from C and from Fortran, the door must see all or none.
#include "Handles.h"

#include "kolo/runtime/Export.h"

namespace {

void setError(int *ierr, int code) { // null: the program does not ask
  if (ierr)
    *ierr = code;
}

} // namespace

// NOLINTBEGIN(readability-identifier-naming): MPICH's names
extern "C" KOLO_RUNTIME_API void mpi_init_f08_(int *ierr) { setError(ierr, MPI_Init(nullptr, nullptr)); }

extern "C" KOLO_RUNTIME_API void mpi_init_thread_f08_(int *required, int *provided, int *ierr) {
  setError(ierr, MPI_Init_thread(nullptr, nullptr, *required, provided));
}

// A handle of the module has one component: the handle of C.
extern "C" KOLO_RUNTIME_API void mpi_barrier_f08_(MPI_Comm *comm, int *ierr) { setError(ierr, MPI_Barrier(*comm)); }
// NOLINTEND(readability-identifier-naming)
