// Handles: what MPI's predefined datatypes and operations are to Kolo. One source for every MPI library.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "ElementKernels.h"

#include <cstdint>
#include <optional>
#include <type_traits>

namespace kolo::mpi {

/// A handle as a number: handles are pointers in one library and integers in another.
template <class Handle> uint64_t bitsOf(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<uintptr_t>(handle);
  else
    return static_cast<uint32_t>(handle);
}

/// A predefined datatype whose elements follow each other without gaps.
struct BasicType {
  MPI_Datatype handle;
  int64_t sizeBytes;
  std::optional<Element> element; // nothing: Kolo moves it, but cannot combine it
  bool isOfFortran = false;       // or of several languages: MPI defines no logical operation on its integers
};

/// Null: a derived type, or a predefined one with gaps. Never blocks; calls no MPI after the first time.
const BasicType *findBasicType(MPI_Datatype type);

/// Bytes of `count` elements; -1: MPI will say what is wrong with them. Never blocks.
int64_t bytesOf(int count, MPI_Datatype type);

/// Of a predefined pair of a value and its location, which may have gaps. Nothing: it is no such pair, or has more than
/// 16 bytes. Never blocks; calls no MPI after the first time.
std::optional<Element> findPair(MPI_Datatype type);

} // namespace kolo::mpi
