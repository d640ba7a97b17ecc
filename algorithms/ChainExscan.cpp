// Chain exscan: what is combined so far goes from rank to rank, in 16 pieces that follow each other.
// Steps N + 14.  Bytes sent per rank S.  Scratch S.   (N ranks, S bytes of input)
// Use when bandwidth-bound.  Not when latency-bound: see RecursiveDoublingExscan.
// Source: Sanders and Traeff, EuroPVM/MPI 2006, the pipelined linear algorithm.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(chainExscan, Exscan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input().grid(numChainPieces), out = c.output().grid(numChainPieces), sums = c.scratch("sums", in);
  c.copy(in, sums);
  passUp(c, d, [&, d = d](const Index &piece) {
    c.when(me[d] > 0, [&] { c.reduce(out[piece], sums[piece]); });
    c.send(sums[piece]).to(me.next(d)).at(out[piece]);
  });
}
