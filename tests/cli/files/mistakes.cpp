#include <kolo/dsl/Language.h>
using namespace kolo::dsl;

KOLO_COLLECTIVE(broken, AllGather, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer out = c.output();
  c.copy(c.input(), out[{me[node]}]);
  c.send(out[me]);
  Dim nowhere = c.dim("nowhere");
  c.send(out[me]).to(me.others(node)).to(me.others(gpu));
}

KOLO_COLLECTIVE(incomplete, AllGather, Mesh("node", "gpu")) { c.copy(c.input(), c.output()[c.rank()]); }
