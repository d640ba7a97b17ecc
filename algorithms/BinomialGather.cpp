// Binomial gather: blocks move towards the root together, over twice the distance in every step.
// Steps ceil(log2 N).  Bytes sent per rank at most S/2.  Scratch S.   (N ranks, S bytes of output)
// Use when latency-bound with many ranks.  Not when blocks are large: see DirectGather.
// Source: Chan, Heimlich, Purkayastha and van de Geijn, CCPE 2007, minimum spanning tree.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(binomialGather, Gather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), stage = c.scratch("stage", out); // only the root has an output
  BinomialTree tree(c, d);
  c.when(tree.isRoot(), [&] { c.copy(in, out[me]); });
  c.when(!tree.isRoot(), [&] { c.copy(in, stage[me]); });
  c.loop(tree.numRounds(), [&](Index round) {
    Index reach = tree.reachUpwards(round);
    Selector blocks = tree.subtree(reach);
    c.when(tree.isChildOfRoot(reach), [&] { c.send(stage[blocks]).to(tree.parent(reach)).at(out[blocks]); });
    c.when(tree.isChild(reach) && !tree.isChildOfRoot(reach), [&] { c.send(stage[blocks]).to(tree.parent(reach)); });
  });
}
