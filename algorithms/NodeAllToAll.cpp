// All-to-all inside every node: each rank sends every other rank of its node its block; no byte leaves a node.
// Steps 1.  Bytes sent per rank S (G-1)/G, in node.  Scratch 0.   (G ranks in a node, S bytes of input)
// Use when data has reached the node already, as behind RailAllToAll.  Not between nodes: see DirectAllToAll.
// Source: the second phase of Hwang et al., Tutel, MLSys 2023.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(nodeAllToAll, AllToAll.over("gpu"), Mesh("node", "gpu")) {
  Rank me = c.rank(), peer = me.others(c.dim("gpu"));
  Buffer in = c.input(), out = c.output(); // a block for each gpu of the node
  c.copy(in[me], out[me]);
  c.send(in[peer]).to(peer).at(out[me]);
}
