// Node-local all-gather: one all-gather per node, among its ranks only; no byte leaves a node.
// Steps 1.  Bytes sent per rank S (G-1)/G.  Scratch 0.   (any number of nodes of G, S bytes of output)
// Use when every node holds all the data, as with secondary partitions of weights.  Not when data is spread over nodes.
// Source: Wang et al., ZeRO++, ICLR 2024 (hpZ).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(nodeLocalAllGather, AllGather.over("gpu"), Mesh("node", "gpu")) {
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(); // out: one chunk per gpu of the node
  c.copy(in, out[me]);
  c.send(in).to(me.others(c.dim("gpu"))).at(out[me]);
}
