// Staged broadcast: the root copies the data to scratch memory, from where all other ranks read them.
// Steps 1.  Bytes sent per rank S (N-1) at the root, else 0.  Scratch S.   (N ranks, S bytes of input)
// Use when peers cannot reach the input, with --transfers pull --pipeline 4.  Not when they can: see DirectBroadcast.
// Source: Graham and Shipman, EuroPVM/MPI 2008, fragments in shared memory.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(stagedBroadcast, Broadcast, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), staged = c.scratch("staged", in);
  c.when(me == c.root(), [&] {
    c.copy(in, out);
    c.copy(in, staged);
    c.send(staged).to(me.others(d)).at(out);
  });
}
