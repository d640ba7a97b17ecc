// Quantised two-shot all-reduce: all pairs, encoded each way; each owner sums in f32 and reads its own encoded sum.
// Steps 2.  Bytes sent per rank 2 E (N-1)/N.  Scratch 2 S + 2 E.   (N ranks, E bytes if encoded, S bytes of input)
// Use when links are slower than memory and data bears two roundings.  Not for exact results: see PushTwoShotAllReduce.
// Source: AMD QuickReduce, 2025; Li et al., Flash Communication, 2024; Tang et al., 1-bit Adam, ICML 2021 (one bit).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(quantisedTwoShotAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Codec wire = c.codec("wire", int8(256));
  Buffer in = c.input().grid(d), out = c.output().grid(d);
  Buffer sum = c.scratch("sum", out).as(f32()), packed = c.scratch("packed", out).as(wire);
  c.copy(in[me], sum[me]);
  slottedAllPairsReduceScatter(c, d, in, sum, c.slots("arrived", out, d.size()).as(wire)); // encoded by the put
  c.copy(sum[me], packed[me]);                                                             // encoded once
  allPairsAllGather(c, d, packed);                                                         // bytes
  c.copy(packed, out); // decoded by all ranks, the owner too
}
