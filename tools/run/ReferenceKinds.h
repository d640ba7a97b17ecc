// The kinds of the runtime as the reference interpreter has them: its lists are its own, on purpose.
#pragma once

#include "ir/reference/Element.h"
#include "kolo/runtime/Types.h"

namespace kolo::tools {

reference::ElementType referenceTypeOf(runtime::DataType type);
reference::Reduction referenceReductionOf(runtime::Reduction reduction);

} // namespace kolo::tools
