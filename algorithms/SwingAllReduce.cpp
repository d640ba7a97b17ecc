// Swing all-reduce: half of every chunk goes along a butterfly of alternating distances, half along its mirror.
// Steps 2 log2 N.  Bytes sent per rank 2 S (N-1)/N, half in each direction.  Scratch 0.
// (N ranks, a power of two; S bytes of input)
// Use when ranks are on a ring of links that carry both ways.  Not on few ranks of other links: see RingAllReduce.
// Source: De Sensi, Bonato, Saam and Hoefler, NSDI 2024, bandwidth-optimal.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(swingAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  c.require(isPowerOfTwo(d), "a power of two of ranks");
  Buffer out = c.inPlace().grid(d);
  c.stripe(2, [&, d = d](int variant) {
    AlternatingButterfly butterfly(c, d, variant == 0 ? 1 : -1);
    alternatingReduceScatter(c, butterfly, out);
    alternatingAllGather(c, butterfly, out);
  });
}
