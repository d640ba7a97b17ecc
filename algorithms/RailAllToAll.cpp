// All-to-all along every rail: each rank sends the rank of the same number in every other node its block.
// Steps 1.  Bytes sent per rank S (N-1)/N, by network.  Scratch 0.   (N nodes, S bytes of input)
// Use when data goes on inside the nodes, by NodeAllToAll.  Not among all ranks: see TwoLevelAllToAll.
// Source: DeepEP, 2025 (dispatch between nodes).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(railAllToAll, AllToAll.over("node"), Mesh("node", "gpu")) {
  Rank me = c.rank(), peer = me.others(c.dim("node"));
  Buffer in = c.input(), out = c.output(); // a block for each node
  c.copy(in[me], out[me]);
  c.send(in[peer]).to(peer).at(out[me]);
}
