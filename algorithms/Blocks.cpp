// Phases that several algorithms are made of.
#include "algorithms/Blocks.h"

namespace kolo::algorithms {

Index ceilLog2(const Index &value) { return log2(2 * value - 1); }

void ringAllGather(Choreography &c, const Dim &dim, const Blocks &blocks, int direction, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank();
  c.loop(dim.size() - 1, [&](Index step) { c.send(blocks(me[dim] - direction * step)).to(me.next(dim, direction)); });
}

void recursiveDoublingAllGather(Choreography &c, const Dim &dim, const Blocks &blocks, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank();
  c.loop(log2(dim), [&](Index step) {
    Index have = pow2(step);
    c.send(blocks(range(me[dim] / have * have, have))).to(me.flip(dim, have));
  });
}

void bruckAllGather(Choreography &c, const Dim &dim, const Blocks &blocks, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank();
  c.loop(ceilLog2(dim), [&](Index step) {
    Index have = pow2(step);
    c.send(blocks(range(me[dim], min(have, dim.size() - have)))).to(me.next(dim, 0 - have));
  });
}

void allPairsAllGather(Choreography &c, const Dim &dim, const Blocks &blocks, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank();
  c.send(blocks(me[dim])).to(me.others(dim));
}

void ringReduceScatter(Choreography &c, const Dim &dim, const Blocks &blocks, int direction, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank(), peer = me.next(dim, direction);
  c.loop(dim.size() - 1, [&](Index step) { c.send(blocks(me[dim] - direction * (1 + step))).to(peer).reduce(); });
}

void recursiveHalvingReduceScatter(Choreography &c, const Dim &dim, const Blocks &blocks, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank();
  c.loop(log2(dim), [&](Index step) {
    Index half = pow2(log2(dim) - 1 - step);
    Rank peer = me.flip(dim, half);
    c.send(blocks(range(peer[dim] / half * half, half))).to(peer).reduce();
  });
}

void allPairsReduceScatter(Choreography &c, const Dim &dim, const Blocks &from, const Blocks &into, Location caller) {
  CalledFrom scope(c, caller);
  Rank peer = c.rank().others(dim);
  c.send(from(peer[dim])).to(peer).at(into(peer[dim])).reduce();
}

void slottedRingReduceScatter(Choreography &c, const Dim &dim, const Blocks &blocks, const Blocks &slots, int direction,
                              Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank();
  c.loop(dim.size() - 1, [&](Index step) {
    c.send(blocks(me[dim] - direction * (1 + step))).to(me.next(dim, direction)).at(slots(step));
    c.reduce(slots(step), blocks(me[dim] - direction * (2 + step)));
  });
}

void slottedAllPairsReduceScatter(Choreography &c, const Dim &dim, const Blocks &from, const Blocks &into,
                                  const Blocks &slots, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank(), peer = me.others(dim);
  c.send(from(peer[dim])).to(peer).at(slots(me[dim]));
  c.loop(dim.size() - 1, [&](Index i) { c.reduce(slots(me[dim] + 1 + i), into(me[dim])); });
}

BinomialTree::BinomialTree(const Choreography &c, const Dim &dim)
    : dim(dim), me(c.rank()), distance((me[dim] - c.root()[dim]) % dim.size()), rounds(ceilLog2(dim)) {}

Condition BinomialTree::isParent(const Index &reach) const {
  return distance % (2 * reach) == 0 && distance + reach < dim.size();
}

Condition BinomialTree::isChild(const Index &reach) const { return distance % (2 * reach) == reach; }

Selector BinomialTree::subtree(const Index &reach) const { return range(me[dim], min(reach, dim.size() - distance)); }

Selector BinomialTree::subtreeOfChild(const Index &reach) const {
  return range(me[dim] + reach, min(reach, dim.size() - distance - reach));
}

} // namespace kolo::algorithms
