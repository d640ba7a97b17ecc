// Every kind is right for all choices that it makes; the compiler's first phase checks that too.
#include "RandomChoreographies.h"

#include "algorithms/Blocks.h"

#include <numeric>
#include <random>

namespace kolo::proof {

namespace {

using namespace algorithms;

class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  int64_t from(int64_t least, int64_t most) { return least + int64_t(engine() % uint64_t(most - least + 1)); }
  bool oneIn(int64_t number) { return from(1, number) == 1; }
  template <class T> const T &oneOf(const std::vector<T> &values) {
    return values[size_t(from(0, int64_t(values.size()) - 1))];
  }
  std::vector<int64_t> order(int64_t number) {
    std::vector<int64_t> values(size_t(number), 0);
    std::iota(values.begin(), values.end(), 0);
    for (size_t i = values.size(); i-- > 1;)
      std::swap(values[i], values[size_t(from(0, int64_t(i)))]);
    return values;
  }

private:
  std::mt19937_64 engine;
};

using Body = std::function<void(Choreography &)>;

/// What is drawn once; the body is recorded from it.
struct Made {
  Collective collective;
  Body body;
  std::string what;
};

std::string number(int64_t value) { return std::to_string(value); }

// All-gathers.

/// In every round all ranks send to the same distance, each a block of its own choice that it has.
struct Routes {
  std::vector<int64_t> distances, blocks; // by round; by round and sender
  int64_t numRounds() const { return int64_t(distances.size()); }
};

/// A block that arrives in a round can be sent on `delay` rounds after the next one.
Routes findRoutes(Random &random, int64_t numRanks, int64_t delay) {
  Routes routes;
  std::vector<std::vector<int64_t>> since(size_t(numRanks), std::vector<int64_t>(size_t(numRanks), INT64_MAX));
  for (int64_t rank = 0; rank < numRanks; ++rank)
    since[size_t(rank)][size_t(rank)] = 0;
  auto isComplete = [&] {
    return llvm::all_of(since, [](const auto &blocks) { return !llvm::is_contained(blocks, INT64_MAX); });
  };
  for (int64_t round = 0; !isComplete(); ++round) {
    int64_t distance = round < 2 * numRanks ? random.from(1, numRanks - 1) : 1;
    routes.distances.push_back(distance);
    auto next = since;
    for (int64_t rank = 0; rank < numRanks; ++rank) {
      const auto &mine = since[size_t(rank)];
      size_t to = size_t((rank + distance) % numRanks);
      std::vector<int64_t> has, lacking;
      for (int64_t block = 0; block < numRanks; ++block)
        if (mine[size_t(block)] <= round) {
          has.push_back(block);
          if (since[to][size_t(block)] == INT64_MAX)
            lacking.push_back(block);
        }
      int64_t block = random.oneOf(lacking.empty() ? has : lacking);
      routes.blocks.push_back(block);
      next[to][size_t(block)] = std::min(next[to][size_t(block)], round + 1 + delay);
    }
    since = std::move(next);
  }
  return routes;
}

Made routedAllGather(Random &random, int64_t numRanks) {
  bool hasSlots = !random.oneIn(3);
  int64_t delay = hasSlots ? random.from(0, 2) : 0, numSlots = delay + random.from(1, 3);
  Routes routes = findRoutes(random, numRanks, delay);
  auto body = [=](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank me = c.rank();
    Index mine = me[d];
    Buffer out = c.output();
    Table distances(routes.distances), blocks(routes.blocks);
    c.copy(c.input(), out[me]);
    if (!hasSlots) {
      c.loop(routes.numRounds(),
             [&](Index r) { c.send(out[blocks[r * numRanks + mine]]).to(me.next(c.dim("rank"), distances[r])); });
      return;
    }
    Buffer slots = c.slots("slots", out, numSlots);
    c.loop(routes.numRounds() + delay, [&](Index r) {
      c.when(r < routes.numRounds(), [&] {
        Index round = min(r, routes.numRounds() - 1);
        c.send(out[blocks[round * numRanks + mine]])
            .to(me.next(c.dim("rank"), distances[round]))
            .at(slots[r % numSlots]);
      });
      c.when(r >= delay, [&] {
        Index round = max(r - delay, 0), from = (mine + numRanks - distances[round]) % numRanks;
        c.copy(slots[round % numSlots], out[blocks[round * numRanks + from]]);
      });
    });
  };
  return {AllGather, body,
          number(routes.numRounds()) + " rounds of routes" +
              (hasSlots ? ", " + number(numSlots) + " slots, delay " + number(delay) : "")};
}

/// Ranks pair up along the bits of their numbers, in a random order of bits.
Made pairedAllGather(Random &random, int64_t numRanks) {
  std::vector<int64_t> bits = random.order(int64_t(std::bit_width(uint64_t(numRanks))) - 1), spread;
  for (int64_t i = 0; i < numRanks; ++i) {
    int64_t value = 0;
    for (size_t bit = 0; bit < bits.size(); ++bit)
      value |= (i >> bit & 1) << bits[bit];
    spread.push_back(value);
  }
  auto body = [=, numSteps = int64_t(bits.size())](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank me = c.rank();
    Index mine = me[d];
    Buffer out = c.output();
    Table spreadBits(spread);
    c.copy(c.input(), out[me]);
    c.loop(numSteps, [&](Index step) {
      c.loop(pow2(step),
             [&](Index i) { c.send(out[mine ^ spreadBits[i]]).to(me.flip(c.dim("rank"), spreadBits[pow2(step)])); });
    });
  };
  return {AllGather, body, "pairs by bits"};
}

// All-reduces.

/// What is drawn of a ring that combines in slots, part by part of every block.
struct SlottedRing {
  int64_t numParts, numSlots, direction, order;
  bool hasRoundsOutside;

