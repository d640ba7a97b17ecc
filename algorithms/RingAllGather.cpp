// Ring all-gather: every block travels once around one ring.
// Steps N-1.  Bytes sent per rank S (N-1)/N.  Scratch 0.   (N ranks, S bytes of output)
// Use when bandwidth-bound.  Not when latency-bound: see BruckAllGather, RecursiveDoublingAllGather.
// Source: Chan, Heimlich, Purkayastha and van de Geijn, CCPE 2007, bucket algorithm.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(ringAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.output();
  c.copy(c.input(), out[c.rank()]);
  ringAllGather(c, d, out);
}
