// A picture of a machine: the node's devices, switches, NICs and links, and the levels of the network. No MLIR here.
#pragma once

#include "compiler/cost/machine/Machine.h"

namespace kolo::cost {

/// One SVG file without references to others. It follows the reader's preference for light or dark.
std::string drawSvg(const Machine &machine);

} // namespace kolo::cost
