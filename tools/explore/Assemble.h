// From a structure that exploration found to a choreography, made of the building blocks that the shipped algorithms
// are made of.
#pragma once

#include "kolo/dsl/Registry.h"
#include "tools/explore/Structure.h"

namespace kolo::tools {

/// Its body holds a copy of the structure. The collective is one that `explore::enumerate` has structures for.
dsl::Definition assemble(const explore::Structure &structure);

} // namespace kolo::tools
