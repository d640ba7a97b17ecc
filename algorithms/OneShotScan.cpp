// One-shot scan: every rank sends its input to all ranks after it, and these combine what they get.
// Steps 1.  Bytes sent per rank at most S (N-1).  Scratch 0.   (N ranks, S bytes of input)
// Use when messages are tiny and inputs are published.  Not when bandwidth counts: see ChainScan.
// Source: MPI 4.0, section 6.11, the definition of MPI_Scan.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(oneShotScan, Scan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  c.when(me[d] == 0, [&] { c.copy(in, out); });
  combineLower(c, d, in, out);
  c.when(me[d] > 0, [&] { c.reduce(in, out); });
}
