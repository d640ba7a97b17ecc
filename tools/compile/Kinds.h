// From the language's kinds of collective to the runtime's. Used by the tools.
#pragma once

#include "kolo/runtime/Types.h"
#include <kolo/dsl/Collective.h>

namespace kolo::tools {

runtime::CollectiveKind kindOf(const dsl::Collective &collective);

} // namespace kolo::tools
