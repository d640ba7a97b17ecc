// Direct gather: every rank sends its block to the root.
// Steps 1.  Bytes sent per rank S/N.  Scratch 0.   (N ranks, S bytes of output)
// Use when blocks are large or N is small.  Not when latency-bound with many ranks: see BinomialGather.
// Source: MPI 4.0, section 6.5, the definition of MPI_Gather.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(directGather, Gather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  c.send(c.input()).to(me.at(d, c.root()[d])).at(c.output()[me]); // the root to itself, too
}
