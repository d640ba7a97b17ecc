// Binomial broadcast: in every step, every rank with the data passes it on, over half the distance of the step before.
// Steps ceil(log2 N).  Bytes sent per rank at most S ceil(log2 N).  Scratch 0.   (N ranks, S bytes of input)
// Use when latency-bound.  Not when bandwidth-bound: see ScatterAllGatherBroadcast.
// Source: Chan, Heimlich, Purkayastha and van de Geijn, CCPE 2007, minimum spanning tree.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(binomialBroadcast, Broadcast, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace();
  BinomialTree tree(c, d);
  c.loop(tree.numRounds(), [&](Index round) {
    Index reach = tree.reachDownwards(round);
    c.when(tree.isParent(reach), [&] { c.send(out).to(tree.child(reach)); });
  });
}
