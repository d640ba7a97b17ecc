// MPICH's Fortran functions call those of C, which the door sees, with these exceptions of the module mpi_f08: they
// call PMPI_ functions. Of ranks that call one function from C and from Fortran, the door must see all or none.
#include "FortranNames.h"

using kolo::mpi::setError;

KOLO_FORTRAN(init, INIT, (MPI_Fint * ierr)) { setError(ierr, MPI_Init(nullptr, nullptr)); }

KOLO_FORTRAN(init_thread, INIT_THREAD, (MPI_Fint * required, MPI_Fint *provided, MPI_Fint *ierr)) {
  setError(ierr, MPI_Init_thread(nullptr, nullptr, *required, provided));
}

KOLO_FORTRAN(barrier, BARRIER, (MPI_Fint * comm, MPI_Fint *ierr)) { setError(ierr, MPI_Barrier(PMPI_Comm_f2c(*comm))); }