  Index part(const Index &i, const Index &round) const {
    switch (order) {
    case 0:
      return i;
    case 1:
      return i + round % 2 * (numParts - 1 - 2 * i); // there and back
    case 2:
      return (i + round) % numParts;
    default:
      return numParts - 1 - i;
    }
  }
};

Made slottedRingAllReduce(Random &random, int64_t) {
  SlottedRing ring{random.from(1, 5), random.from(1, 3), random.oneIn(2) ? 1 : -1, random.from(0, 3), !random.oneIn(3)};
  int64_t last = random.from(0, 2);
  auto body = [=](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank me = c.rank();
    Index mine = me[d], numRounds = d.size() - 1;
    Buffer out = c.inPlace().grid(d, ring.numParts);
    Buffer arrived = c.slots("arrived", out, {ring.numSlots, ring.numParts});
    auto step = [&](const Index &s, const Index &p) {
      Index slot = s % ring.numSlots;
      c.send(out[{mine - ring.direction * (1 + s), p}])
          .to(me.next(c.dim("rank"), ring.direction))
          .at(arrived[{slot, p}]);
      c.reduce(arrived[{slot, p}], out[{mine - ring.direction * (2 + s), p}]);
    };
    if (ring.hasRoundsOutside)
      c.loop(numRounds, [&](Index s) { c.loop(ring.numParts, [&](Index i) { step(s, ring.part(i, s)); }); });
    else
      c.loop(ring.numParts, [&](Index i) { c.loop(numRounds, [&](Index s) { step(s, i); }); });
    Blocks blocks = [&](Selector i) { return out[{i, all}]; };
    if (last == 0)
      ringAllGather(c, d, blocks, int(ring.direction));
    else if (last == 1)
      allPairsAllGather(c, d, blocks);
    else
      bruckAllGather(c, d, blocks);
  };
  return {AllReduce, body,
          "a ring of " + number(ring.numParts) + " parts, " + number(ring.numSlots) + " slots, order " +
              number(ring.order) + (ring.hasRoundsOutside ? "" : ", rounds inside") + ", then all-gather " +
              number(last)};
}

Made stripedRings(Random &random, int64_t) {
  int numStripes = int(random.from(2, 3));
  bool isOnlyGather = random.oneIn(2);
  auto body = [=](Choreography &c) {
    auto [d] = c.dims<1>();
    Buffer out = isOnlyGather ? c.output() : c.inPlace().grid(d);
    if (isOnlyGather)
      c.copy(c.input(), out[c.rank()]);
    c.stripe(numStripes, [&](int variant) {
      int direction = variant % 2 == 0 ? 1 : -1;
      if (!isOnlyGather)
        ringReduceScatter(c, c.dim("rank"), out, direction);
      ringAllGather(c, c.dim("rank"), out, direction);
    });
  };
  return {isOnlyGather ? AllGather : AllReduce, body, number(numStripes) + " stripes of rings"};
}

// Trees. Of every rank but the first, a parent that is nearer to the root; ranks count from the root.

struct Tree {
  int64_t fanOut;               // 0: by the table, or else of the parent of number i + 1 is i / fanOut
  std::vector<int64_t> parents; // of number i + 1
  std::string what() const { return fanOut ? "a tree of " + number(fanOut) : "a random tree"; }
  Index parent(const Index &i) const { return fanOut ? i / fanOut : Table(parents)[i]; }
};

Tree drawTree(Random &random, int64_t numRanks) {
  Tree tree{random.oneIn(2) ? 0 : random.oneOf<int64_t>({1, 2, 3, 1024}), {}};
  for (int64_t i = 0; i + 1 < numRanks; ++i)
    tree.parents.push_back(random.from(0, i));
  return tree;
}

/// From the root on, one child after the other.
void spread(Choreography &c, const Tree &tree, const Index &distance, const Dim &d,
            const std::function<Slice(const Index &)> &slice, int64_t numParts, bool hasPartsOutside) {
  auto step = [&](const Index &i, const Index &part) {
    Index parent = tree.parent(i);
    c.when(distance == parent, [&] { c.send(slice(part)).to(c.rank().next(d, i + 1 - parent)); });
  };
  if (hasPartsOutside)
    c.loop(numParts, [&](Index part) { c.loop(d.size() - 1, [&](Index i) { step(i, part); }); });
  else
    c.loop(d.size() - 1, [&](Index i) { c.loop(numParts, [&](Index part) { step(i, part); }); });
}

Made treeBroadcast(Random &random, int64_t numRanks) {
  Tree tree = drawTree(random, numRanks);
  int64_t numParts = random.from(1, 4);
  bool hasPartsOutside = random.oneIn(2);
  auto body = [=](Choreography &c) {
    auto [d] = c.dims<1>();
    Buffer in = c.input().grid(numParts), out = c.output().grid(numParts);
    Index distance = (c.rank()[d] - c.root()[d]) % d.size();
    c.when(distance == 0, [&] { c.copy(in[all], out[all]); });
    spread(c, tree, distance, d, [&](const Index &part) { return out[part]; }, numParts, hasPartsOutside);
  };
  return {Broadcast, body, tree.what() + ", " + number(numParts) + " parts" + (hasPartsOutside ? " outside" : "")};
}

Made treeScatter(Random &random, int64_t numRanks) {
  Tree tree = drawTree(random, numRanks);
  bool hasPartsOutside = random.oneIn(2);
  auto body = [=](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank me = c.rank();
    Buffer in = c.input(), stage = c.scratch("stage", in);
    Index distance = (me[d] - c.root()[d]) % d.size();
    c.when(distance == 0, [&] { c.copy(in[all], stage[all]); });
    spread(c, tree, distance, d, [&](const Index &part) { return stage[part]; }, numRanks, hasPartsOutside);
    c.copy(stage[me], c.output());
  };
  return {Scatter, body, tree.what() + (hasPartsOutside ? ", parts outside" : "")};
}

/// Towards the root, the last child first.
void collect(Choreography &c, const Tree &tree, const Index &distance, const Dim &d, const Buffer &sum,
             const std::optional<Buffer> &slots, int64_t numSlots) {
  c.loop(d.size() - 1, [&](Index step) {
    Index i = d.size() - 2 - step, parent = tree.parent(i);
    Rank to = c.rank().next(d, parent - i - 1);
    c.when(distance == i + 1, [&] {
      if (slots)
        c.send(sum).to(to).at((*slots)[step % numSlots]);
      else
        c.send(sum).to(to).reduce();
    });
    if (slots)
      c.when(distance == parent, [&] { c.reduce((*slots)[step % numSlots], sum); });
  });
}

Made treeReduce(Random &random, int64_t numRanks) {
  Tree up = drawTree(random, numRanks), down = drawTree(random, numRanks);
  int64_t numSlots = random.from(0, 2);
  bool isRooted = random.oneIn(2);
  auto body = [=](Choreography &c) {
    auto [d] = c.dims<1>();
    Buffer in = c.input(), sum = c.scratch("sum", in);
    Index distance = isRooted ? (c.rank()[d] - c.root()[d]) % d.size() : c.rank()[d];
    std::optional<Buffer> slots;
    if (numSlots)
      slots = c.slots("slots", sum, numSlots);
    c.copy(in, sum);
    collect(c, up, distance, d, sum, slots, numSlots);
    if (isRooted)
      return c.when(distance == 0, [&] { c.copy(sum, c.output()); });
    spread(c, down, distance, d, [&](const Index &) { return Slice(sum); }, 1, false);
    c.copy(sum, c.output());
  };
  return {isRooted ? Reduce : AllReduce, body, up.what() + " with " + number(numSlots) + " slots"};
}

/// The rank that is furthest from the root sends first; each adds its block.
Made chainGather(Random &random, int64_t) {
  bool isWhole = random.oneIn(2);
  auto body = [=](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank me = c.rank();
    Buffer out = c.output(), stage = c.scratch("stage", out);
    Index distance = (me[d] - c.root()[d]) % d.size();
    c.copy(c.input(), stage[me]);
    c.loop(d.size() - 1, [&, d = d](Index i) {
      Index from = d.size() - 1 - i;
      c.when(distance == from, [&] {
        if (isWhole)
          c.send(stage[range(me[d], i + 1)]).to(me.next(d, -1));
        else
          c.loop(i + 1, [&](Index k) { c.send(stage[me[d] + k]).to(me.next(d, -1)); });
      });
    });
    c.when(distance == 0, [&] { c.copy(stage, out); });
  };
  return {Gather, body, isWhole ? "a chain" : "a chain, block by block"};
}

Made shiftedAllToAll(Random &random, int64_t numRanks) {
  std::vector<int64_t> distances = random.order(numRanks - 1);
  int64_t numSlots = random.from(0, 3);
  bool isTabled = random.oneIn(2);
  auto body = [=](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank me = c.rank();
    Index mine = me[d];
    Buffer in = c.input(), out = c.output();
    std::optional<Buffer> slots;
    if (numSlots)
      slots = c.slots("slots", out, numSlots);
    c.copy(in[me], out[me]);
    c.loop(d.size() - 1, [&, d = d](Index r) {
      Index distance = isTabled ? 1 + Table(distances)[r] : d.size() - 1 - r;
      Rank to = me.next(d, distance);
      if (!slots)
        return (void)c.send(in[mine + distance]).to(to).at(out[me]);
      c.send(in[mine + distance]).to(to).at((*slots)[r % numSlots]);
      c.copy((*slots)[r % numSlots], out[mine - distance]);
    });
  };
  return {AllToAll, body,
          std::string(isTabled ? "distances by a table, " : "distances, ") + number(numSlots) + " slots"};
}

// On two dimensions.

void gather(Choreography &c, const Dim &dim, const Blocks &blocks, int64_t way) {
  if (way == 0)
    ringAllGather(c, dim, blocks);
  else if (way == 1)
    ringAllGather(c, dim, blocks, -1);
  else if (way == 2)
    bruckAllGather(c, dim, blocks);
  else
    allPairsAllGather(c, dim, blocks);
}

Made gridAllGather(Random &random, int64_t) {
  int64_t first = random.from(0, 3), second = random.from(0, 3);
  bool isNodeFirst = random.oneIn(2);
  auto body = [=](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    Rank me = c.rank();
    Buffer out = c.output();
    c.copy(c.input(), out[me]);
    if (isNodeFirst) {
      gather(c, node, [&, gpu = gpu](Selector i) { return out[{i, me[gpu]}]; }, first);
      gather(c, gpu, [&](Selector i) { return out[{all, i}]; }, second);
    } else {
      gather(c, gpu, [&, node = node](Selector i) { return out[{me[node], i}]; }, first);
      gather(c, node, [&](Selector i) { return out[{i, all}]; }, second);
    }
  };
  return {AllGather, body, "grid " + number(first) + number(second) + (isNodeFirst ? ", nodes first" : "")};
}

Made gridAllReduce(Random &random, int64_t) {
  int64_t first = random.from(0, 3), second = random.from(0, 3), numSlots = random.from(0, 2);
  bool sharesByPairs = random.oneIn(2);
  auto body = [=](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    Rank me = c.rank();
    Buffer in = c.input().grid(gpu, node), out = c.output().grid(gpu, node);
    Blocks share = [&](Selector i) { return out[{i, all}]; };
    Blocks own = [&, gpu = gpu](Selector i) { return out[{me[gpu], i}]; };
    if (sharesByPairs) {
      c.copy(in[{me[gpu], all}], share(me[gpu]));
      allPairsReduceScatter(c, gpu, [&](Selector i) { return in[{i, all}]; }, share);
    } else {
      c.copy(in[{all, all}], out[{all, all}]);
      ringReduceScatter(c, gpu, share);
    }
    if (numSlots) {
      Buffer slots = c.slots("slots", out, numSlots);
      slottedRingReduceScatter(c, node, own, [&](Selector) { return slots[0]; });
    } else {
      ringReduceScatter(c, node, own);
    }
    gather(c, node, own, first);
    gather(c, gpu, share, second);
  };
  return {AllReduce, body,
          "grid " + number(first) + number(second) + (sharesByPairs ? " by pairs" : "") +
              (numSlots ? ", one slot" : "")};
}

} // namespace

