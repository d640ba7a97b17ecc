// FortranNames: how the door defines a function of MPI for Fortran, where the library's own calls PMPI_ functions.
#pragma once

#include "Handles.h"

#include "kolo/runtime/Export.h"

// MPI_Fint is int in the libraries that this is built for, so arrays of integers need no copy.
static_assert(sizeof(MPI_Fint) == sizeof(int));

#if KOLO_MPI_IS_OPENMPI
// `ompi_NAME_f`, in which all of Open MPI's Fortran bindings end, and the names by which Fortran compilers call it.
#define KOLO_FORTRAN(LOWER, UPPER, PARAMETERS)                                                                         \
  extern "C" KOLO_RUNTIME_API void ompi_##LOWER##_f PARAMETERS;                                                        \
  extern "C" KOLO_RUNTIME_API void mpi_##LOWER PARAMETERS __attribute__((alias("ompi_" #LOWER "_f")));                 \
  extern "C" KOLO_RUNTIME_API void mpi_##LOWER##_ PARAMETERS __attribute__((alias("ompi_" #LOWER "_f")));              \
  extern "C" KOLO_RUNTIME_API void mpi_##LOWER##__ PARAMETERS __attribute__((alias("ompi_" #LOWER "_f")));             \
  extern "C" KOLO_RUNTIME_API void MPI_##UPPER PARAMETERS __attribute__((alias("ompi_" #LOWER "_f")));                 \
  extern "C" KOLO_RUNTIME_API void ompi_##LOWER##_f PARAMETERS
#define KOLO_FORTRAN_NAME(LOWER) ompi_##LOWER##_f
#define KOLO_FORTRAN_CALLED(LOWER) "mpi_" #LOWER "_"
#else
// What MPICH's module mpi_f08 calls. Its other Fortran functions call those of C. A handle of the module has one
// component: the handle of C.
#define KOLO_FORTRAN(LOWER, UPPER, PARAMETERS)                                                                         \
  extern "C" KOLO_RUNTIME_API void mpi_##LOWER##_f08_ PARAMETERS;                                                      \
  extern "C" KOLO_RUNTIME_API void mpi_##LOWER##_f08_ PARAMETERS
#define KOLO_FORTRAN_NAME(LOWER) mpi_##LOWER##_f08_
#define KOLO_FORTRAN_CALLED(LOWER) "mpi_" #LOWER "_f08_"
#endif

namespace kolo::mpi {

inline void setError(MPI_Fint *ierr, int code) { // null: the program does not ask
  if (ierr)
    *ierr = code;
}

} // namespace kolo::mpi
