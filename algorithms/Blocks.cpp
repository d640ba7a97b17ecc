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

void passUp(Choreography &c, const Dim &dim, const std::function<void(const Index &piece)> &statements,
            Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank();
  c.loop(dim.size() + numChainPieces - 2, [&](Index step) {
    Index piece = step - me[dim];
    c.when(piece >= 0 && piece < numChainPieces && me[dim] < dim.size() - 1, [&] { statements(piece); });
  });
}

void recursiveDoublingScan(Choreography &c, const Dim &dim, int first, const Buffer &sums, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank();
  c.loop(ceilLog2(max(dim.size() - first, 1)), [&](Index step) {
    Index distance = pow2(step);
    c.when(me[dim] >= first && me[dim] + distance < dim.size(),
           [&] { c.send(sums).to(me.next(dim, distance)).reduce(); });
  });
}

void combineLower(Choreography &c, const Dim &dim, const Buffer &from, const Buffer &into, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank(), others = me.others(dim);
  c.when(me[dim] == 0, [&] { c.send(from).to(others).at(into); });
  c.when(me[dim] > 0 && me[dim] < others[dim], [&] { c.send(from).to(others).at(into).reduce(); });
}

Condition isPowerOfTwo(const Dim &dim) { return dim.size() == pow2(log2(dim)); }

/// Of an alternating butterfly: the sum of (-2)^0 to (-2)^step.
static Index alternatingDistance(const Index &step) { return (1 + pow2(step + 1) * (1 - 2 * (step % 2))) / 3; }

AlternatingButterfly::AlternatingButterfly(const Choreography &c, const Dim &dim, int direction, const Index &origin)
    : dim(dim), me(c.rank()), direction(direction), origin(origin), steps(log2(dim)) {}

// Steps after step s lead to coordinates alike modulo 2^(s+2), up to the peer of an even one: so bit s+1 of the even
// one says which half of the blocks a pair is left with. The last step tells even from odd.
Index AlternatingButterfly::blockOf(const Index &coordinate) const {
  Index isOdd = coordinate % 2;
  Index even = (coordinate - isOdd * alternatingDistance(steps - 1)) % dim.size();
  return reverseBits(even / 2 + isOdd * (dim.size() / 2), steps);
}

Selector AlternatingButterfly::held(const Rank &rank, const Index &numSteps) const {
  Index length = dim.size() / pow2(min(numSteps, steps));
  return range(blockOf(coordinate(rank)) / length * length, length);
}

void AlternatingButterfly::exchange(Choreography &c, const Index &step,
                                    const std::function<void(const Rank &peer)> &statements) const {
  for (int parity : {0, 1}) {
    Index distance = direction * (1 - 2 * parity) * alternatingDistance(step);
    c.when(coordinate(me) % 2 == parity, [&] { statements(me.next(dim, distance)); });
  }
}

void alternatingReduceScatter(Choreography &c, const AlternatingButterfly &butterfly, const Blocks &blocks,
                              Location caller) {
  CalledFrom scope(c, caller);
  c.loop(butterfly.numSteps(), [&](Index step) {
    butterfly.exchange(c, step,
                       [&](const Rank &peer) { c.send(blocks(butterfly.held(peer, step + 1))).to(peer).reduce(); });
  });
}

void alternatingAllGather(Choreography &c, const AlternatingButterfly &butterfly, const Blocks &blocks,
                          Location caller) {
  CalledFrom scope(c, caller);
  c.loop(butterfly.numSteps(), [&](Index i) {
    Index step = butterfly.numSteps() - 1 - i;
    butterfly.exchange(c, step, [&](const Rank &peer) { c.send(blocks(butterfly.held(c.rank(), step + 1))).to(peer); });
  });
}

MultiplyingGroups::MultiplyingGroups(Choreography &c, const Dim &dim, int radix, const Index &origin, Location caller)
    : dim(dim), me(c.rank()), radix(radix), own((me[dim] - origin) % dim.size()),
      steps(log(radix, radix * dim.size() - 1)) {
  std::string power = "a power of " + std::to_string(radix);
  c.require(dim.size() % pow(radix, log(radix, dim)) == 0,
            radix == 2 ? power + " of ranks"
                       : power + " of ranks, or less than " + std::to_string(radix) + " times one",
            caller);
}

void MultiplyingGroups::exchange(Choreography &c, const Index &step,
                                 const std::function<void(const Rank &peer)> &statements) const {
  const int numOthers = radix - 1;
  c.loop(2 * numOthers, [&](Index i) {
    Index offset = i - numOthers + i / numOthers; // all that are not 0
    Index digitOfPeer = digit(step) + offset;
    c.when(0 <= digitOfPeer && digitOfPeer < size(step), [&] { statements(me.next(dim, offset * stride(step))); });
  });
}

void multiplyingAllGather(Choreography &c, const MultiplyingGroups &groups, const Blocks &blocks, Location caller) {
  CalledFrom scope(c, caller);
  c.loop(groups.numSteps(), [&](Index step) {
    groups.exchange(c, step, [&](const Rank &peer) { c.send(blocks(groups.gathered(step))).to(peer); });
  });
}

Condition InOrderTree::isBelowLarger(const Index &label, const Index &level) const {
  Index bit = pow2(level);
  return label % (4 * bit) == bit && label + bit <= size;
}

/// Where the larger label does not exist, a node is below the parent of that one.
Condition InOrderTree::isBelowSmaller(const Index &label, const Index &level) const {
  Index bit = pow2(level);
  return label <= size && (label % (4 * bit) == 3 * bit || (label % (4 * bit) == bit && label + bit > size));
}

void InOrderTree::sendUp(Choreography &c, const Index &level,
                         const std::function<void(const Rank &parent)> &statements) const {
  c.when(isBelowLarger(label(me), level), [&] { statements(me.next(dim, pow2(level))); });
  c.when(isBelowSmaller(label(me), level), [&] { statements(me.next(dim, 0 - pow2(level))); });
}

void InOrderTree::sendDown(Choreography &c, const Index &level,
                           const std::function<void(const Rank &child)> &statements) const {
  Index bit = pow2(level);
  Index own = label(me);
  c.when(own > bit && isBelowLarger(own - bit, level), [&] { statements(me.next(dim, 0 - bit)); });
  c.when(own >= 1 && isBelowSmaller(own + bit, level), [&] { statements(me.next(dim, bit)); });
}

AggregatedTrees::AggregatedTrees(const Dim &dim, int aggregate)
    : ranks(dim.size()), low(pow2(max(ceilLog2(dim) - log2(aggregate), 0))) {}

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
