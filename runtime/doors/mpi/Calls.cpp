#include "Calls.h"

#include "Combinations.h"
#include "Process.h"

namespace kolo::mpi {

using runtime::CollectiveKind;

Carrier *enter(MPI_Comm communicator, const BlockOfCall &block) {
  if (!mayCarry())
    return nullptr;
  Carrier *carrier = carrierOf(communicator);
  return carrier && carrier->enter(block) ? carrier : nullptr;
}

Carrier *enterAtOnce(MPI_Comm communicator) { return mayCarry() ? carrierOf(communicator) : nullptr; }

MPI_Aint extentOf(MPI_Datatype type) {
  MPI_Aint least = 0, extent = 0;
  if (const BasicType *basic = findBasicType(type)) [[likely]]
    return basic->sizeBytes;
  if (type != MPI_DATATYPE_NULL)
    PMPI_Type_get_extent(type, &least, &extent);
  return extent;
}

RequestShape moved(CollectiveKind kind, int64_t sizeBytes, int root) {
  RequestShape shape;
  shape.kind = kind;
  shape.count = sizeBytes;
  shape.root = root;
  return shape;
}

RequestShape combined(CollectiveKind kind, const Combined &data, const char *&whyNot, int root) {
  RequestShape shape;
  shape.kind = kind;
  shape.root = root;
  const std::optional<CarriedReduction> combination = combinationOf(data.operation, data.type, whyNot);
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

} // namespace kolo::mpi
