// Rail all-reduce in few steps: all pairs inside every node, and recursive doubling along every rail between them.
// Steps 2 + log2 N.  Bytes sent per rank 2 S (G-1)/G in node, S/G log2 N by network.  Scratch S/G log2 N.
// (N = 2^k nodes of G, S bytes of input)
// Use when latency-bound on several nodes.  Not when bandwidth-bound on many: see HierarchicalAllReduce.
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 2005 (doubling); Cho et al., BlueConnect, MLSys 2019 (levels).
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(railRecursiveAllReduce, AllReduce, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer in = c.input().grid(gpu), out = c.output().grid(gpu);
  Buffer fromRail = c.slots("fromRail", out, log2(node));

  c.copy(in[me[gpu]], out[me[gpu]]);
  allPairsReduceScatter(c, gpu, in, out);
  c.loop(log2(node), [&, node = node, gpu = gpu](Index step) {
    c.send(out[me[gpu]]).to(me.flip(node, pow2(step))).at(fromRail[step]);
    c.reduce(fromRail[step], out[me[gpu]]);
  });
  allPairsAllGather(c, gpu, out);
}
