// Phases after each other, each along its dimension, on all blocks that the earlier phases have brought together.
#include "tools/explore/Assemble.h"

#include "algorithms/Blocks.h"
#include "tools/explore/TreeProgram.h"

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

Buffer cut(const Buffer &buffer, const std::vector<Index> &grid) {
  switch (grid.size()) {
  case 1:
    return buffer.grid(grid[0]);
  case 2:
    return buffer.grid(grid[0], grid[1]);
  case 3:
    return buffer.grid(grid[0], grid[1], grid[2]);
  default:
    return buffer.grid(grid[0], grid[1], grid[2], grid[3]);
  }
}

/// One way round a ring: where the rank lies that is so many ranks behind this one, and which rank is next.
struct RingWay {
  std::function<Index(const Index &distance)> behind;
  Rank next;
};

RingWay naturalWay(const Rank &me, const Dim &dim, int direction) {
  return {[=](const Index &distance) { return me[dim] - direction * distance; }, me.next(dim, direction)};
}

/// Around the coordinates in this order, or, in direction -1, back.
RingWay orderedWay(const Rank &me, const Dim &dim, std::vector<int64_t> order, int direction) {
  if (direction < 0)
    std::ranges::reverse(order);
  size_t size = order.size();
  std::vector<int64_t> places(size), successors(size);
  for (size_t i = 0; i < size; ++i) {
    places[size_t(order[i])] = int64_t(i);
    successors[size_t(order[i])] = order[(i + 1) % size];
  }
  Table at(order), placeOf(places);
  return {[=](const Index &distance) { return at[(placeOf[me[dim]] - distance) % size]; }, me.mapped(dim, successors)};
}

void gatherAround(Choreography &c, const Dim &dim, const Blocks &blocks, const RingWay &way) {
  c.loop(dim.size() - 1, [&](Index step) { c.send(blocks(way.behind(step))).to(way.next); });
}

void reduceAround(Choreography &c, const Dim &dim, const Blocks &blocks, const RingWay &way) {
  c.loop(dim.size() - 1, [&](Index step) { c.send(blocks(way.behind(step + 1))).to(way.next).reduce(); });
}

// What phases do that read their first contributions from one buffer and combine in another, where nothing lies yet.

