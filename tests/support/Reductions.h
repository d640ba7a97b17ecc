// The reductions that calls of a collective may ask for. Used by the tests of several folders.
#pragma once

#include "ir/Members.h"
#include "ir/reference/Element.h"

namespace kolo::test {

inline llvm::ArrayRef<reference::Reduction> reductionsFor(CollectiveKind kind) {
  const llvm::ArrayRef<reference::Reduction> all = reference::allReductions; // the average is the last one
  return isPrefixReduction(kind) ? all.drop_back() : all;
}

} // namespace kolo::test
