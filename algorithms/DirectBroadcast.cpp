// Direct broadcast: all ranks read the data from the root at once.
// Steps 1.  Bytes sent per rank S (N-1) at the root, else 0.  Scratch 0.   (N ranks, S bytes of input)
// Use when ranks share memory, where each reads at full speed.  Not over links: see ScatterAllGatherBroadcast.
// Source: MPI 4.0, section 6.4, the definition of MPI_Bcast.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(directBroadcast, Broadcast, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output();
  c.when(me == c.root(), [&] {
    c.copy(in, out);
    c.send(in).to(me.others(d)).at(out);
  });
}
