// The collectives of MPI that Kolo carries; TabledCollectives.cpp has those that move blocks with counts of their own.
// Each is decided by what MPI obliges all ranks to agree on: communicator, bytes of the type signature, root,
// operation. Datatypes may differ between ranks, and so may MPI_IN_PLACE and the memory; so none of these decides. What
// is not carried goes to the next definition of the function, which may be another tool's.
#include "Calls.h"
#include "Meeting.h"
#include "PageHeap.h"
#include "Process.h"

#include <algorithm>

using kolo::mpi::Carrier;
using kolo::mpi::Request;
using kolo::mpi::RequestShape;
using kolo::mpi::Side;
using kolo::runtime::CollectiveKind;

namespace kolo::mpi {
namespace {

// In Open MPI each rank hears of the one before it, and goes on when it has told the next one.
#ifdef OPEN_MPI
constexpr bool scansAreOneWay = true;
#else
constexpr bool scansAreOneWay = false;
#endif

/// Block number `block` of `count` elements each.
void *blockOf(const void *memory, int block, int count, MPI_Datatype type) {
  return static_cast<char *>(const_cast<void *>(memory)) + MPI_Aint(block) * count * extentOf(type);
}

Side sideOf(const void *memory, int count, MPI_Datatype type, int blocks = 1) {
  return {const_cast<void *>(memory), count, type, blocks};
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

/// A reduce-scatter whose blocks differ in length. Data that is combined lies as its kernel takes it, gaps of pairs
/// included.
static std::optional<int> carryUnequal(Carrier &carrier, const Request &request, const int *counts,
                                       const char *whyNot) {
  if (whyNot)
    return carrier.forward(request.function, whyNot);
  const auto number = static_cast<size_t>(carrier.size());
  const int64_t elementBytes = request.shape.elementBytes();
  TabledRequest tabled = {request.function, request.shape, Blocks(number, elementBytes), Blocks(1, elementBytes)};
  tabled.shape.count = 0;
  tabled.shape.hasTables = true;
  int64_t next = 0;
  for (size_t i = 0; i < number; next += counts[i++])
    tabled.input.addUnits(request.input.memory, next, counts[i]);
  tabled.output.addUnits(request.output.memory, 0, counts[carrier.rank()]);
  return carrier.perform(std::move(tabled));
}

} // namespace kolo::mpi

using namespace kolo::mpi;

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
  if (comm == MPI_COMM_WORLD)
    meetInBarrier();
  Carrier *carrier = enter(comm);
  return carrier ? carrier->barrier() : next(comm);
}

KOLO_MPI_API int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                               MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Allreduce, "MPI_Allreduce");
  if (Carrier *carrier = enter(comm, {count, datatype, op})) {
    const char *whyNot = nullptr;
    Side output = sideOf(recvbuf, count, datatype);
    Side input = sendbuf == MPI_IN_PLACE ? output : sideOf(sendbuf, count, datatype);
    RequestShape shape = combined(CollectiveKind::AllReduce, {count, datatype, op}, whyNot);
    if (auto code = carryCombination(*carrier, {"MPI_Allreduce", shape, input, output}, whyNot))
      return *code;
  }
  return next(sendbuf, recvbuf, count, datatype, op, comm);
}

KOLO_MPI_API int MPI_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
                            MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Reduce, "MPI_Reduce");
  if (Carrier *carrier = enter(comm, {count, datatype, op, true})) {
    const char *whyNot = nullptr;
    Side output = sideOf(recvbuf, count, datatype, carrier->rank() == root ? 1 : 0);
    bool isInPlace = output.blocks && sendbuf == MPI_IN_PLACE;
    Side input = isInPlace ? output : sideOf(sendbuf, count, datatype);
    RequestShape shape = combined(CollectiveKind::Reduce, {input.count, input.type, op}, whyNot, root);
    if (auto code = carryCombination(*carrier, {"MPI_Reduce", shape, input, output}, whyNot))
      return *code;
  }
  return next(sendbuf, recvbuf, count, datatype, op, root, comm);
}

KOLO_MPI_API int MPI_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype datatype,
                                          MPI_Op op, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Reduce_scatter_block, "MPI_Reduce_scatter_block");
  if (Carrier *carrier = enter(comm, {recvcount, datatype, op})) {
    const char *whyNot = nullptr;
    Side output = sideOf(recvbuf, recvcount, datatype);
    Side input = sideOf(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, recvcount, datatype, carrier->size());
    RequestShape shape = combined(CollectiveKind::ReduceScatter, {recvcount, datatype, op}, whyNot);
    if (auto code = carryCombination(*carrier, {"MPI_Reduce_scatter_block", shape, input, output}, whyNot))
      return *code;
  }
  return next(sendbuf, recvbuf, recvcount, datatype, op, comm);
}

KOLO_MPI_API int MPI_Reduce_scatter(const void *sendbuf, void *recvbuf, const int *recvcounts, MPI_Datatype datatype,
                                    MPI_Op op, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Reduce_scatter, "MPI_Reduce_scatter");
  if (Carrier *carrier = enter(comm, {recvcounts[0], datatype, op})) {
    const char *whyNot = nullptr;
    Side output = sideOf(recvbuf, recvcounts[0], datatype);
    Side input = sideOf(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, recvcounts[0], datatype, carrier->size());
    RequestShape shape = combined(CollectiveKind::ReduceScatter, {recvcounts[0], datatype, op}, whyNot);
    const bool areEqual =
        std::all_of(recvcounts, recvcounts + carrier->size(), [&](int count) { return count == recvcounts[0]; });
    if (auto code = areEqual ? carryCombination(*carrier, {"MPI_Reduce_scatter", shape, input, output}, whyNot)
                             : carryUnequal(*carrier, {"MPI_Reduce_scatter", shape, input, output}, recvcounts, whyNot))
      return *code;
  }
  return next(sendbuf, recvbuf, recvcounts, datatype, op, comm);
}

