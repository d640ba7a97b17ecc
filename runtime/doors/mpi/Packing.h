// Packing: elements of any datatype as bytes that follow each other, and back. On this rank alone.
#pragma once

#include "Handles.h"

#include <cstddef>

namespace kolo::mpi {

/// Memory of the caller, as MPI describes it: `blocks` times `count` elements of `type`. No blocks: not used here.
struct Side {
  void *memory = nullptr;
  int count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int blocks = 0;
};

/// `owner`: the communicator of the call. They return MPI's codes. The bytes are at most INT_MAX.
int pack(const Side &side, std::byte *to, MPI_Comm owner);
int unpack(const std::byte *from, const Side &side, MPI_Comm owner);

} // namespace kolo::mpi
