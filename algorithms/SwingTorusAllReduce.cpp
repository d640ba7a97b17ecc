// Swing all-reduce on a torus: steps take its dimensions in turn; four parts of every chunk begin along other links.
// Steps 2 log2 N.  Bytes sent per rank 2 S (N-1)/N, a quarter over each link.  Scratch 0.
// (N ranks, rows and columns powers of two; S bytes of input)
// Use when ranks are on a torus of two dimensions.  Not when they are on a ring: see SwingAllReduce.
// Source: De Sensi, Bonato, Saam and Hoefler, NSDI 2024, bandwidth-optimal, on four ports.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

namespace {

/// Along two dimensions in turn. Blocks have a number along each.
class TorusButterfly {
public:
  TorusButterfly(Choreography &c, std::array<Dim, 2> dims, size_t first, int direction)
      : c(c), first(first),
        butterflies{AlternatingButterfly(c, dims[0], direction), AlternatingButterfly(c, dims[1], direction)} {}

  void reduceScatter(const Buffer &out) const {
    c.loop(numSteps(), [&](Index step) {
      for (size_t along : {first, 1 - first})
        exchange(along, step, [&](const Rank &peer) { c.send(left(out, along, step, peer)).to(peer).reduce(); });
    });
  }

  void allGather(const Buffer &out) const {
    c.loop(numSteps(), [&](Index i) {
      Index step = numSteps() - 1 - i;
      for (size_t along : {1 - first, first})
        exchange(along, step, [&](const Rank &peer) { c.send(left(out, along, step, c.rank())).to(peer); });
    });
  }

private:
  Index numSteps() const { return max(butterflies[0].numSteps(), butterflies[1].numSteps()); }

  void exchange(size_t along, const Index &step, const std::function<void(const Rank &peer)> &statements) const {
    const AlternatingButterfly &butterfly = butterflies[along];
    c.when(step < butterfly.numSteps(), [&] { butterfly.exchange(c, step, statements); });
  }

  /// What a rank is left with after a step along one dimension: in it, half of what its peer and it had.
  Slice left(const Buffer &out, size_t along, const Index &step, const Rank &rank) const {
    size_t other = 1 - along;
    Selector own = butterflies[along].held(rank, step + 1);
    Selector across = butterflies[other].held(c.rank(), step + int(other == first));
    return along == 0 ? out[{own, across}] : out[{across, own}];
  }

  Choreography &c;
  size_t first;
  std::array<AlternatingButterfly, 2> butterflies;
};

} // namespace

KOLO_COLLECTIVE(swingTorusAllReduce, AllReduce, Mesh("row", "column")) {
  auto [row, column] = c.dims<2>();
  for (const Dim &dim : {row, column})
    c.require(isPowerOfTwo(dim), "powers of two of rows and columns");
  Buffer out = c.inPlace().grid(row, column);
  c.stripe(4, [&, row = row, column = column](int variant) {
    TorusButterfly butterfly(c, {row, column}, size_t(variant % 2), variant < 2 ? 1 : -1);
    butterfly.reduceScatter(out);
    butterfly.allGather(out);
  });
}
