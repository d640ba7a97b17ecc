// Recursive-multiplying all-gather: in every step, ranks in groups of four exchange all they have.
// Steps ceil(log4 N).  Bytes sent per rank S (N-1)/N.  Scratch 0.
// (N ranks, 4^k, or 2 or 3 times that; S bytes of output)
// Use when latency-bound and ranks send to several at once.  Not when N is another number: see BruckAllGather.
// Source: Wilkins et al., CLUSTER 2023, recursive multiplying, radix 4.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(recursiveMultiplyingAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.output();
  MultiplyingGroups groups(c, d, 4);
  c.copy(c.input(), out[c.rank()]);
  multiplyingAllGather(c, groups, out);
}
