// Open MPI's Fortran functions call PMPI_ functions, so a C wrapper does not see them. These wrappers take the place of
// the library's own, and call the C function.
#include "FortranNames.h"

#include <dlfcn.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

using kolo::mpi::setError;

namespace {

/// In Fortran, MPI_IN_PLACE and MPI_BOTTOM are the addresses of common blocks, whose names the compiler decorates.
class FortranConstant {
public:
  FortranConstant(std::initializer_list<const char *> names) {
    for (const char *name : names)
      if (void *address = dlsym(RTLD_DEFAULT, name))
        *std::find(std::begin(addresses), std::end(addresses) - 1, nullptr) = address;
  }
  bool is(const void *pointer) const {
    return pointer && std::find(std::begin(addresses), std::end(addresses), pointer) != std::end(addresses);
  }

private:
  const void *addresses[5] = {};
};

const void *fromFortran(const void *pointer) {
  static const FortranConstant inPlace = {"mpi_fortran_in_place_", "mpi_fortran_in_place", "mpi_fortran_in_place__",
                                          "MPI_FORTRAN_IN_PLACE"};
  static const FortranConstant bottom = {"mpi_fortran_bottom_", "mpi_fortran_bottom", "mpi_fortran_bottom__",
                                         "MPI_FORTRAN_BOTTOM"};
  return inPlace.is(pointer) ? MPI_IN_PLACE : bottom.is(pointer) ? MPI_BOTTOM : pointer;
}
void *fromFortran(void *pointer) { return const_cast<void *>(fromFortran(static_cast<const void *>(pointer))); }

/// One for each rank that this one sends to. None where `types` is null.
std::vector<MPI_Datatype> typesOf(const MPI_Fint *types, MPI_Comm comm) {
  int isInter = 0, number = 0;
  if (types && PMPI_Comm_test_inter(comm, &isInter) == MPI_SUCCESS)
    (isInter ? PMPI_Comm_remote_size : PMPI_Comm_size)(comm, &number);
  std::vector<MPI_Datatype> all(static_cast<size_t>(number));
  std::transform(types, types + number, all.begin(), PMPI_Type_f2c);
  return all;
}

} // namespace

KOLO_FORTRAN(init, INIT, (MPI_Fint * ierr)) { setError(ierr, MPI_Init(nullptr, nullptr)); }

KOLO_FORTRAN(init_thread, INIT_THREAD, (MPI_Fint * required, MPI_Fint *provided, MPI_Fint *ierr)) {
  setError(ierr, MPI_Init_thread(nullptr, nullptr, *required, provided));
}

KOLO_FORTRAN(barrier, BARRIER, (MPI_Fint * comm, MPI_Fint *ierr)) { setError(ierr, MPI_Barrier(PMPI_Comm_f2c(*comm))); }

// The parameters of collectives that combine and have no root.
#define KOLO_COMBINED                                                                                                  \
  char *sendbuf, char *recvbuf, MPI_Fint *count, MPI_Fint *datatype, MPI_Fint *op, MPI_Fint *comm, MPI_Fint *ierr
#define KOLO_COMBINATION                                                                                               \
  fromFortran(static_cast<const void *>(sendbuf)), fromFortran(static_cast<void *>(recvbuf)), *count,                  \
      PMPI_Type_f2c(*datatype), PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)

KOLO_FORTRAN(allreduce, ALLREDUCE, (KOLO_COMBINED)) { setError(ierr, MPI_Allreduce(KOLO_COMBINATION)); }

KOLO_FORTRAN(scan, SCAN, (KOLO_COMBINED)) { setError(ierr, MPI_Scan(KOLO_COMBINATION)); }

KOLO_FORTRAN(exscan, EXSCAN, (KOLO_COMBINED)) { setError(ierr, MPI_Exscan(KOLO_COMBINATION)); }

KOLO_FORTRAN(reduce, REDUCE,
             (char *sendbuf, char *recvbuf, MPI_Fint *count, MPI_Fint *datatype, MPI_Fint *op, MPI_Fint *root,
              MPI_Fint *comm, MPI_Fint *ierr)) {
  setError(ierr, MPI_Reduce(fromFortran(static_cast<const void *>(sendbuf)), fromFortran(static_cast<void *>(recvbuf)),
                            *count, PMPI_Type_f2c(*datatype), PMPI_Op_f2c(*op), *root, PMPI_Comm_f2c(*comm)));
}

KOLO_FORTRAN(reduce_scatter_block, REDUCE_SCATTER_BLOCK, (KOLO_COMBINED)) {
  setError(ierr, MPI_Reduce_scatter_block(KOLO_COMBINATION));
}

