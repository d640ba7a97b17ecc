// One-shot exscan: every rank sends its input to all ranks after it, and these combine what they get.
// Steps 1.  Bytes sent per rank at most S (N-1).  Scratch 0.   (N ranks, S bytes of input)
// Use when messages are tiny and inputs are published.  Not when bandwidth counts: see ChainExscan.
// Source: MPI 4.0, section 6.11, the definition of MPI_Exscan.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(oneShotExscan, Exscan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  combineLower(c, d, c.input(), c.output());
}
