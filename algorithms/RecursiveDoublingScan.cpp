// Recursive-doubling scan: in every step, each rank sends what it has combined to a rank twice as far up.
// Steps ceil(log2 N).  Bytes sent per rank S ceil(log2 N).  Scratch 0.   (N ranks, S bytes of input)
// Use when latency-bound.  Not when bandwidth-bound: see ChainScan.
// Source: Hillis and Steele, CACM 1986.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(recursiveDoublingScan, Scan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  recursiveDoublingScan(c, d, 0, c.inPlace());
}
