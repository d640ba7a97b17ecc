// Chain scan: what is combined so far goes from rank to rank, in 16 pieces that follow each other.
// Steps N + 14.  Bytes sent per rank S.  Scratch 0.   (N ranks, S bytes of input)
// Use when bandwidth-bound.  Not when latency-bound: see RecursiveDoublingScan.
// Source: Sanders and Traeff, EuroPVM/MPI 2006, the pipelined linear algorithm.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

KOLO_COLLECTIVE(chainScan, Scan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace().grid(numChainPieces);
  passUp(c, d, [&, d = d](const Index &piece) { c.send(out[piece]).to(c.rank().next(d)).reduce(); });
}
