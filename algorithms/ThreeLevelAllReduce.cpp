// Three-level all-reduce: reduce-scatter in modules and in nodes, all-reduce along rails, and all-gather back.
// Steps 4 + 2(N-1).  Bytes sent per rank 2 S (G-1)/G in node, 2 S/G (N-1)/N by network.  Scratch 0.
// (N nodes of G ranks, in modules; S bytes of input)
// Use when nodes have links of two classes, as with dual-die modules.  Not otherwise: see HierarchicalAllReduce.
// Source: Cho et al., BlueConnect, MLSys 2019.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(threeLevelAllReduce, AllReduce, Mesh("node", "module", "die")) {
  auto [node, module, die] = c.dims<3>();
  Rank me = c.rank();
  Buffer in = c.input().grid(die, module, node), out = c.output().grid(die, module, node);
  Blocks ofDie = [&](Selector i) { return out[{i, all, all}]; };
  Blocks ofModule = [&](Selector i) { return out[{me[die], i, all}]; };
  Blocks ofNode = [&](Selector i) { return out[{me[die], me[module], i}]; };

  c.copy(in[{me[die], all, all}], ofDie(me[die]));
  allPairsReduceScatter(c, die, [&](Selector i) { return in[{i, all, all}]; }, ofDie);
  allPairsReduceScatter(c, module, ofModule, ofModule);
  ringReduceScatter(c, node, ofNode);
  ringAllGather(c, node, ofNode);
  allPairsAllGather(c, module, ofModule);
  allPairsAllGather(c, die, ofDie);
}
