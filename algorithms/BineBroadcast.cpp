// Bine broadcast: in every step, every rank with the data passes it on, far first, by distances that alternate in sign.
// Steps log2 N.  Bytes sent per rank at most S log2 N.  Scratch 0.   (N ranks, a power of two; S bytes of input)
// Use when latency-bound and groups of ranks share few links.  Not when N is not a power of two: see BinomialBroadcast.
// Source: De Sensi et al., SC 2025, distance-halving Bine tree.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(bineBroadcast, Broadcast, Mesh("rank")) {
  auto [d] = c.dims<1>();
  c.require(isPowerOfTwo(d), "a power of two of ranks");
  Buffer out = c.inPlace();
  AlternatingButterfly butterfly(c, d, 1, c.root()[d]);
  Index own = butterfly.blockOf(butterfly.coordinate(c.rank()));
  c.loop(butterfly.numSteps(), [&, d = d](Index i) {
    Index step = butterfly.numSteps() - 1 - i;
    c.when(own < d.size() / pow2(step + 1),
           [&] { butterfly.exchange(c, step, [&](const Rank &peer) { c.send(out).to(peer); }); });
  });
}
