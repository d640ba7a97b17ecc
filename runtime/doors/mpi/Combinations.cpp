#include "Combinations.h"

#include "ElementKernels.h"

#include <algorithm>
#include <array>

namespace kolo::mpi {
namespace {

using runtime::DataType;
using runtime::Reduction;

std::optional<Operation> operationOf(MPI_Op handle) {
  const std::pair<MPI_Op, Operation> all[] = {{MPI_SUM, Operation::Sum},
                                              {MPI_MAX, Operation::Max},
                                              {MPI_MIN, Operation::Min},
                                              {MPI_PROD, Operation::Product},
                                              {MPI_LAND, Operation::And},
                                              {MPI_LOR, Operation::Or},
                                              {MPI_LXOR, Operation::Xor},
                                              {MPI_BAND, Operation::BitAnd},
                                              {MPI_BOR, Operation::BitOr},
                                              {MPI_BXOR, Operation::BitXor},
                                              {MPI_MINLOC, Operation::MinLocation},
                                              {MPI_MAXLOC, Operation::MaxLocation}};
  for (const auto &[predefined, operation] : all)
    if (handle == predefined)
      return operation;
  return std::nullopt;
}

std::optional<Reduction> reductionOf(Operation operation) {
  switch (operation) {
  case Operation::Sum:
    return Reduction::Sum;
  case Operation::Product:
    return Reduction::Product;
  case Operation::Min:
    return Reduction::Min;
  case Operation::Max:
    return Reduction::Max;
  default:
    return std::nullopt;
  }
}

/// Kolo's own type for elements; nothing: it has none.
std::optional<DataType> dataTypeOf(Element element) {
  static const auto types = [] {
    std::array<std::optional<DataType>, numElements> all;
    for (size_t i = 0; i < numElements; ++i)
      all[i] = runtime::parseDataType(nameOf(Element(i)));
    return all;
  }();
  return types[size_t(element)];
}

bool isLogical(Operation operation) {
  return operation == Operation::And || operation == Operation::Or || operation == Operation::Xor;
}

/// The operation and the elements of a kernel, as one number, the same on all ranks.
int32_t numberOf(Operation operation, Element element) { return int32_t(operation) << 8 | int32_t(element); }

} // namespace

std::optional<CarriedReduction> combinationOf(MPI_Op handle, MPI_Datatype type, const char *&whyNot) {
  const std::optional<Operation> operation = operationOf(handle);
  if (!operation) {
    whyNot = "other operation";
    return std::nullopt;
  }
  whyNot = "other type";
  const BasicType *basic = findBasicType(type);
  const std::optional<Element> element = basic ? basic->element : findPair(type);
  if (!element || (isLogical(*operation) && basic && basic->isOfFortran))
    return std::nullopt;
  CarriedReduction combination;
  const std::optional<Reduction> reduction = reductionOf(*operation);
  if (const std::optional<DataType> known = dataTypeOf(*element); known && reduction) {
    combination.type = *known;
    combination.reduction = *reduction;
  } else {
    combination.custom = {kernelOf(*operation, *element), sizeBytes(*element), numberOf(*operation, *element)};
    if (!combination.custom.kernel)
      return std::nullopt;
  }
  whyNot = nullptr;
  return combination;
}

std::string nameOf(const CarriedReduction &combination) {
  const auto &[type, reduction, custom] = combination;
  if (!custom.kernel)
    return std::string(runtime::toString(reduction)) + " of " + runtime::toString(type);
  return std::string(nameOf(Operation(custom.number >> 8))) + " of " + nameOf(Element(custom.number & 0xff));
}

} // namespace kolo::mpi
