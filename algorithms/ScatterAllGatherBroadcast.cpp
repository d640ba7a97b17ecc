// Scatter-all-gather broadcast: a binomial tree scatters the root's data, then a ring gathers it.
// Steps ceil(log2 N) + N-1.  Bytes sent per rank at most 2 S (N-1)/N.  Scratch 0.   (N ranks, S bytes of input)
// Use when bandwidth-bound.  Not when latency-bound: see BinomialBroadcast.
// Source: Barnett, Shuler, van de Geijn, Gupta, Payne and Watts, InterCom, SHPCC 1994.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(scatterAllGatherBroadcast, Broadcast, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace().grid(d);
  BinomialTree tree(c, d);
  c.loop(tree.numRounds(), [&](Index round) {
    Index reach = tree.reachDownwards(round);
    c.when(tree.isParent(reach), [&] { c.send(out[tree.subtreeOfChild(reach)]).to(tree.child(reach)); });
  });
  ringAllGather(c, d, out);
}
