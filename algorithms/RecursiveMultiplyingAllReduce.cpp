// Recursive-multiplying all-reduce: ranks in groups of four exchange everything and combine it in one order.
// Steps ceil(log4 N).  Bytes sent per rank at most 3 S ceil(log4 N).  Scratch 4 S ceil(log4 N).
// (N ranks, 4^k, or 2 or 3 times that; S bytes of input)
// Use when latency-bound and ranks send to several at once.  Not when bandwidth-bound: see RabenseifnerAllReduce.
// Source: Ruefenacht, Bull and Booth, Parallel Computing 2017; Wilkins et al., CLUSTER 2023, radix 4.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(recursiveMultiplyingAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  constexpr int radix = 4;
  MultiplyingGroups groups(c, d, radix);
  Buffer out = c.inPlace(), arrived = c.slots("arrived", out, {groups.numSteps(), radix});
  c.loop(groups.numSteps(), [&](Index step) {
    Slice own = arrived[{step, groups.digit(step)}];
    c.copy(out, own);
    groups.exchange(c, step, [&](const Rank &peer) { c.send(out).to(peer).at(own); });
    c.copy(arrived[{step, 0}], out);
    c.loop(groups.size(step) - 1, [&](Index i) { c.reduce(arrived[{step, i + 1}], out); });
  });
}
