// Recursive-doubling scan and exscan: in every step, each rank sends what it has combined to a rank twice as far up.
// Steps ceil(log2 N), exscan 1 + ceil(log2(N-1)).  Bytes sent per rank S a step.  Scratch 0.   (N ranks, S of input)
// Use when latency-bound.  Not when bandwidth-bound: see ChainScan.
// Source: Hillis and Steele, CACM 1986.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

/// `sums` holds an input on all ranks from the one with coordinate `first` on, and then their scan.
static void scanFrom(Choreography &c, const Dim &dim, int first, const Buffer &sums) {
  Rank me = c.rank();
  c.loop(ceilLog2(max(dim.size() - first, 1)), [&](Index step) {
    Index distance = pow2(step);
    c.when(me[dim] >= first && me[dim] + distance < dim.size(),
           [&] { c.send(sums).to(me.next(dim, distance)).reduce(); });
  });
}

KOLO_COLLECTIVE(recursiveDoublingScan, Scan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  scanFrom(c, d, 0, c.inPlace());
}

KOLO_COLLECTIVE(recursiveDoublingExscan, Exscan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.output();
  c.when(me[d] < d.size() - 1, [&, d = d] { c.send(c.input()).to(me.next(d)).at(out); });
  scanFrom(c, d, 1, out);
}
