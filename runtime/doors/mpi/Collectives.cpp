// The collectives of MPI that Kolo carries. Each is decided by what MPI obliges all ranks to agree on: communicator,
// bytes of the type signature, root, operation. Datatypes may differ between ranks, and so may MPI_IN_PLACE and the
// memory; so none of these decides. What is not carried goes to the next definition of the function, which may be
// another tool's.
#include "Carrier.h"
#include "Combinations.h"
#include "PageHeap.h"
#include "Process.h"

#include "kolo/runtime/Export.h"

#include <dlfcn.h>

#include <algorithm>

using kolo::mpi::Carrier;
using kolo::mpi::Request;
using kolo::mpi::Shape;
using kolo::mpi::Side;
using kolo::runtime::CollectiveKind;

namespace kolo::mpi {
namespace {

template <class Function> Function *nextDefinition(Function *, const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

/// The carrier of a communicator on which calls may be carried now. All ranks of the communicator call it alike.
Carrier *enter(MPI_Comm communicator) {
  if (!mayCarry())
    return nullptr;
  Carrier *carrier = carrierOf(communicator);
  return carrier && carrier->enter() ? carrier : nullptr;
}

/// Block number `block` of `count` elements each.
void *blockOf(const void *memory, int block, int count, MPI_Datatype type) {
  MPI_Aint least = 0, extent = 0;
  if (const BasicType *basic = findBasicType(type)) [[likely]]
    extent = basic->sizeBytes;
  else
    PMPI_Type_get_extent(type, &least, &extent);
  return static_cast<char *>(const_cast<void *>(memory)) + MPI_Aint(block) * count * extent;
}

Side sideOf(const void *memory, int count, MPI_Datatype type, int blocks = 1) {
  return {const_cast<void *>(memory), count, type, blocks};
}

/// Data that only moves, in bytes.
Shape moved(CollectiveKind kind, int64_t sizeBytes, int root = 0) {
  Shape shape;
  shape.kind = kind;
  shape.count = sizeBytes;
  shape.root = root;
  return shape;
}

/// Data that is combined. `whyNot`: this reduction is not carried, on any rank.
Shape combined(CollectiveKind kind, const Side &data, MPI_Op operation, const char *&whyNot, int root = 0) {
  Shape shape;
  shape.kind = kind;
  shape.root = root;
  const std::optional<CarriedReduction> combination = combinationOf(operation, data.type, whyNot);
  if (data.count < 0)
    whyNot = "wrong argument";
  if (whyNot)
    return shape;
  shape.count = data.count;
  shape.type = combination->type;
  shape.reduction = combination->reduction;
  shape.custom = combination->custom;
  return shape;
}

/// For what MPI will refuse itself, on this rank.
bool isWrong(const Side &side) { return side.blocks && (side.count < 0 || side.type == MPI_DATATYPE_NULL); }
bool isWrong(const Carrier &carrier, const Request &request) {
  const int root = request.shape.root;
  return root < 0 || root >= carrier.size() || isWrong(request.input) || isWrong(request.output);
}

} // namespace

static std::optional<int> carryMove(Carrier &carrier, const Request &request) {
  if (request.shape.count < 0 || isWrong(carrier, request))
    return carrier.forward(request.function, "wrong argument");
  return carrier.perform(request);
}

static std::optional<int> carryCombination(Carrier &carrier, const Request &request, const char *whyNot) {
  if (isWrong(carrier, request))
    whyNot = "wrong argument";
  return whyNot ? carrier.forward(request.function, whyNot) : carrier.perform(request);
}

} // namespace kolo::mpi

using namespace kolo::mpi;

#define KOLO_MPI_API extern "C" KOLO_RUNTIME_API

KOLO_MPI_API int MPI_Init(int *argc, char ***argv) {
  static auto *const next = nextDefinition(&MPI_Init, "MPI_Init");
  return initialize([&] { return next(argc, argv); });
}

KOLO_MPI_API int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  static auto *const next = nextDefinition(&MPI_Init_thread, "MPI_Init_thread");
  return initialize([&] { return next(argc, argv, required, provided); });
}

KOLO_MPI_API int MPI_Barrier(MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Barrier, "MPI_Barrier");
  Carrier *carrier = enter(comm);
  return carrier ? carrier->barrier() : next(comm);
}

KOLO_MPI_API int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                               MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Allreduce, "MPI_Allreduce");
  if (Carrier *carrier = enter(comm)) {
    const char *whyNot = nullptr;
    Side output = sideOf(recvbuf, count, datatype);
    Side input = sendbuf == MPI_IN_PLACE ? output : sideOf(sendbuf, count, datatype);
    Shape shape = combined(CollectiveKind::AllReduce, output, op, whyNot);
    if (auto code = carryCombination(*carrier, {"MPI_Allreduce", shape, input, output}, whyNot))
      return *code;
  }
  return next(sendbuf, recvbuf, count, datatype, op, comm);
}

KOLO_MPI_API int MPI_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
                            MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Reduce, "MPI_Reduce");
  if (Carrier *carrier = enter(comm)) {
    const char *whyNot = nullptr;
    Side output = sideOf(recvbuf, count, datatype, carrier->rank() == root ? 1 : 0);
    bool isInPlace = output.blocks && sendbuf == MPI_IN_PLACE;
    Side input = isInPlace ? output : sideOf(sendbuf, count, datatype);
    Shape shape = combined(CollectiveKind::Reduce, input, op, whyNot, root);
    if (auto code = carryCombination(*carrier, {"MPI_Reduce", shape, input, output}, whyNot))
      return *code;
  }
  return next(sendbuf, recvbuf, count, datatype, op, root, comm);
}

