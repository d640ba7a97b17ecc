// Bruck all-to-all: in step k, every block whose distance has bit k set travels 2^k ranks, all in one message.
// Steps ceil(log2 N).  Bytes sent per rank about S/2 ceil(log2 N).  Scratch 2 S.   (N ranks, S bytes of input)
// Use when latency-bound with many ranks.  Not when bandwidth-bound: see DirectAllToAll.
// Source: Bruck, Ho, Kipnis, Upfal and Weathersby, IEEE TPDS 1997; blocks kept where they end, so no last rotation.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

// A block is known by its distance, from its sender to its receiver. On every rank it lies at out[me - distance].
KOLO_COLLECTIVE(bruckAllToAll, AllToAll, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Index me = c.rank()[d], n = d.size();
  Buffer in = c.input(), out = c.output(), packed = c.scratch("packed", in), arrived = c.scratch("arrived", in);
  c.loop(n, [&](Index distance) { c.copy(in[me + distance], out[me - distance]); });
  c.loop(ceilLog2(n), [&, d = d](Index step) {
    Index bit = pow2(step), period = 2 * bit;
    Index numRuns = (n + bit - 1) / period; // of consecutive distances with this bit
    auto lengthOf = [&](Index run) { return min(bit, n - run * period - bit); };
    auto unpacked = [&](Index run) { return out[range(me - run * period - bit - lengthOf(run) + 1, lengthOf(run))]; };
    c.loop(numRuns, [&](Index run) { c.copy(unpacked(run), packed[range(run * bit, lengthOf(run))]); });
    c.send(packed[range(0, (numRuns - 1) * bit + lengthOf(numRuns - 1))])
        .to(c.rank().next(d, bit))
        .at(arrived[range(0, (numRuns - 1) * bit + lengthOf(numRuns - 1))]);
    c.loop(numRuns, [&](Index run) { c.copy(arrived[range(run * bit, lengthOf(run))], unpacked(run)); });
  });
}
