// Quantised ring all-reduce: every hop of the reduce-scatter encodes a partial sum; the sums are then encoded once.
// Steps 2(N-1).  Bytes sent per rank 2 E (N-1)/N.  Scratch 2 S + 2 E.   (N ranks, E bytes if encoded, S bytes of input)
// Use when only neighbours have links.  Not when precision counts: errors grow with N^2, see QuantisedTwoShotAllReduce.
// Source: Huang et al., gZCCL, ICS 2024; Huang et al., C-Coll, IPDPS 2024.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(quantisedRingAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Codec wire = c.codec("wire", int8(256));
  Buffer out = c.output().grid(d);
  Buffer sum = c.scratch("sum", out).as(f32()), packed = c.scratch("packed", out).as(wire);
  c.copy(c.input().grid(d), sum);
  slottedRingReduceScatter(c, d, sum, c.slots("arrived", out, d.size() - 1).as(wire));
  c.copy(sum[me], packed[me]);
  ringAllGather(c, d, packed);
  c.copy(packed, out);
}
