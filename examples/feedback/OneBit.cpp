// A sum in two halves that sends one bit per element: what 1-bit Adam does (Tang et al., ICML 2021). Between the
// halves, the owner of a block can add what its own encoding lost the last time.
#include <kolo/dsl/Language.h>

using namespace kolo::dsl;

KOLO_COLLECTIVE(oneBitReduceScatter, ReduceScatter, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank(), peer = me.others(d);
  Codec wire = c.codec("wire", sign());
  Buffer in = c.input(), out = c.output();
  Buffer sum = c.scratch("sum", out).as(f32()), arrived = c.slots("arrived", in, d.size()).as(wire);

  c.copy(in[me], sum);                          // its own block is never encoded
  c.send(in[peer]).to(peer).at(arrived[me[d]]); // encoded on the way
  c.loop(d.size() - 1, [&, d = d](Index i) { c.reduce(arrived[me[d] + 1 + i], sum); });
  c.copy(sum, out);
}

KOLO_COLLECTIVE(oneBitAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Codec wire = c.codec("wire", sign());
  Buffer out = c.output(), packed = c.scratch("packed", out).as(wire);

  c.copy(c.input(), packed[me]); // encoded once
  c.send(packed[me]).to(me.others(d));
  c.copy(packed, out); // decoded by everybody, the owner too: all ranks get the same bits
}
