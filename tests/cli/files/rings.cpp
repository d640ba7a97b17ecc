// Rings of which smaller meshes say nothing, or too much.
#include <kolo/dsl/Language.h>
using namespace kolo::dsl;

static void ring(Choreography &c, const Index &rounds) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.output();
  c.copy(c.input(), out[me]);
  c.loop(rounds, [&, d = d](Index s) { c.send(out[me[d] - s]).to(me.next(d)); });
}

// Right on up to 101 ranks.
KOLO_COLLECTIVE(capped, AllGather, Mesh("rank")) { ring(c, min(c.dim("rank").size() - 1, 100)); }

// On two ranks, of which no smaller mesh can take the place.
KOLO_COLLECTIVE(longLoop, AllGather, Mesh("rank")) { ring(c, 100000); }

// A table keeps the size of its dimension.
KOLO_COLLECTIVE(tabled, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.output();
  std::vector<int64_t> table;
  for (int64_t rank = 0; rank < 128; ++rank)
    table.push_back((rank + 1) % 128);
  c.copy(c.input(), out[me]);
  c.loop(d.size() - 1, [&, d = d](Index s) { c.send(out[me[d] - s]).to(me.mapped(d, table)); });
}
