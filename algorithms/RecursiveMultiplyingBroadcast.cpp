// Recursive-multiplying broadcast: a tree of radix four scatters the root's data, then groups of four gather it.
// Steps 2 ceil(log4 N).  Bytes sent per rank at most 2 S (N-1)/N.  Scratch 0.
// (N ranks, 4^k, or 2 or 3 times that; S bytes of input)
// Use when messages are of medium size and ranks send to several at once.  Not when tiny: see BinomialBroadcast.
// Source: Wilkins et al., CLUSTER 2023, k-nomial scatter and recursive multiplying, radix 4.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(recursiveMultiplyingBroadcast, Broadcast, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  constexpr int radix = 4;
  Buffer out = c.inPlace().grid(d);
  MultiplyingGroups groups(c, d, radix, c.root()[d]);
  c.loop(groups.numSteps(), [&, d = d](Index i) {
    Index step = groups.numSteps() - 1 - i, reach = groups.stride(step), numChildren = groups.size(step) - 1;
    c.when(groups.coordinate() % (reach * (numChildren + 1)) == 0, [&] {
      c.loop(numChildren, [&](Index child) {
        Index distance = (child + 1) * reach;
        c.send(out[range(groups.coordinate() + distance, reach)]).to(me.next(d, distance));
      });
    });
  });
  multiplyingAllGather(c, groups, out);
}
