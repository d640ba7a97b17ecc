// Hierarchical reduce-scatter: all pairs inside every node, then rings along the rails with 1/G of the data.
// Steps N.  Bytes sent per rank S (G-1)/G in node, S/G (N-1)/N by network.  Scratch S.
// (N nodes of G, S bytes of input)
// Use when bandwidth-bound on nodes with fast links inside.  Not when nodes have one rank: see RingReduceScatter.
// Source: Cho et al., BlueConnect, MLSys 2019.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(hierarchicalReduceScatter, ReduceScatter, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer in = c.input(), partial = c.scratch("partial", in); // only the blocks of this rank's rail are used
  c.copy(in[{all, me[gpu]}], partial[{all, me[gpu]}]);
  allPairsReduceScatter(
      c, gpu, [&](Selector i) { return in[{all, i}]; }, [&](Selector i) { return partial[{all, i}]; });
  ringReduceScatter(c, node, [&](Selector i) { return partial[{i, me[gpu]}]; });
  c.copy(partial[me], c.output());
}
