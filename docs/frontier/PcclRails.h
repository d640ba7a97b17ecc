// What PCCL's collectives do on nodes of Frontier: recursive steps or a ring along every rail, and RCCL's rings inside
// nodes, one after the other. To compare with.
// Source: Singh, Singh and Bhatele, The Big Send-off, 2025; the rings are those of RCCL's model of this node.
#pragma once

#include <kolo/dsl/Language.h>

using namespace kolo::dsl;

namespace pccl {

using Way = void (*)(Choreography &c, const Dim &dim, const std::function<Slice(const Selector &)> &blocks);

inline void gatherByRing(Choreography &c, const Dim &dim, const std::function<Slice(const Selector &)> &blocks) {
  Rank me = c.rank();
  c.loop(dim.size() - 1, [&](Index step) { c.send(blocks(me[dim] - step)).to(me.next(dim)); });
}

inline void gatherByDoubling(Choreography &c, const Dim &dim, const std::function<Slice(const Selector &)> &blocks) {
  Rank me = c.rank();
  c.loop(log2(dim), [&](Index step) {
    c.send(blocks(range(me[dim] / pow2(step) * pow2(step), pow2(step)))).to(me.flip(dim, pow2(step)));
  });
}

inline void reduceByRing(Choreography &c, const Dim &dim, const std::function<Slice(const Selector &)> &blocks) {
  Rank me = c.rank();
  c.loop(dim.size() - 1, [&](Index step) { c.send(blocks(me[dim] - 1 - step)).to(me.next(dim)).reduce(); });
}

inline void reduceByHalving(Choreography &c, const Dim &dim, const std::function<Slice(const Selector &)> &blocks) {
  Rank me = c.rank();
  c.loop(log2(dim), [&](Index step) {
    Index half = pow2(log2(dim) - 1 - step);
    Rank peer = me.flip(dim, half);
    c.send(blocks(range(peer[dim] / half * half, half))).to(peer).reduce();
  });
}

/// RCCL's rings, each of which takes a part of every chunk.
template <typename Step> void aroundRings(Choreography &c, Step step) {
  static const std::vector<std::vector<int64_t>> rings = {
      {0, 1, 5, 4, 6, 7, 3, 2}, {2, 3, 7, 6, 4, 5, 1, 0}, {7, 6, 0, 1, 3, 2, 4, 5}, {5, 4, 2, 3, 1, 0, 6, 7}};
  Dim gpu = c.dim("gpu");
  Rank me = c.rank();
  c.stripe(int(rings.size()), [&](int variant) {
    const std::vector<int64_t> &ring = rings[size_t(variant)];
    std::vector<int64_t> places(8), nextOf(8);
    for (size_t place = 0; place < 8; ++place) {
      places[size_t(ring[place])] = int64_t(place);
      nextOf[size_t(ring[place])] = ring[(place + 1) % 8];
    }
    Table order(ring), placeOf(places);
    c.loop(gpu.size() - 1, [&](Index number) {
      step([&](const Index &behind) { return order[(placeOf[me[gpu]] + 16 - number - behind) % 8]; },
           me.mapped(gpu, nextOf));
    });
  });
}

/// What every rank of a node has along its rail, goes to all of the node.
inline void gatherInNodes(Choreography &c, const Buffer &out) {
  aroundRings(c, [&](auto block, const Rank &next) { c.send(out[{all, block(0)}]).to(next); });
}

/// Every rank's own blocks along its rail, combined in its node.
inline void reduceInNodes(Choreography &c, const Buffer &out) {
  aroundRings(c, [&](auto block, const Rank &next) { c.send(out[{all, block(1)}]).to(next).reduce(); });
}

inline void gatherAll(Choreography &c, Way along) {
  Rank me = c.rank();
  Buffer out = c.output();
  Dim node = c.dim("node"), gpu = c.dim("gpu");
  c.copy(c.input(), out[me]);
  along(c, node, [&](const Selector &i) { return out[{i, me[gpu]}]; });
  gatherInNodes(c, out);
}

inline void reduceAndScatter(Choreography &c, Way along) {
  Rank me = c.rank();
  Buffer in = c.input(), work = c.scratch("work", in);
  Dim node = c.dim("node"), gpu = c.dim("gpu");
  c.copy(in, work);
  reduceInNodes(c, work);
  along(c, node, [&](const Selector &i) { return work[{i, me[gpu]}]; });
  c.copy(work[me], c.output());
}

inline void reduceEverywhere(Choreography &c, Way reduce, Way gather) {
  Rank me = c.rank();
  Dim node = c.dim("node"), gpu = c.dim("gpu");
  Buffer out = c.inPlace().grid(node, gpu);
  auto rail = [&](const Selector &i) { return out[{i, me[gpu]}]; };
  reduceInNodes(c, out);
  reduce(c, node, rail);
  gather(c, node, rail);
  gatherInNodes(c, out);
}

} // namespace pccl
