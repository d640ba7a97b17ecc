// One-shot scan and exscan: every rank sends its input to all ranks after it, which combine in the order of ranks.
// Steps 1.  Bytes sent per rank at most S (N-1).  Scratch 0.   (N ranks, S bytes of input)
// Use when messages are tiny and inputs are published.  Not when bandwidth counts: see ChainScan.
// Source: MPI 4.0, section 6.11, the definition of MPI_Scan.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

/// Combines, on every rank but the first, the inputs of all ranks before it.
static void combineBefore(Choreography &c, const Dim &dim) {
  Rank me = c.rank(), others = me.others(dim);
  Buffer in = c.input(), out = c.output();
  c.when(me[dim] == 0, [&] { c.send(in).to(others).at(out); });
  c.when(me[dim] > 0 && me[dim] < others[dim], [&] { c.send(in).to(others).at(out).reduce(); });
}

KOLO_COLLECTIVE(oneShotScan, Scan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  c.when(me[d] == 0, [&] { c.copy(c.input(), c.output()); });
  combineBefore(c, d);
  c.when(me[d] > 0, [&] { c.reduce(c.input(), c.output()); });
}

KOLO_COLLECTIVE(oneShotExscan, Exscan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  combineBefore(c, d);
}
