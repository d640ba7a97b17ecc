// Phases after each other, each along its dimension, on all blocks that the earlier phases have brought together.
#include "driver/Assemble.h"

#include "algorithms/Blocks.h"

#include <algorithm>

namespace kolo::tools {

namespace {

using namespace algorithms;
using explore::Block;
using explore::Phase;
using explore::Striping;
using explore::Structure;
using Phases = std::vector<Phase>;

Slice take(const Buffer &buffer, const std::vector<Selector> &at) {
  switch (at.size()) {
  case 1:
    return buffer[at[0]];
  case 2:
    return buffer[{at[0], at[1]}];
  case 3:
    return buffer[{at[0], at[1], at[2]}];
  default:
    return buffer[{at[0], at[1], at[2], at[3]}];
  }
}

Buffer cut(const Buffer &buffer, const std::vector<Dim> &dims) {
  switch (dims.size()) {
  case 1:
    return buffer.grid(dims[0]);
  case 2:
    return buffer.grid(dims[0], dims[1]);
  case 3:
    return buffer.grid(dims[0], dims[1], dims[2]);
  default:
    return buffer.grid(dims[0], dims[1], dims[2], dims[3]);
  }
}

// What phases do that read their first contributions from one buffer and combine in another, where nothing lies yet.

void firstRingReduceScatter(Choreography &c, const Dim &dim, const Blocks &from, const Blocks &into, int direction) {
  Rank me = c.rank();
  c.copy(from(me[dim] - direction), into(me[dim] - direction));
  c.loop(dim.size() - 1, [&](Index step) {
    c.send(into(me[dim] - direction * (1 + step))).to(me.next(dim, direction));
    c.reduce(from(me[dim] - direction * (2 + step)), into(me[dim] - direction * (2 + step)));
  });
}

void firstRecursiveHalving(Choreography &c, const Dim &dim, const Blocks &from, const Blocks &into) {
  Rank me = c.rank(), opposite = me.flip(dim, dim.size() / 2);
  auto halfOf = [&](const Index &coordinate, const Index &half) { return range(coordinate / half * half, half); };
  c.copy(from(halfOf(me[dim], dim.size() / 2)), into(halfOf(me[dim], dim.size() / 2)));
  c.send(from(halfOf(opposite[dim], dim.size() / 2)))
      .to(opposite)
      .at(into(halfOf(opposite[dim], dim.size() / 2)))
      .reduce();
  c.loop(log2(dim) - 1, [&](Index step) {
    Index half = pow2(log2(dim) - 2 - step);
    Rank peer = me.flip(dim, half);
    c.send(into(halfOf(peer[dim], half))).to(peer).reduce();
  });
}

/// One part of every chunk, or all of it, of one collective.
class Assembler {
public:
  Assembler(Choreography &c, const Structure &structure) : c(c), me(c.rank()), structure(structure) {
    for (const std::string &name : structure.dims)
      dims.push_back(c.dim(name));
  }

  void run() {
    switch (structure.collective) {
    case KOLO_ALL_GATHER:
      return allGather();
    case KOLO_REDUCE_SCATTER:
      return reduceScatter();
    case KOLO_ALL_REDUCE:
      return allReduce();
    case KOLO_ALL_TO_ALL:
      return allToAll();
    default:
      return broadcast();
    }
  }

private:
  using Body = std::function<void(const Phases &phases, int direction)>;
  const Dim &dim(const Phase &phase) const { return dims[phase.dim]; }

  /// Runs the body for all of every chunk, or for each part in its own way.
  void inParts(const Body &body) {
    if (structure.striping == Striping::TwoWay)
      return c.stripe(2, [&](int variant) { body(structure.phases, variant == 0 ? 1 : -1); });
    if (structure.striping != Striping::Turned)
      return body(structure.phases, 1);
    c.stripe(int(structure.phases.size()), [&](int variant) {
      Phases turned = structure.phases;
      std::ranges::rotate(turned, turned.begin() + variant);
      body(turned, 1);
    });
  }