RandomChoreography randomChoreography(uint64_t seed) {
  Random random(seed);
  using Kind = Made (*)(Random &, int64_t);
  static const std::vector<Kind> kinds{routedAllGather, routedAllGather, slottedRingAllReduce, slottedRingAllReduce,
                                       stripedRings,    treeBroadcast,   treeScatter,          treeReduce,
                                       treeReduce,      chainGather,     shiftedAllToAll,      pairedAllGather,
                                       gridAllGather,   gridAllReduce};
  Kind kind = random.oneOf(kinds);
  bool isGrid = kind == gridAllGather || kind == gridAllReduce;
  Sizes mesh{random.from(2, 16)};
  if (kind == pairedAllGather)
    mesh = {int64_t(1) << random.from(1, 4)};
  if (isGrid)
    mesh =
        random.oneOf<Sizes>({{2, 2}, {2, 3}, {3, 2}, {2, 4}, {4, 2}, {3, 3}, {3, 4}, {4, 4}, {2, 8}, {8, 2}, {5, 3}});
  Made made = kind(random, mesh.front());
  dsl::Mesh dims = isGrid ? dsl::Mesh("node", "gpu") : dsl::Mesh("rank");
  return {{"random", made.collective, dims, made.body, std::source_location::current()}, mesh, made.what};
}

} // namespace kolo::proof
