// The collectives of MPI that only move data, in blocks with counts of their own. In most of them a rank knows the
// counts of its own blocks alone. So all calls of a function on a communicator are decided alike, those without data
// too; only the root decides besides. To Kolo blocks are bytes at any places, so datatypes and displacements of
// MPI_Alltoallw need not agree with each other.
#include "Calls.h"

using kolo::mpi::Blocks;
using kolo::mpi::Carrier;
using kolo::mpi::RequestShape;
using kolo::runtime::CollectiveKind;

namespace kolo::mpi {
namespace {

RequestShape tabled(CollectiveKind kind, int root = 0) {
  RequestShape shape = moved(kind, 0, root);
  shape.hasTables = true;
  return shape;
}

/// What MPI is given for a buffer of several blocks. Displacements are in elements.
struct BlockedBuffer {
  const void *memory;
  const int *counts, *displacements;
  MPI_Datatype type;
};

Blocks blocksOf(const BlockedBuffer &table, int number) {
  Blocks blocks(static_cast<size_t>(number));
  const MPI_Aint extent = extentOf(table.type);
  for (int i = 0; i < number; ++i)
    blocks.add(table.memory, table.displacements[i] * extent, table.counts[i], table.type);
  return blocks;
}

Blocks oneBlock(const void *memory, int count, MPI_Datatype type, MPI_Aint offset = 0) {
  Blocks blocks(1);
  blocks.add(memory, offset, count, type);
  return blocks;
}

/// Where this rank's own block lies in a buffer of several blocks.
Blocks blockOf(const BlockedBuffer &table, int number) {
  return oneBlock(table.memory, table.counts[number], table.type, table.displacements[number] * extentOf(table.type));
}

/// What MPI_Alltoallw is given for a buffer. Displacements are in bytes.
struct TypedBuffer {
  const void *memory;
  const int *counts, *displacements;
  const MPI_Datatype *types;
};

Blocks blocksOf(const TypedBuffer &table, int number) {
  Blocks blocks(static_cast<size_t>(number));
  for (int i = 0; i < number; ++i)
    blocks.add(table.memory, table.displacements[i], table.counts[i], table.types[i]);
  return blocks;
}

} // namespace
} // namespace kolo::mpi

using namespace kolo::mpi;

KOLO_MPI_API int MPI_Allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                                const int *recvcounts, const int *displs, MPI_Datatype recvtype, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Allgatherv, "MPI_Allgatherv");
  if (Carrier *carrier = enter(comm, blockOfAnySize)) {
    const BlockedBuffer taken = {recvbuf, recvcounts, displs, recvtype};
    const bool isInPlace = sendbuf == MPI_IN_PLACE;
    Blocks input = isInPlace ? blockOf(taken, carrier->rank()) : oneBlock(sendbuf, sendcount, sendtype);
    if (auto code = carrier->perform({"MPI_Allgatherv", tabled(CollectiveKind::AllGather), std::move(input),
                                      blocksOf(taken, carrier->size()), isInPlace}))
      return *code;
  }
  return next(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm);
}

KOLO_MPI_API int MPI_Gatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                             const int *recvcounts, const int *displs, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Gatherv, "MPI_Gatherv");
  if (Carrier *carrier = enter(comm, blockOfAnySize)) {
    const BlockedBuffer taken = {recvbuf, recvcounts, displs, recvtype};
    const bool isRoot = carrier->rank() == root, isInPlace = isRoot && sendbuf == MPI_IN_PLACE;
    Blocks input = isInPlace ? blockOf(taken, root) : oneBlock(sendbuf, sendcount, sendtype);
    if (auto code = carrier->perform({"MPI_Gatherv", tabled(CollectiveKind::Gather, root), std::move(input),
                                      isRoot ? blocksOf(taken, carrier->size()) : Blocks(), isInPlace}))
      return *code;
  }
  return next(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm);
}

KOLO_MPI_API int MPI_Scatterv(const void *sendbuf, const int *sendcounts, const int *displs, MPI_Datatype sendtype,
                              void *recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Scatterv, "MPI_Scatterv");
  if (Carrier *carrier = enter(comm, blockOfAnySize)) {
    const BlockedBuffer given = {sendbuf, sendcounts, displs, sendtype};
    const bool isRoot = carrier->rank() == root, isInPlace = isRoot && recvbuf == MPI_IN_PLACE;
    Blocks output = isInPlace ? blockOf(given, root) : oneBlock(recvbuf, recvcount, recvtype);
    if (auto code =
            carrier->perform({"MPI_Scatterv", tabled(CollectiveKind::Scatter, root),
                              isRoot ? blocksOf(given, carrier->size()) : Blocks(), std::move(output), isInPlace}))
      return *code;
  }
  return next(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

KOLO_MPI_API int MPI_Alltoallv(const void *sendbuf, const int *sendcounts, const int *sdispls, MPI_Datatype sendtype,
                               void *recvbuf, const int *recvcounts, const int *rdispls, MPI_Datatype recvtype,
                               MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Alltoallv, "MPI_Alltoallv");
  if (Carrier *carrier = enter(comm, blockOfAnySize)) {
    const bool isInPlace = sendbuf == MPI_IN_PLACE;
    const BlockedBuffer taken = {recvbuf, recvcounts, rdispls, recvtype};
    const BlockedBuffer given = isInPlace ? taken : BlockedBuffer{sendbuf, sendcounts, sdispls, sendtype};
    if (auto code = carrier->perform({"MPI_Alltoallv", tabled(CollectiveKind::AllToAll),
                                      blocksOf(given, carrier->size()), blocksOf(taken, carrier->size()), isInPlace}))
      return *code;
  }
  return next(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm);
}

KOLO_MPI_API int MPI_Alltoallw(const void *sendbuf, const int *sendcounts, const int *sdispls,
                               const MPI_Datatype *sendtypes, void *recvbuf, const int *recvcounts, const int *rdispls,
                               const MPI_Datatype *recvtypes, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Alltoallw, "MPI_Alltoallw");
  if (Carrier *carrier = enter(comm, blockOfAnySize)) {
    const bool isInPlace = sendbuf == MPI_IN_PLACE;
    const TypedBuffer taken = {recvbuf, recvcounts, rdispls, recvtypes};
    const TypedBuffer given = isInPlace ? taken : TypedBuffer{sendbuf, sendcounts, sdispls, sendtypes};
    if (auto code = carrier->perform({"MPI_Alltoallw", tabled(CollectiveKind::AllToAll),
                                      blocksOf(given, carrier->size()), blocksOf(taken, carrier->size()), isInPlace}))
      return *code;
  }
  return next(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm);
}
