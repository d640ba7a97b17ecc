// One-shot all-reduce: every rank sends its whole input to every other rank, and every rank combines all of them.
// Steps 1.  Bytes sent per rank S (N-1).  Scratch 0.   (N ranks, S bytes of input)
// Use when messages are tiny.  Not when bandwidth counts, or when more than two ranks need equal bits of rounded sums.
// Source: Cowan et al., MSCCLang, ASPLOS 2023.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(oneShotAllReduce, AllReduce, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace();
  c.send(c.input()).to(c.rank().others(d)).at(out).reduce();
}
