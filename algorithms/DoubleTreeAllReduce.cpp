// Double-binary-tree all-reduce: two trees each reduce half of every chunk to their roots, and broadcast it back.
// Steps about 4 log2 N.  Bytes sent per rank at most 2 S.  Scratch 0.   (N ranks, S bytes of input)
// Use when messages are of medium size and ranks many.  Not when bandwidth-bound with few ranks: see RingAllReduce.
// Source: Sanders, Speck and Traeff, Parallel Computing 2009, two trees; every rank is a leaf of at least one.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

// The inner nodes of both trees have even labels. A rank has labels that follow each other.
KOLO_COLLECTIVE(doubleTreeAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.inPlace();
  c.stripe(2, [&, d = d](int variant) {
    const int first = 1 - variant; // label of rank 0; in the second tree it is the root's parent
    InOrderTree tree(c, d, [=](const Rank &rank) { return rank[d] + first; }, d.size() - variant);
    c.loop(tree.numLevels(),
           [&](Index level) { tree.sendUp(c, level, [&](const Rank &parent) { c.send(out).to(parent).reduce(); }); });
    if (variant == 1) {
      c.when(d.size() > 1 && me[d] == tree.root(), [&] { c.send(out).to(me.next(d, 0 - tree.root())).reduce(); });
      c.when(d.size() > 1 && me[d] == 0, [&] { c.send(out).to(me.next(d, tree.root())); });
    }
    c.loop(tree.numLevels(), [&](Index i) {
      tree.sendDown(c, tree.numLevels() - 1 - i, [&](const Rank &child) { c.send(out).to(child); });
    });
  });
}
