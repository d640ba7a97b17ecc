// Ring reduce-scatter: every block travels once around one ring, collecting every rank's contribution.
// Steps N-1.  Bytes sent per rank S (N-1)/N.  Scratch S.   (N ranks, S bytes of input)
// Use when bandwidth-bound.  Not when latency-bound: see RecursiveHalvingReduceScatter, AllPairsReduceScatter.
// Source: Chan, Heimlich, Purkayastha and van de Geijn, CCPE 2007, bucket algorithm.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(ringReduceScatter, ReduceScatter, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), partial = c.scratch("partial", in);
  // A partial result lands at a place of its own, and is combined there.
  c.copy(in[me[d] - 1], partial[me[d] - 1]);
  c.loop(d.size() - 1, [&, d = d](Index step) {
    c.send(partial[me[d] - 1 - step]).to(me.next(d));
    c.reduce(in[me[d] - 2 - step], partial[me[d] - 2 - step]);
  });
  c.copy(partial[me], c.output());
}
