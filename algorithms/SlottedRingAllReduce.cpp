// Slotted ring all-reduce: as RingAllReduce, but senders push data, in every step into a slot of its own.
// Steps 2(N-1).  Bytes sent per rank 2 S (N-1)/N.  Scratch S (N-1)/N.   (N ranks, S bytes of input)
// Use when bandwidth-bound, and waiting for free slots costs.  Not when memory is short: see TwoSlotRingAllReduce.
// Source: Patarasuk and Yuan, JPDC 2009.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(slottedRingAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace().grid(d);
  slottedRingReduceScatter(c, d, out, c.slots("arrived", out, d.size() - 1));
  ringAllGather(c, d, out);
}