  /// The blocks along one dimension; `at` says which ones of the others.
  Blocks along(const Buffer &buffer, size_t number, std::vector<Selector> at) const {
    return [=](const Selector &which) {
      std::vector<Selector> selectors = at;
      selectors[number] = which;
      return take(buffer, selectors);
    };
  }
  std::vector<Selector> mine() const {
    std::vector<Selector> result;
    for (const Dim &along : dims)
      result.emplace_back(me[along]);
    return result;
  }
  std::vector<Selector> everything() const { return std::vector<Selector>(dims.size(), all); }

  void gather(const Dim &along, Block block, const Blocks &blocks, int direction) {
    if (block == Block::AllPairs)
      allPairsAllGather(c, along, blocks);
    else if (block == Block::RecursiveDoubling)
      recursiveDoublingAllGather(c, along, blocks);
    else if (block == Block::Bruck)
      bruckAllGather(c, along, blocks);
    else
      ringAllGather(c, along, blocks, direction);
  }

  void gatherAll(const Buffer &out, const Phases &phases, int direction) {
    std::vector<Selector> have = mine();
    for (const Phase &phase : phases) {
      gather(dim(phase), phase.block, along(out, phase.dim, have), direction);
      have[phase.dim] = all;
    }
  }

  /// Leaves this rank's block combined in `into`.
  void reduceAll(const Buffer &in, const Buffer &into, const Phases &phases, int direction) {
    std::vector<Selector> have = everything();
    for (const Phase &phase : phases) {
      bool isFirst = phase == phases.front();
      Blocks from = along(isFirst ? in : into, phase.dim, have), to = along(into, phase.dim, have);
      isFirst ? reduceFirst(phase, from, to, direction) : reduceFurther(phase, to, direction);
      have[phase.dim] = me[dim(phase)];
    }
  }

  void reduceFirst(const Phase &phase, const Blocks &from, const Blocks &into, int direction) {
    if (phase.block == Block::Ring)
      return firstRingReduceScatter(c, dim(phase), from, into, direction);
    if (phase.block == Block::RecursiveDoubling)
      return firstRecursiveHalving(c, dim(phase), from, into);
    c.copy(from(me[dim(phase)]), into(me[dim(phase)]));
    allPairsReduceScatter(c, dim(phase), from, into);
  }

  void reduceFurther(const Phase &phase, const Blocks &blocks, int direction) {
    if (phase.block == Block::Ring)
      return ringReduceScatter(c, dim(phase), blocks, direction);
    if (phase.block == Block::RecursiveDoubling)
      return recursiveHalvingReduceScatter(c, dim(phase), blocks);
    allPairsReduceScatter(c, dim(phase), blocks, blocks);
  }

  void allGather() {
    Buffer in = c.input(), out = c.output();
    c.copy(in, out[me]);
    inParts([&](const Phases &phases, int direction) { gatherAll(out, phases, direction); });
  }

  void reduceScatter() {
    Buffer in = c.input(), partial = c.scratch("partial", in);
    inParts([&](const Phases &phases, int direction) { reduceAll(in, partial, phases, direction); });
    c.copy(partial[me], c.output());
  }

  void allReduce() {
    if (structure.phases.front().block == Block::Exchange)
      return exchangeAll();
    Buffer in = cut(c.input(), dims), out = cut(c.output(), dims);
    inParts([&](Phases phases, int direction) {
      reduceAll(in, out, phases, direction);
      std::ranges::reverse(phases);
      gatherAll(out, phases, direction);
    });
  }

  void exchangeAll() {
    Buffer out = c.inPlace();
    for (const Phase &phase : structure.phases)
      c.loop(log2(dim(phase)), [&](Index step) { c.send(out).to(me.flip(dim(phase), pow2(step))).reduce(); });
  }

