// Recursive-doubling exscan: every rank sends its input to the next one; all but the first then scan what they got.
// Steps 1 + ceil(log2(N-1)).  Bytes sent per rank S (1 + ceil(log2(N-1))).  Scratch 0.
// (N ranks, S bytes of input)
// Use when latency-bound.  Not when bandwidth-bound: see ChainExscan.
// Source: Hillis and Steele, CACM 1986.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(recursiveDoublingExscan, Exscan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.output();
  c.when(me[d] < d.size() - 1, [&, d = d] { c.send(c.input()).to(me.next(d)).at(out); });
  recursiveDoublingScan(c, d, 1, out);
}
