// All-gathers whose owners keep what all others get rounded: around a ring by a table, of 8 and of 128 ranks, and on
// the ranks from 100 on alone.
#include <kolo/dsl/Language.h>
#include <vector>
using namespace kolo::dsl;
static void gather(Choreography &c, int64_t n) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), packed = c.scratch("packed", out).as(c.codec("wire", int8(256)));
  std::vector<int64_t> table;
  for (int64_t rank = 0; rank < n; ++rank)
    table.push_back((rank + 1) % n);
  c.copy(in, out[me]);
  c.copy(in, packed[me]);
  c.loop(d.size() - 1, [&, d = d](Index s) { c.send(packed[me[d] - s]).to(me.mapped(d, table)); });
  c.loop(d.size() - 1, [&, d = d](Index s) { c.copy(packed[me[d] - 1 - s], out[me[d] - 1 - s]); });
}
KOLO_COLLECTIVE(eight, AllGather, Mesh("rank")) { gather(c, 8); }
KOLO_COLLECTIVE(large, AllGather, Mesh("rank")) { gather(c, 128); }
KOLO_COLLECTIVE(late, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), packed = c.scratch("packed", out).as(c.codec("wire", int8(256)));
  c.copy(in, packed[me]);
  c.loop(d.size() - 1, [&, d = d](Index s) { c.send(packed[me[d] - s]).to(me.next(d)); });
  c.loop(d.size() - 1, [&, d = d](Index s) { c.copy(packed[me[d] - 1 - s], out[me[d] - 1 - s]); });
  c.when(me[d] < 100, [&] { c.copy(packed[me], out[me]); });
  c.when(me[d] >= 100, [&] { c.copy(in, out[me]); });
}
