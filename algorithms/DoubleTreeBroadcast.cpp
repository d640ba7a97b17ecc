// Double-binary-tree broadcast: two trees each bring half of every chunk from the root to all ranks.
// Steps about 2 log2 N.  Bytes sent per rank at most S.  Scratch 0.   (N ranks, S bytes of input)
// Use when messages are of medium size and ranks many.  Not when tiny: see BinomialBroadcast.
// Source: Sanders, Speck and Traeff, Parallel Computing 2009, two trees; every rank is a leaf of at least one.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

// The inner nodes of both trees have even labels. A rank has labels that follow each other.
KOLO_COLLECTIVE(doubleTreeBroadcast, Broadcast, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.inPlace();
  Index root = c.root()[d];
  c.stripe(2, [&, d = d](int variant) {
    const int first = 1 - variant; // label of the collective's root: a leaf that needs nothing, or above the tree
    InOrderTree tree(c, d, [=](const Rank &rank) { return (rank[d] - root) % d.size() + first; }, d.size() - variant);
    c.when(d.size() > 1 && me[d] == root, [&] { c.send(out).to(me.next(d, tree.root() - first)); });
    c.loop(tree.numLevels(), [&](Index i) {
      tree.sendDown(c, tree.numLevels() - 1 - i,
                    [&](const Rank &child) { c.when(child[d] != root, [&] { c.send(out).to(child); }); });
    });
  });
}
