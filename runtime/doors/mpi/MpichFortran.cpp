// MPICH's Fortran functions call those of C, which the door sees, with these exceptions of the module mpi_f08: they
// call PMPI_ functions. Of ranks that call one function from C and from Fortran, the door must see all or none.
#include "FortranNames.h"

using kolo::mpi::setError;

KOLO_FORTRAN(init, INIT, (MPI_Fint * ierr)) { setError(ierr, MPI_Init(nullptr, nullptr)); }

KOLO_FORTRAN(init_thread, INIT_THREAD, (MPI_Fint * required, MPI_Fint *provided, MPI_Fint *ierr)) {
  setError(ierr, MPI_Init_thread(nullptr, nullptr, *required, provided));
}

KOLO_FORTRAN(barrier, BARRIER, (MPI_Fint * comm, MPI_Fint *ierr)) { setError(ierr, MPI_Barrier(PMPI_Comm_f2c(*comm))); }

namespace {

using FreeCommunicator = int (*)(MPI_Comm *);

void free(FreeCommunicator function, MPI_Fint *comm, MPI_Fint *ierr) {
  MPI_Comm handle = PMPI_Comm_f2c(*comm);
  setError(ierr, function(&handle));
  *comm = PMPI_Comm_c2f(handle);
}

} // namespace

KOLO_FORTRAN(comm_free, COMM_FREE, (MPI_Fint * comm, MPI_Fint *ierr)) { free(MPI_Comm_free, comm, ierr); }

KOLO_FORTRAN(comm_disconnect, COMM_DISCONNECT, (MPI_Fint * comm, MPI_Fint *ierr)) {
  free(MPI_Comm_disconnect, comm, ierr);
}
