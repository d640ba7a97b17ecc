// Binomial reduce: partial results move towards the root, over twice the distance in every step.
// Steps ceil(log2 N).  Bytes sent per rank S.  Scratch S.   (N ranks, S bytes of input)
// Use when latency-bound.  Not when bandwidth-bound: the root receives S ceil(log2 N) bytes.
// Source: Chan, Heimlich, Purkayastha and van de Geijn, CCPE 2007, minimum spanning tree.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(binomialReduce, Reduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer in = c.input(), out = c.output(), partial = c.scratch("partial", in); // only the root has an output
  BinomialTree tree(c, d);
  c.when(tree.isRoot(), [&] { c.copy(in, out); });
  c.when(!tree.isRoot(), [&] { c.copy(in, partial); });
  c.loop(tree.numRounds(), [&](Index round) {
    Index reach = tree.reachUpwards(round);
    c.when(tree.isChildOfRoot(reach), [&] { c.send(partial).to(tree.parent(reach)).at(out).reduce(); });
    c.when(tree.isChild(reach) && !tree.isChildOfRoot(reach), [&] { c.send(partial).to(tree.parent(reach)).reduce(); });
  });
}
