// Two-level all-to-all: blocks go to the rail of their receiver inside the node, then along the rail, N blocks at once.
// Steps 2.  Bytes sent per rank S (G-1)/G in node, S (N-1)/N by network.  Scratch S.   (N nodes of G, S bytes of input)
// Use when there are many nodes: N-1 messages leave a rank, not NG-1.  Not inside one node: see DirectAllToAll.
// Source: Hwang et al., Tutel, MLSys 2023.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(twoLevelAllToAll, AllToAll, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank(), inNode = me.others(gpu), onRail = me.others(node);
  Buffer in = c.input(), out = c.output(), stage = c.scratch("stage", in); // stage: [receiver's node, sender's gpu]
  c.copy(in[{all, me[gpu]}], stage[{all, me[gpu]}]);
  c.send(in[{all, inNode[gpu]}]).to(inNode).at(stage[{all, me[gpu]}]);
  c.copy(stage[{me[node], all}], out[{me[node], all}]);
  c.send(stage[{onRail[node], all}]).to(onRail).at(out[{me[node], all}]);
}