KOLO_FORTRAN(reduce_scatter, REDUCE_SCATTER,
             (char *sendbuf, char *recvbuf, MPI_Fint *recvcounts, MPI_Fint *datatype, MPI_Fint *op, MPI_Fint *comm,
              MPI_Fint *ierr)) {
  setError(ierr, MPI_Reduce_scatter(fromFortran(static_cast<const void *>(sendbuf)),
                                    fromFortran(static_cast<void *>(recvbuf)), recvcounts, PMPI_Type_f2c(*datatype),
                                    PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

KOLO_FORTRAN(bcast, BCAST,
             (char *buffer, MPI_Fint *count, MPI_Fint *datatype, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *ierr)) {
  setError(ierr, MPI_Bcast(fromFortran(static_cast<void *>(buffer)), *count, PMPI_Type_f2c(*datatype), *root,
                           PMPI_Comm_f2c(*comm)));
}

// The parameters of collectives with a type on each side; the rooted ones have a root before the communicator.
#define KOLO_TWO_SIDES                                                                                                 \
  char *sendbuf, MPI_Fint *sendcount, MPI_Fint *sendtype, char *recvbuf, MPI_Fint *recvcount, MPI_Fint *recvtype
#define KOLO_BOTH_SIDES                                                                                                \
  fromFortran(static_cast<const void *>(sendbuf)), *sendcount, PMPI_Type_f2c(*sendtype),                               \
      fromFortran(static_cast<void *>(recvbuf)), *recvcount, PMPI_Type_f2c(*recvtype)

KOLO_FORTRAN(gather, GATHER, (KOLO_TWO_SIDES, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *ierr)) {
  setError(ierr, MPI_Gather(KOLO_BOTH_SIDES, *root, PMPI_Comm_f2c(*comm)));
}

KOLO_FORTRAN(scatter, SCATTER, (KOLO_TWO_SIDES, MPI_Fint *root, MPI_Fint *comm, MPI_Fint *ierr)) {
  setError(ierr, MPI_Scatter(KOLO_BOTH_SIDES, *root, PMPI_Comm_f2c(*comm)));
}

KOLO_FORTRAN(allgather, ALLGATHER, (KOLO_TWO_SIDES, MPI_Fint *comm, MPI_Fint *ierr)) {
  setError(ierr, MPI_Allgather(KOLO_BOTH_SIDES, PMPI_Comm_f2c(*comm)));
}

KOLO_FORTRAN(alltoall, ALLTOALL, (KOLO_TWO_SIDES, MPI_Fint *comm, MPI_Fint *ierr)) {
  setError(ierr, MPI_Alltoall(KOLO_BOTH_SIDES, PMPI_Comm_f2c(*comm)));
}

// As above, with a table of counts and one of displacements on both sides, or on one.
#define KOLO_BUFFER(NAME) char *NAME##buf, MPI_Fint *NAME##count, MPI_Fint *NAME##type
#define KOLO_TABLED(NAME) char *NAME##buf, MPI_Fint *NAME##counts, MPI_Fint *NAME##displs, MPI_Fint *NAME##type
#define KOLO_SENT fromFortran(static_cast<const void *>(sendbuf))
#define KOLO_RECEIVED fromFortran(static_cast<void *>(recvbuf))
#define KOLO_ROOTED MPI_Fint *root, MPI_Fint *comm, MPI_Fint *ierr

KOLO_FORTRAN(gatherv, GATHERV, (KOLO_BUFFER(send), KOLO_TABLED(recv), KOLO_ROOTED)) {
  setError(ierr, MPI_Gatherv(KOLO_SENT, *sendcount, PMPI_Type_f2c(*sendtype), KOLO_RECEIVED, recvcounts, recvdispls,
                             PMPI_Type_f2c(*recvtype), *root, PMPI_Comm_f2c(*comm)));
}

KOLO_FORTRAN(scatterv, SCATTERV, (KOLO_TABLED(send), KOLO_BUFFER(recv), KOLO_ROOTED)) {
  setError(ierr, MPI_Scatterv(KOLO_SENT, sendcounts, senddispls, PMPI_Type_f2c(*sendtype), KOLO_RECEIVED, *recvcount,
                              PMPI_Type_f2c(*recvtype), *root, PMPI_Comm_f2c(*comm)));
}

KOLO_FORTRAN(allgatherv, ALLGATHERV, (KOLO_BUFFER(send), KOLO_TABLED(recv), MPI_Fint *comm, MPI_Fint *ierr)) {
  setError(ierr, MPI_Allgatherv(KOLO_SENT, *sendcount, PMPI_Type_f2c(*sendtype), KOLO_RECEIVED, recvcounts, recvdispls,
                                PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm)));
}

KOLO_FORTRAN(alltoallv, ALLTOALLV, (KOLO_TABLED(send), KOLO_TABLED(recv), MPI_Fint *comm, MPI_Fint *ierr)) {
  setError(ierr, MPI_Alltoallv(KOLO_SENT, sendcounts, senddispls, PMPI_Type_f2c(*sendtype), KOLO_RECEIVED, recvcounts,
                               recvdispls, PMPI_Type_f2c(*recvtype), PMPI_Comm_f2c(*comm)));
}

KOLO_FORTRAN(alltoallw, ALLTOALLW, (KOLO_TABLED(send), KOLO_TABLED(recv), MPI_Fint *comm, MPI_Fint *ierr)) {
  const MPI_Comm ofRanks = PMPI_Comm_f2c(*comm);
  const void *sent = KOLO_SENT;
  // In place, there are no types of what is sent.
  const std::vector<MPI_Datatype> sentTypes = typesOf(sent == MPI_IN_PLACE ? nullptr : sendtype, ofRanks),
                                  receivedTypes = typesOf(recvtype, ofRanks);
  setError(ierr, MPI_Alltoallw(sent, sendcounts, senddispls, sentTypes.data(), KOLO_RECEIVED, recvcounts, recvdispls,
                               receivedTypes.data(), ofRanks));
}

// Memory that C allocated may be freed from Fortran.
KOLO_FORTRAN(free_mem, FREE_MEM, (char *base, MPI_Fint *ierr)) { setError(ierr, MPI_Free_mem(base)); }