KOLO_MPI_API int MPI_Scan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                          MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Scan, "MPI_Scan");
  if (Carrier *carrier = enter(comm, {count, datatype, op, scansAreOneWay})) {
    const char *whyNot = nullptr;
    Side output = sideOf(recvbuf, count, datatype);
    Side input = sendbuf == MPI_IN_PLACE ? output : sideOf(sendbuf, count, datatype);
    RequestShape shape = combined(CollectiveKind::Scan, {count, datatype, op}, whyNot);
    if (auto code = carryCombination(*carrier, {"MPI_Scan", shape, input, output}, whyNot))
      return *code;
  }
  return next(sendbuf, recvbuf, count, datatype, op, comm);
}

KOLO_MPI_API int MPI_Exscan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                            MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Exscan, "MPI_Exscan");
  if (Carrier *carrier = enter(comm, {count, datatype, op, scansAreOneWay})) {
    const char *whyNot = nullptr;
    // In place, the first rank has its input where the others have their outputs.
    Side input = sideOf(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, datatype);
    Side output = sideOf(recvbuf, count, datatype, carrier->rank() == 0 ? 0 : 1);
    RequestShape shape = combined(CollectiveKind::Exscan, {count, datatype, op}, whyNot);
    if (auto code = carryCombination(*carrier, {"MPI_Exscan", shape, input, output}, whyNot))
      return *code;
  }
  return next(sendbuf, recvbuf, count, datatype, op, comm);
}

KOLO_MPI_API int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Bcast, "MPI_Bcast");
  if (Carrier *carrier = enter(comm, {count, datatype, MPI_OP_NULL, true})) {
    bool isRoot = carrier->rank() == root;
    Side output = sideOf(buffer, count, datatype), input = output;
    input.blocks = isRoot ? 1 : 0;
    RequestShape shape = moved(CollectiveKind::Broadcast, bytesOf(count, datatype), root);
    if (auto code = carryMove(*carrier, {"MPI_Bcast", shape, input, output}))
      return *code;
  }
  return next(buffer, count, datatype, root, comm);
}

KOLO_MPI_API int MPI_Gather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                            MPI_Datatype recvtype, int root, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Gather, "MPI_Gather");
  BlockOfCall block = sendbuf == MPI_IN_PLACE ? BlockOfCall{recvcount, recvtype} : BlockOfCall{sendcount, sendtype};
  block.isOneWay = true;
  if (Carrier *carrier = enter(comm, block)) {
    bool isRoot = carrier->rank() == root, isInPlace = isRoot && sendbuf == MPI_IN_PLACE;
    Side output = sideOf(recvbuf, recvcount, recvtype, isRoot ? carrier->size() : 0);
    Side input = isInPlace ? sideOf(blockOf(recvbuf, root, recvcount, recvtype), recvcount, recvtype)
                           : sideOf(sendbuf, sendcount, sendtype);
    RequestShape shape = moved(CollectiveKind::Gather, bytesOf(input.count, input.type), root);
    if (auto code = carryMove(*carrier, {"MPI_Gather", shape, input, output}))
      return *code;
  }
  return next(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

KOLO_MPI_API int MPI_Scatter(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                             MPI_Datatype recvtype, int root, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Scatter, "MPI_Scatter");
  BlockOfCall block = recvbuf == MPI_IN_PLACE ? BlockOfCall{sendcount, sendtype} : BlockOfCall{recvcount, recvtype};
  block.isOneWay = true;
  if (Carrier *carrier = enter(comm, block)) {
    bool isRoot = carrier->rank() == root, isInPlace = isRoot && recvbuf == MPI_IN_PLACE;
    Side input = sideOf(sendbuf, sendcount, sendtype, isRoot ? carrier->size() : 0);
    Side output = isInPlace ? sideOf(blockOf(sendbuf, root, sendcount, sendtype), sendcount, sendtype)
                            : sideOf(recvbuf, recvcount, recvtype);
    RequestShape shape = moved(CollectiveKind::Scatter, bytesOf(output.count, output.type), root);
    if (auto code = carryMove(*carrier, {"MPI_Scatter", shape, input, output}))
      return *code;
  }
  return next(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}

KOLO_MPI_API int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                               MPI_Datatype recvtype, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Allgather, "MPI_Allgather");
  if (Carrier *carrier = enter(comm, {recvcount, recvtype})) {
    Side output = sideOf(recvbuf, recvcount, recvtype, carrier->size());
    Side input = sendbuf == MPI_IN_PLACE
                     ? sideOf(blockOf(recvbuf, carrier->rank(), recvcount, recvtype), recvcount, recvtype)
                     : sideOf(sendbuf, sendcount, sendtype);
    RequestShape shape = moved(CollectiveKind::AllGather, bytesOf(recvcount, recvtype));
    if (auto code = carryMove(*carrier, {"MPI_Allgather", shape, input, output}))
      return *code;
  }
  return next(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

KOLO_MPI_API int MPI_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                              MPI_Datatype recvtype, MPI_Comm comm) {
  static auto *const next = nextDefinition(&MPI_Alltoall, "MPI_Alltoall");
  if (Carrier *carrier = enter(comm, {recvcount, recvtype})) {
    Side output = sideOf(recvbuf, recvcount, recvtype, carrier->size());
    Side input = sendbuf == MPI_IN_PLACE ? output : sideOf(sendbuf, sendcount, sendtype, carrier->size());
    RequestShape shape = moved(CollectiveKind::AllToAll, bytesOf(recvcount, recvtype));
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
