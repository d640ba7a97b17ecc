// What a mesh of two ranks does not need: with two ranks no slot is used again, from three on senders must wait.
#include <kolo/dsl/Language.h>
using namespace kolo::dsl;

KOLO_COLLECTIVE(fineSlots, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Index parts = 5000;
  Buffer out = c.inPlace().grid(d, parts), arrived = c.slots("arrived", out, {1, parts});
  c.loop(d.size() - 1, [&, d = d](Index s) {
    c.loop(parts, [&](Index i) {
      Index p = i + s % 2 * (parts - 1 - 2 * i);
      c.send(out[{me[d] - 1 - s, p}]).to(me.next(d)).at(arrived[{0, p}]);
      c.reduce(arrived[{0, p}], out[{me[d] - 2 - s, p}]);
    });
  });
  c.loop(d.size() - 1, [&, d = d](Index s) { c.send(out[{me[d] - s, all}]).to(me.next(d)); });
}
