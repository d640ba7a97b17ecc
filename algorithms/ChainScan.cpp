// Chain scan and exscan: what is combined so far goes from rank to rank, in 16 pieces that follow each other.
// Steps N + 14.  Bytes sent per rank S.  Scratch 0, of the exscan S.   (N ranks, S bytes of input)
// Use when bandwidth-bound.  Not when latency-bound: see RecursiveDoublingScan.
// Source: Sanders and Traeff, EuroPVM/MPI 2006, the pipelined linear algorithm.
#include "algorithms/Blocks.h"

using namespace kolo::algorithms;

static constexpr int numPieces = 16;

/// Statements with which every rank sends a piece to the next one. It has received that piece in the step before.
static void passOn(Choreography &c, const Dim &dim, const std::function<void(const Index &piece)> &statements) {
  Rank me = c.rank();
  c.loop(dim.size() + numPieces - 2, [&](Index step) {
    Index piece = step - me[dim];
    c.when(piece >= 0 && piece < numPieces && me[dim] < dim.size() - 1, [&] { statements(piece); });
  });
}

KOLO_COLLECTIVE(chainScan, Scan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Buffer out = c.inPlace().grid(numPieces);
  passOn(c, d, [&, d = d](const Index &piece) { c.send(out[piece]).to(c.rank().next(d)).reduce(); });
}

KOLO_COLLECTIVE(chainExscan, Exscan, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input().grid(numPieces), out = c.output().grid(numPieces), sums = c.scratch("sums", in);
  c.copy(in, sums);
  passOn(c, d, [&, d = d](const Index &piece) {
    c.when(me[d] > 0, [&] { c.reduce(out[piece], sums[piece]); });
    c.send(sums[piece]).to(me.next(d)).at(out[piece]);
  });
}
