// Direct reduce: every rank sends its input to the root, which combines them.
// Steps 1.  Bytes sent per rank S.  Scratch 0.   (N ranks, S bytes of input)
// Use when N or the data is small.  Not when bandwidth-bound or N is large: the root receives S (N-1) bytes.
// Source: MPI 4.0, section 6.9, the definition of MPI_Reduce.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(directReduce, Reduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank(), root = c.root();
  Buffer in = c.input(), out = c.output();
  c.when(me == root, [&] { c.copy(in, out); });
  c.when(!(me == root), [&, d = d] { c.send(in).to(me.at(d, root[d])).at(out).reduce(); });
}
