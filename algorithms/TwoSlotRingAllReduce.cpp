// Two-slot ring all-reduce: as RingAllReduce, but senders push data into two slots of the receiver in turn.
// Steps 2(N-1).  Bytes sent per rank 2 S (N-1)/N.  Scratch 2 S/N.   (N ranks, S bytes of input)
// Use when bandwidth-bound and writes to peers are faster than reads.  Not when latency-bound: see OneShotAllReduce.
// Source: Patarasuk and Yuan, JPDC 2009.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(twoSlotRingAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace().grid(d);
  slottedRingReduceScatter(c, d, out, c.slots("arrived", out, 2)); // the next chunk arrives while one is combined
  ringAllGather(c, d, out);
}
