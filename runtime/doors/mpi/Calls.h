// Calls: what the functions of MPI that the door takes have in common.
#pragma once

#include "Carrier.h"

#include "kolo/runtime/Export.h"

#include <dlfcn.h>

#define KOLO_MPI_API extern "C" KOLO_RUNTIME_API

namespace kolo::mpi {

/// The definition of a function that would be taken without the door.
template <class Function> Function *nextDefinition(Function *, const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

/// The carrier of a communicator on which calls may be carried now. All ranks of the communicator call it alike, with
/// blocks of as many bytes. Default: the call has no data.
Carrier *enter(MPI_Comm communicator, const BlockOfCall &block = {});

/// What a call counts as whose blocks have counts of their own: no rank knows those of all.
inline const BlockOfCall blockOfAnySize = {64 << 10, MPI_BYTE};

/// The carrier of a communicator, for a call that returns at once. It is not counted among those after which ranks
/// connect.
Carrier *enterAtOnce(MPI_Comm communicator);

/// From one element to the next one. 0: MPI will refuse the type.
MPI_Aint extentOf(MPI_Datatype type);

/// Data that only moves, in bytes.
RequestShape moved(runtime::CollectiveKind kind, int64_t sizeBytes, int root = 0);

/// What is combined, and how.
struct Combined {
  int count;
  MPI_Datatype type;
  MPI_Op operation;
};
/// `whyNot`: this reduction is not carried, on any rank.
RequestShape combined(runtime::CollectiveKind kind, const Combined &data, const char *&whyNot, int root = 0);

} // namespace kolo::mpi
