// PAT all-gather: all ranks' binomial trees, far first; eight trees send together, and what is left goes one by one.
// Steps ceil(log2 N), about N/8 + 3 beyond 16 ranks.  Bytes sent per rank S (N-1)/N.  Scratch 8 (log2 (N/8) + 2) S/N.
// (N ranks, S bytes of output)
// Use when latency-bound, for any N, and memory is short.  Not when bandwidth-bound: see RingAllGather.
// Source: Jeaugey, PAT, arXiv 2506.20252, 2025; NCCL 2.23.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(patAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  constexpr int aggregate = 8;
  AggregatedTrees trees(d, aggregate);
  Index top = trees.numLevels();
  Buffer out = c.output(), stage = c.blocks("stage", {top + 1, aggregate});
  Buffer packed = c.blocks("packed", aggregate / 2), arrived = c.blocks("arrived", aggregate / 2);
  c.copy(c.input(), out[me]);
  c.copy(c.input(), stage[{top, 0}]);

  c.loop(ceilLog2(trees.numHigh()), [&, d = d](Index i) {
    Index reach = pow2(ceilLog2(trees.numHigh()) - 1 - i), count = (trees.numHigh() + reach - 1) / (2 * reach);
    c.loop(count, [&](Index j) { c.copy(stage[{top, 2 * j * reach}], packed[j]); });
    c.send(packed[range(0, count)]).to(me.next(d, reach * trees.numLow())).at(arrived[range(0, count)]);
    c.loop(count, [&](Index j) {
      Index high = (2 * j + 1) * reach;
      c.copy(arrived[j], stage[{top, high}]);
      c.copy(arrived[j], out[me[d] - high * trees.numLow()]);
    });
  });
  c.loop(trees.numLow() - 1, [&, d = d](Index i) {
    Index low = i + 1, reach = trees.lowestBit(low), count = trees.numWith(low);
    c.send(stage[{trees.level(low - reach), range(0, count)}])
        .to(me.next(d, reach))
        .at(stage[{trees.level(low), range(0, count)}]);
    c.loop(count,
           [&](Index high) { c.copy(stage[{trees.level(low), high}], out[me[d] - high * trees.numLow() - low]); });
  });
}
