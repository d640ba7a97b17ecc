// PAT reduce-scatter: partial results go up all ranks' binomial trees, near first; eight trees send together.
// Steps ceil(log2 N), about N/8 + 3 beyond 16 ranks.  Bytes sent per rank S (N-1)/N.  Scratch 8 (log2 (N/8) + 2) S/N.
// (N ranks, S bytes of input)
// Use when latency-bound, for any N, and memory is short.  Not when bandwidth-bound: see RingReduceScatter.
// Source: Jeaugey, PAT, arXiv 2506.20252, 2025; NCCL 2.23.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(patReduceScatter, ReduceScatter, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  constexpr int aggregate = 8;
  AggregatedTrees trees(d, aggregate);
  Index top = trees.numLevels();
  Buffer in = c.input(), partial = c.blocks("partial", {top + 1, aggregate});
  Buffer packed = c.blocks("packed", aggregate / 2), arrived = c.blocks("arrived", aggregate / 2);
  auto begin = [&, d = d](const Index &low) { // with this rank's contributions
    c.loop(trees.numWith(low),
           [&](Index high) { c.copy(in[me[d] - high * trees.numLow() - low], partial[{trees.level(low), high}]); });
  };

  begin(0);
  c.loop(trees.numLow() - 1, [&, d = d](Index i) {
    Index low = trees.numLow() - 1 - i, reach = trees.lowestBit(low), count = trees.numWith(low);
    c.when(reach == 1, [&] { begin(low); });                         // a leaf
    c.when(low / (2 * reach) % 2 == 1, [&] { begin(low - reach); }); // its first child sends now
    c.send(partial[{trees.level(low), range(0, count)}])
        .to(me.next(d, 0 - reach))
        .at(partial[{trees.level(low - reach), range(0, count)}])
        .reduce();
  });
  c.loop(ceilLog2(trees.numHigh()), [&, d = d](Index step) {
    Index reach = pow2(step), count = (trees.numHigh() + reach - 1) / (2 * reach);
    c.loop(count, [&](Index j) { c.copy(partial[{top, (2 * j + 1) * reach}], packed[j]); });
    c.send(packed[range(0, count)]).to(me.next(d, 0 - reach * trees.numLow())).at(arrived[range(0, count)]);
    c.loop(count, [&](Index j) { c.reduce(arrived[j], partial[{top, 2 * j * reach}]); });
  });
  c.copy(partial[{top, 0}], c.output());
}