KOLO_MPI_API int MPI_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype datatype,
                                          MPI_Op op, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Reduce_scatter_block, "MPI_Reduce_scatter_block");
  if (Carrier *carrier = enter(comm)) {
    const char *whyNot = nullptr;
    Side output = sideOf(recvbuf, recvcount, datatype);
    Side input = sideOf(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, recvcount, datatype, carrier->size());
    Shape shape = combined(CollectiveKind::ReduceScatter, output, op, whyNot);
    if (auto code = carryCombination(*carrier, {"MPI_Reduce_scatter_block", shape, input, output}, whyNot))
      return *code;
  }
  return next(sendbuf, recvbuf, recvcount, datatype, op, comm);
}

KOLO_MPI_API int MPI_Reduce_scatter(const void *sendbuf, void *recvbuf, const int *recvcounts, MPI_Datatype datatype,
                                    MPI_Op op, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Reduce_scatter, "MPI_Reduce_scatter");
  if (Carrier *carrier = enter(comm)) {
    const char *whyNot = nullptr;
    Side output = sideOf(recvbuf, recvcounts[0], datatype);
    Side input = sideOf(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, recvcounts[0], datatype, carrier->size());
    Shape shape = combined(CollectiveKind::ReduceScatter, output, op, whyNot);
    if (!std::all_of(recvcounts, recvcounts + carrier->size(), [&](int count) { return count == recvcounts[0]; }))
      whyNot = "unequal counts";
    if (auto code = carryCombination(*carrier, {"MPI_Reduce_scatter", shape, input, output}, whyNot))
      return *code;
  }
  return next(sendbuf, recvbuf, recvcounts, datatype, op, comm);
}

KOLO_MPI_API int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Bcast, "MPI_Bcast");
  if (Carrier *carrier = enter(comm)) {
    bool isRoot = carrier->rank() == root;
    Side output = sideOf(buffer, count, datatype), input = output;
    input.blocks = isRoot ? 1 : 0;
    Shape shape = moved(CollectiveKind::Broadcast, bytesOf(count, datatype), root);
    if (auto code = carryMove(*carrier, {"MPI_Bcast", shape, input, output}))
      return *code;
  }
  return next(buffer, count, datatype, root, comm);
}

KOLO_MPI_API int MPI_Gather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                            MPI_Datatype recvtype, int root, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Gather, "MPI_Gather");
  if (Carrier *carrier = enter(comm)) {
    bool isRoot = carrier->rank() == root, isInPlace = isRoot && sendbuf == MPI_IN_PLACE;
    Side output = sideOf(recvbuf, recvcount, recvtype, isRoot ? carrier->size() : 0);
    Side input = isInPlace ? sideOf(blockOf(recvbuf, root, recvcount, recvtype), recvcount, recvtype)
                           : sideOf(sendbuf, sendcount, sendtype);
    Shape shape = moved(CollectiveKind::Gather, bytesOf(input.count, input.type), root);
    if (auto code = carryMove(*carrier, {"MPI_Gather", shape, input, output}))
      return *code;
  }
  return next(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

KOLO_MPI_API int MPI_Scatter(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                             MPI_Datatype recvtype, int root, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Scatter, "MPI_Scatter");
  if (Carrier *carrier = enter(comm)) {
    bool isRoot = carrier->rank() == root, isInPlace = isRoot && recvbuf == MPI_IN_PLACE;
    Side input = sideOf(sendbuf, sendcount, sendtype, isRoot ? carrier->size() : 0);
    Side output = isInPlace ? sideOf(blockOf(sendbuf, root, sendcount, sendtype), sendcount, sendtype)
                            : sideOf(recvbuf, recvcount, recvtype);
    Shape shape = moved(CollectiveKind::Scatter, bytesOf(output.count, output.type), root);
    if (auto code = carryMove(*carrier, {"MPI_Scatter", shape, input, output}))
      return *code;
  }
  return next(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

KOLO_MPI_API int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                               MPI_Datatype recvtype, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Allgather, "MPI_Allgather");
  if (Carrier *carrier = enter(comm)) {
    Side output = sideOf(recvbuf, recvcount, recvtype, carrier->size());
    Side input = sendbuf == MPI_IN_PLACE
                     ? sideOf(blockOf(recvbuf, carrier->rank(), recvcount, recvtype), recvcount, recvtype)
                     : sideOf(sendbuf, sendcount, sendtype);
    Shape shape = moved(CollectiveKind::AllGather, bytesOf(recvcount, recvtype));
    if (auto code = carryMove(*carrier, {"MPI_Allgather", shape, input, output}))
      return *code;
  }
  return next(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

KOLO_MPI_API int MPI_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                              MPI_Datatype recvtype, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Alltoall, "MPI_Alltoall");
  if (Carrier *carrier = enter(comm)) {
    Side output = sideOf(recvbuf, recvcount, recvtype, carrier->size());
    Side input = sendbuf == MPI_IN_PLACE ? output : sideOf(sendbuf, sendcount, sendtype, carrier->size());
    Shape shape = moved(CollectiveKind::AllToAll, bytesOf(recvcount, recvtype));
    if (auto code = carryMove(*carrier, {"MPI_Alltoall", shape, input, output}))
      return *code;
  }
  return next(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

KOLO_MPI_API int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr) {
  static auto *const next = nextDefinition(&MPI_Alloc_mem, "MPI_Alloc_mem");
  void *memory = allocateMemory(size, info);
  if (!memory)
    return next(size, info, baseptr);
  *static_cast<void **>(baseptr) = memory;
  return MPI_SUCCESS;
}

KOLO_MPI_API int MPI_Free_mem(void *base) {
  static auto *const next = nextDefinition(&MPI_Free_mem, "MPI_Free_mem");
  return pageHeap().free(base) ? MPI_SUCCESS : next(base);
}