void firstReduceAround(Choreography &c, const Dim &dim, const Blocks &from, const Blocks &into, const RingWay &way) {
  c.copy(from(way.behind(1)), into(way.behind(1)));
  c.loop(dim.size() - 1, [&](Index step) {
    c.send(into(way.behind(step + 1))).to(way.next);
    c.reduce(from(way.behind(step + 2)), into(way.behind(step + 2)));
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
  /// What differs from part to part of a chunk.
  struct Part {
    Phases phases;
    int direction = 1;
    const std::vector<int64_t> *ring = nullptr; // order along the last dimension; null: the natural one
  };
  using Body = std::function<void(const Part &part)>;
  const Dim &dim(const Phase &phase) const { return dims[phase.dim]; }

  /// Runs the body for all of every chunk, or for each part in its own way.
  void inParts(const Body &body) {
    const Phases &phases = structure.phases;
    switch (structure.striping) {
    case Striping::Rings:
      return c.stripe(2 * int(structure.graphs->rings.size()), [&](int variant) {
        body({phases, variant % 2 == 0 ? 1 : -1, &structure.graphs->rings[size_t(variant) / 2]});
      });
    case Striping::TwoWay:
      return c.stripe(2, [&](int variant) { body({phases, variant == 0 ? 1 : -1}); });
    case Striping::Turned:
      return c.stripe(int(phases.size()), [&](int variant) {
        Phases turned = phases;
        std::ranges::rotate(turned, turned.begin() + variant);
        body({turned});
      });
    default:
      return body({phases});
    }
  }

  RingWay wayOf(const Phase &phase, const Part &part) const {
    bool isOrdered = part.ring && phase.dim + 1 == dims.size();
    return isOrdered ? orderedWay(me, dim(phase), *part.ring, part.direction)
                     : naturalWay(me, dim(phase), part.direction);
  }

  /// The blocks along one dimension; `at` says which ones of the others.
  Blocks along(const Buffer &buffer, size_t number, const std::vector<Selector> &at) const {
    return [=](const Selector &which) {
      std::vector<Selector> selectors = at;
      selectors[number] = which;
      return take(buffer, selectors);
    };
  }
  /// The number of this rank's own block along a dimension.
  Index ownBlock(size_t number) const {
    const Phase &phase = *std::ranges::find(structure.phases, number, &Phase::dim);
    const Dim &along = dims[number];
    return phase.block == Block::Alternating ? AlternatingButterfly(c, along).blockOf(me[along]) : me[along];
  }
  std::vector<Selector> mine() const {
    std::vector<Selector> result;
    for (size_t number = 0; number < dims.size(); ++number)
      result.emplace_back(ownBlock(number));
    result.resize(dims.size() + (numPieces() > 0), all);
    return result;
  }
  std::vector<Selector> everything() const { return std::vector<Selector>(dims.size() + (numPieces() > 0), all); }

  /// Pieces that every block is cut in for trees; 0: none.
  int64_t numPieces() const { return structure.usesTrees() ? structure.graphs->packing->treesPerRoot : 0; }
  /// A block for each rank; with trees, cut in pieces.
  Buffer inBlocks(const Buffer &buffer) const {
    std::vector<Index> grid(dims.begin(), dims.end());
    if (numPieces() > 0)
      grid.emplace_back(numPieces());
    return cut(buffer, grid);
  }
  /// One block, as inBlocks cuts it.
  Buffer inPieces(const Buffer &block) const { return numPieces() > 0 ? block.grid(numPieces()) : block; }
  explore::PieceSlices pieces(const Buffer &buffer, size_t number, const std::vector<Selector> &at) const {
    return [=](const Selector &block, const Selector &piece) {
      std::vector<Selector> selectors = at;
      selectors[number] = block;
      selectors.back() = piece;
      return take(buffer, selectors);
    };
  }

  /// Scratch memory like a buffer, for pieces that arrive.
  std::function<explore::PieceSlices(size_t)> arrivals(const Buffer &like, size_t number,
                                                       const std::vector<Selector> &at) const {
    return
        [=, this](size_t arrival) { return pieces(c.scratch("arrived" + std::to_string(arrival), like), number, at); };
  }

  void gather(const Phase &phase, const Part &part, const Buffer &out, const std::vector<Selector> &have) {
    const Dim &d = dim(phase);
    Blocks blocks = along(out, phase.dim, have);
    switch (phase.block) {
    case Block::AllPairs:
      return allPairsAllGather(c, d, blocks);
    case Block::RecursiveDoubling:
      return recursiveDoublingAllGather(c, d, blocks);
    case Block::Bruck:
      return bruckAllGather(c, d, blocks);
    case Block::Multiplying:
      return multiplyingAllGather(c, MultiplyingGroups(c, d, explore::multiplyingRadix), blocks);
    case Block::Alternating:
      return alternatingAllGather(c, AlternatingButterfly(c, d), blocks);
    case Block::Trees:
      return treeAllGather(c, d, roundsOutward(*structure.graphs->packing), pieces(out, phase.dim, have),
                           pieces(out, phase.dim, have));
    default:
      return gatherAround(c, d, blocks, wayOf(phase, part));
    }
  }

  void gatherAll(const Buffer &out, const Part &part) {
    std::vector<Selector> have = mine();
    for (const Phase &phase : part.phases) {
      gather(phase, part, out, have);
      have[phase.dim] = all;
    }
  }

  /// Leaves this rank's block combined in `into`.
  void reduceAll(const Buffer &in, const Buffer &into, const Part &part) {
    std::vector<Selector> have = everything();
    for (const Phase &phase : part.phases) {
      phase == part.phases.front() ? reduceFirst(phase, part, in, into, have) : reduceFurther(phase, part, into, have);
      have[phase.dim] = ownBlock(phase.dim);
    }
  }

  void reduceFirst(const Phase &phase, const Part &part, const Buffer &in, const Buffer &into,
                   const std::vector<Selector> &have) {
    const Dim &d = dim(phase);
    Blocks from = along(in, phase.dim, have), to = along(into, phase.dim, have);
    switch (phase.block) {
    case Block::RecursiveDoubling:
      return firstRecursiveHalving(c, d, from, to);
    case Block::Alternating:
      c.copy(from(all), to(all));
      return alternatingReduceScatter(c, AlternatingButterfly(c, d), to);
    case Block::AllPairs:
      c.copy(from(me[d]), to(me[d]));
      return allPairsReduceScatter(c, d, from, to);
    case Block::Trees:
      return treeReduceScatter(c, d, roundsInward(*structure.graphs->packing),
                               {pieces(in, phase.dim, have), pieces(into, phase.dim, have),
                                pieces(into, phase.dim, have), arrivals(into, phase.dim, have)});
    default:
      return firstReduceAround(c, d, from, to, wayOf(phase, part));
    }
  }

  void reduceFurther(const Phase &phase, const Part &part, const Buffer &into, const std::vector<Selector> &have) {
    const Dim &d = dim(phase);
    Blocks blocks = along(into, phase.dim, have);
    switch (phase.block) {
    case Block::RecursiveDoubling:
      return recursiveHalvingReduceScatter(c, d, blocks);
    case Block::Alternating:
      return alternatingReduceScatter(c, AlternatingButterfly(c, d), blocks);
    case Block::AllPairs:
      return allPairsReduceScatter(c, d, blocks, blocks);
    case Block::Trees:
      return treeReduceScatter(
          c, d, roundsInward(*structure.graphs->packing),
          {nullptr, pieces(into, phase.dim, have), pieces(into, phase.dim, have), arrivals(into, phase.dim, have)});
    default:
      return reduceAround(c, d, blocks, wayOf(phase, part));
    }
  }

  void allGather() {
    Buffer in = inPieces(c.input()), out = inBlocks(c.output());
    c.copy(in, out[me]);
    inParts([&](const Part &part) { gatherAll(out, part); });
  }

  void reduceScatter() {
    Buffer in = inBlocks(c.input()), partial = c.scratch("partial", in);
    if (structure.usesTrees() && structure.phases.size() == 1) {
      Buffer out = inPieces(c.output());
      return treeReduceScatter(c, dims[0], roundsInward(*structure.graphs->packing),
                               {pieces(in, 0, everything()), pieces(partial, 0, everything()),
                                [=](const Selector &, const Selector &piece) { return out[piece]; },
                                arrivals(in, 0, everything())});
    }
    inParts([&](const Part &part) { reduceAll(in, partial, part); });
    c.copy(partial[me], inPieces(c.output()));
  }

  void allReduce() {
    if (structure.phases.front().block == Block::Exchange)
      return exchangeAll();
    Buffer in = inBlocks(c.input()), out = inBlocks(c.output());
    inParts([&](const Part &part) {
      reduceAll(in, out, part);
      Part back = part;
      std::ranges::reverse(back.phases);
      gatherAll(out, back);
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
    inParts([&](const Part &part) {
      for (size_t i = 0; i < part.phases.size(); ++i) {
        size_t number = part.phases[i].dim;
        exchange(part.phases[i], along(stages[i], number, everything()), along(stages[i + 1], number, everything()));
      }
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
    allPairsAllGather(c, rail, out);
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
    if (phase.block == Block::Alternating) {
      AlternatingButterfly butterfly(c, d, 1, c.root()[d]);
      Index own = butterfly.blockOf(butterfly.coordinate(me));
      return c.loop(butterfly.numSteps(), [&](Index i) {
        Index step = butterfly.numSteps() - 1 - i;
        c.when(own < d.size() / pow2(step + 1),
               [&] { butterfly.exchange(c, step, [&](const Rank &peer) { c.send(slice).to(peer); }); });
      });
    }
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

// Kinds.cpp ties the two lists.
dsl::CollectiveKind kindOf(KoloCollective collective) { return dsl::CollectiveKind(int(collective)); }

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
