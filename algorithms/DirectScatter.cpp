// Direct scatter: the root sends every rank its block.
// Steps 1.  Bytes sent per rank S (N-1)/N at the root, else 0.  Scratch 0.   (N ranks, S bytes of input)
// Use when blocks are large or N is small.  Not when latency-bound with many ranks: see BinomialScatter.
// Source: MPI 4.0, section 6.6, the definition of MPI_Scatter.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(directScatter, Scatter, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank(), peer = me.others(d);
  Buffer in = c.input(), out = c.output();
  c.when(me == c.root(), [&] {
    c.copy(in[me], out);
    c.send(in[peer]).to(peer).at(out);
  });
}
