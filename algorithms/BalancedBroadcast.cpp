// Balanced broadcast: the root writes one part in N to the other ranks, while these read all other parts from it.
// Steps 1.  Bytes sent per rank S (N-1) at the root, else 0.  Scratch 0.   (N ranks, S bytes of input)
// Use when few ranks share memory: each moves S (N-1)/N bytes.  Not over links: see ScatterAllGatherBroadcast.
// Source: MPI 4.0, section 6.4, the definition of MPI_Bcast.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(balancedBroadcast, Broadcast, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input().grid(d), out = c.output().grid(d);
  auto others = range(1, d.size() - 1);
  c.when(me == c.root(), [&] {
    c.copy(in, out);
    c.send(in[others]).to(me.others(d)).at(out[others]); // read: the input is there from the beginning
    c.send(out[0]).to(me.others(d));                     // written
  });
}