  /// Index by index, the receivers' coordinates become the senders'.
  void allToAll() {
    std::vector<Buffer> stages = {c.input()};
    for (size_t i = 1; i < structure.phases.size(); ++i)
      stages.push_back(c.scratch("stage" + std::to_string(i), c.input()));
    stages.push_back(c.output());
    inParts([&](const Phases &phases, int) {
      for (size_t i = 0; i < phases.size(); ++i)
        exchange(phases[i], along(stages[i], phases[i].dim, everything()),
                 along(stages[i + 1], phases[i].dim, everything()));
    });
  }

  void exchange(const Phase &phase, const Blocks &from, const Blocks &into) {
    const Dim &d = dim(phase);
    auto sendTo = [&](const Rank &peer) { c.send(from(peer[d])).to(peer).at(into(me[d])); };
    c.copy(from(me[d]), into(me[d]));
    if (phase.block == Block::AllPairs)
      return sendTo(me.others(d));
    c.loop(d.size() - 1, [&](Index step) { sendTo(me.next(d, step + 1)); });
  }

  void broadcast() {
    Buffer out = c.inPlace();
    if (structure.striping == Striping::Scattered)
      return scatteredBroadcast(out);
    for (auto phase = structure.phases.begin(); phase != structure.phases.end(); ++phase)
      whereRootIs({phase + 1, structure.phases.end()}, [&] { spread(*phase, out); });
  }

  /// Every rank of the last phase's dimension gets a chunk, passes it on along the others, and then gathers the rest.
  void scatteredBroadcast(const Buffer &whole) {
    const Phase &last = structure.phases.back();
    const Dim &rail = dim(last);
    Buffer out = whole.grid(rail);
    Rank peer = me.others(rail);
    c.when(me == c.root(), [&] { c.send(out[peer[rail]]).to(peer); });
    for (auto phase = structure.phases.begin(); phase + 1 != structure.phases.end(); ++phase)
      whereRootIs({phase + 1, structure.phases.end() - 1}, [&] { spread(*phase, out[me[rail]]); });
    gather(rail, last.block, out, 1);
  }

  /// Statements of the ranks that have the root's coordinates along the dimensions of these phases.
  void whereRootIs(const Phases &phases, const std::function<void()> &statements) {
    if (phases.empty())
      return statements();
    const Dim &d = dim(phases.front());
    c.when(me[d] == c.root()[d], [&] { whereRootIs({phases.begin() + 1, phases.end()}, statements); });
  }

  void spread(const Phase &phase, const Slice &slice) {
    const Dim &d = dim(phase);
    if (phase.block == Block::AllPairs)
      return c.when(me[d] == c.root()[d], [&] { c.send(slice).to(me.others(d)); });
    if (phase.block == Block::Chain)
      return c.loop(d.size() - 1, [&](Index step) {
        c.when((me[d] - c.root()[d]) % d.size() == step, [&] { c.send(slice).to(me.next(d)); });
      });
    BinomialTree tree(c, d);
    c.loop(tree.numRounds(), [&](Index round) {
      Index reach = tree.reachDownwards(round);
      c.when(tree.isParent(reach), [&] { c.send(slice).to(tree.child(reach)); });
    });
  }

  Choreography &c;
  Rank me;
  const Structure &structure;
  std::vector<Dim> dims;
};

CollectiveKind kindOf(KoloCollective collective) {
  switch (collective) {
  case KOLO_ALL_GATHER:
    return CollectiveKind::AllGather;
  case KOLO_REDUCE_SCATTER:
    return CollectiveKind::ReduceScatter;
  case KOLO_ALL_REDUCE:
    return CollectiveKind::AllReduce;
  case KOLO_ALL_TO_ALL:
    return CollectiveKind::AllToAll;
  default:
    return CollectiveKind::Broadcast;
  }
}

} // namespace

dsl::Definition assemble(const explore::Structure &structure) {
  Mesh mesh;
  mesh.dims = structure.dims;
  return {structure.name(),
          {kindOf(structure.collective)},
          mesh,
          [structure](Choreography &c) { Assembler(c, structure).run(); },
          std::source_location::current()};
}

} // namespace kolo::tools
