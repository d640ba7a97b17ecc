#include "Packing.h"

namespace kolo::mpi {
namespace {

/// What MPI_Pack and MPI_Unpack are given for the elements of a side. They need a pointer, and MPI_BOTTOM is null. So a
/// datatype of absolute addresses is moved, and the pointer is moved back.
struct Elements {
  explicit Elements(const Side &side) : memory(side.memory), count(side.count * side.blocks), type(side.type) {
    int sizeBytes = 0;
    PMPI_Type_size(type, &sizeBytes);
    packedBytes = sizeBytes * count;
    isMoved = memory == MPI_BOTTOM;
    if (!isMoved)
      return;
    constexpr MPI_Aint distance = 4096;
    const MPI_Aint back = -distance;
    PMPI_Type_create_hindexed(1, &count, &back, side.type, &type);
    PMPI_Type_commit(&type);
    memory = reinterpret_cast<void *>(distance);
    count = 1;
  }
  ~Elements() {
    if (isMoved)
      PMPI_Type_free(&type);
  }
  Elements(const Elements &) = delete;
  Elements &operator=(const Elements &) = delete;

  void *memory;
  int count;
  MPI_Datatype type;
  int packedBytes = 0;
  bool isMoved = false;
};

} // namespace

int pack(const Side &side, std::byte *to, MPI_Comm owner) {
  const Elements elements(side);
  int position = 0;
  return PMPI_Pack(elements.memory, elements.count, elements.type, to, elements.packedBytes, &position, owner);
}

int unpack(const std::byte *from, const Side &side, MPI_Comm owner) {
  const Elements elements(side);
  int position = 0;
  return PMPI_Unpack(from, elements.packedBytes, &position, elements.memory, elements.count, elements.type, owner);
}

} // namespace kolo::mpi
