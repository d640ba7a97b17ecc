// Quantised ring all-gather: every rank encodes its block once, the ring forwards the encoded bytes, all ranks decode.
// Steps N-1.  Bytes sent per rank E (N-1)/N.  Scratch E.   (N ranks, E bytes if encoded, S bytes of output)
// Use when bandwidth-bound, and weights bear one rounding.  Not for exact results: see RingAllGather.
// Source: Wang et al., ZeRO++, ICLR 2024 (qwZ).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(quantisedRingAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Codec weights = c.codec("weights", int8(256));
  Buffer out = c.output(), packed = c.scratch("packed", out).as(weights);
  c.copy(c.input(), packed[c.rank()]);
  ringAllGather(c, d, packed);
  c.copy(packed, out); // the own block too: all ranks hold the same bits
}
