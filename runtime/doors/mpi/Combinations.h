// Combinations: what MPI's predefined operations do to elements of its predefined datatypes, as Kolo carries it: by a
// reduction that every plugin has, or by a kernel of this library.
#pragma once

#include "Handles.h"

#include "kolo/runtime/Types.h"

#include <optional>
#include <string>

namespace kolo::mpi {

struct CarriedReduction {
  runtime::DataType type = runtime::DataType::U8;
  runtime::Reduction reduction = runtime::Reduction::Sum;
  runtime::CustomReduction custom = {}; // with a kernel: stands for both
};

/// Nothing: it is not carried, on any rank; `whyNot` is then the reason, in a few words. So it is for operations of the
/// user, for derived datatypes, for elements of more than 16 bytes, and for what MPI does not define. Never blocks.
std::optional<CarriedReduction> combinationOf(MPI_Op operation, MPI_Datatype type, const char *&whyNot);

/// "sum of f32", "maxloc of (f64, i32)".
std::string nameOf(const CarriedReduction &combination);

} // namespace kolo::mpi
