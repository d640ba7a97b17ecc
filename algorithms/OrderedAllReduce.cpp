// Ordered all-reduce: every rank combines all inputs in the order of the ranks, so that all ranks get the same bits.
// Steps N, or 1 with published inputs.  Bytes sent per rank S (N-1).  Scratch 0.   (N ranks, S bytes of input)
// Use when messages are tiny and inputs are published.  Not with packets, where the steps wait for each other.
// Source: Cowan et al., MSCCLang, ASPLOS 2023, with a fixed order.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(orderedAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank(), others = me.others(d);
  Buffer in = c.input(), out = c.output();
  c.when(me[d] == 0, [&] {
    c.copy(in, out);
    c.send(in).to(others).at(out);
  });
  c.loop(d.size() - 1, [&, d = d](Index i) {
    c.when(me[d] == i + 1, [&] {
      c.reduce(in, out);
      c.send(in).to(others).at(out).reduce();
    });
  });
}
