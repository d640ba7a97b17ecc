// Registers the dialect, its attributes, its types and its ops.
#include "ir/Kolo.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "KoloDialect.cpp.inc"
#include "KoloEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "KoloAttributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "KoloInterfaces.cpp.inc"
#include "KoloTypes.cpp.inc"

namespace kolo {

void KoloDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "KoloAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "KoloTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "KoloOps.cpp.inc"
      >();
}

LogicalResult CollectiveAttr::verify(function_ref<InFlightDiagnostic()> emitError, CollectiveKind,
                                     ArrayRef<int64_t> groupDims) {
  if (groupDims.empty())
    return emitError() << "a collective runs over at least one mesh dimension";
  if (!llvm::is_sorted(groupDims) || llvm::adjacent_find(groupDims) != groupDims.end())
    return emitError() << "group dimensions must be in increasing order";
  return success();
}

LogicalResult StepAttr::verify(function_ref<InFlightDiagnostic()> emitError, StepKind kind, ArrayRef<int64_t> table) {
  if (kind != StepKind::Mapped)
    return table.empty() ? success() : LogicalResult(emitError() << "only a mapped step has a table");
  SmallVector<bool> seen(table.size(), false);
  for (int64_t entry : table) {
    if (entry < 0 || entry >= int64_t(table.size()) || seen[entry])
      return emitError() << "a mapped step's table must be a permutation of 0 to its size - 1, or it has no inverse";
    seen[entry] = true;
  }
  return success();
}

} // namespace kolo
