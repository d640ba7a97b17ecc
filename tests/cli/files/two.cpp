#include <kolo/dsl/Language.h>
using namespace kolo::dsl;

KOLO_COLLECTIVE(direct, AllGather, Mesh("rank")) {
  Rank me = c.rank();
  c.copy(c.input(), c.output()[me]);
  c.send(c.output()[me]).to(me.others(c.dim("rank")));
}

KOLO_COLLECTIVE(ring, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.output();
  c.copy(c.input(), out[me]);
  c.loop(d.size() - 1, [&, d = d](Index step) { c.send(out[me[d] - step]).to(me.next(d)); });
}
