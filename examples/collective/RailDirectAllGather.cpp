// Every rank sends its block to its counterparts in all other nodes at once. Then a ring inside every node passes on
// whole columns: the blocks that one rank of the node has got.
#include <kolo/dsl/Language.h>

using namespace kolo::dsl;

KOLO_COLLECTIVE(railDirectAllGather, AllGather, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer out = c.output(); // one chunk per rank, in a grid of nodes and gpus

  c.copy(c.input(), out[me]);
  c.send(out[me]).to(me.others(node));
  c.loop(gpu.size() - 1, [&, gpu = gpu](Index step) {
    c.send(out[{all, me[gpu] - step}]).to(me.next(gpu)); // lands at the same place
  });
}
