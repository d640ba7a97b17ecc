// Binomial scatter: blocks move away from the root together, over half the distance in every step.
// Steps ceil(log2 N).  Bytes sent per rank at most S (N-1)/N, at the root.  Scratch S.   (N ranks, S bytes of input)
// Use when latency-bound with many ranks.  Not when blocks are large: see DirectScatter.
// Source: Chan, Heimlich, Purkayastha and van de Geijn, CCPE 2007, minimum spanning tree.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(binomialScatter, Scatter, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), stage = c.scratch("stage", in); // only the root has an input
  BinomialTree tree(c, d);
  c.loop(tree.numRounds(), [&](Index round) {
    Index reach = tree.reachDownwards(round);
    Selector blocks = tree.subtreeOfChild(reach);
    Condition isParent = tree.isParent(reach);
    c.when(isParent && tree.isRoot(), [&] { c.send(in[blocks]).to(tree.child(reach)).at(stage[blocks]); });
    c.when(isParent && !tree.isRoot(), [&] { c.send(stage[blocks]).to(tree.child(reach)); });
  });
  c.when(tree.isRoot(), [&] { c.copy(in[me], out); });
  c.when(!tree.isRoot(), [&] { c.copy(stage[me], out); });
}
