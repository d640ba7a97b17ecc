// Trees that are packed into the links of a Frontier node.
// Source: Zhao et al., ForestColl, 2024, for the method; found by
//   kolo explore all_gather --machine frontier --nodes 1 --bytes 1G --source DIR
#include "algorithms/FrontierTrees.h"

#include <algorithm>

namespace kolo::algorithms {

namespace {

constexpr int64_t numDevices = 8;

/// What a device sends: pieces that follow each other, of a block.
struct Sending {
  int64_t block, piece, count;
};
constexpr Sending none = {-1, 0, 0};

/// Every device sends over the same distance, to the device whose number is so much larger, wrapping around.
struct Round {
  int64_t distance;
  Sending sendings[numDevices]; // by sender
  int64_t slot = 0;             // on the way back, where pieces arrive that are not the first
};

Round nothing(int64_t distance) { return {distance, {none, none, none, none, none, none, none, none}}; }

/// Edges of trees, from devices that have got the pieces along the edges of the level before.
using Level = std::vector<Round>;

const std::vector<Level> outward = {
    {
        {1, {{0, 0, 5}, none, {2, 0, 5}, none, {4, 0, 5}, none, {6, 0, 5}, none}},
        {2, {{0, 0, 5}, {1, 0, 5}, {2, 0, 5}, none, {4, 0, 5}, {5, 0, 5}, {6, 0, 5}, none}},
        {4, {none, {1, 0, 5}, none, {3, 0, 5}, none, {5, 0, 5}, none, {7, 0, 5}}},
        {6, {{0, 0, 5}, none, {2, 0, 5}, {3, 0, 5}, {4, 0, 5}, none, {6, 0, 5}, {7, 0, 5}}},
        {7, {none, {1, 0, 5}, none, {3, 0, 5}, none, {5, 0, 5}, none, {7, 0, 5}}},
    },
    {
        {1, {{2, 0, 5}, none, {0, 0, 5}, none, {2, 0, 5}, none, {0, 0, 5}, none}},
        {2, {{6, 1, 1}, {5, 0, 1}, {0, 2, 3}, none, {2, 1, 1}, {1, 0, 1}, {4, 2, 3}, none}},
        {4, {none, {0, 0, 1}, none, {2, 0, 1}, none, {4, 0, 1}, none, {6, 0, 1}}},
        {6, {{1, 1, 4}, none, {4, 1, 1}, {7, 0, 1}, {5, 1, 4}, none, {0, 1, 1}, {3, 0, 1}}},
        {7, {none, {3, 0, 5}, none, {1, 0, 5}, none, {1, 0, 5}, none, {3, 0, 5}}},
        {1, {{6, 0, 5}, none, {4, 0, 5}, none, {6, 0, 5}, none, {4, 0, 5}, none}},
        {2, {none, none, {3, 1, 4}, none, none, none, {7, 1, 4}, none}},
        {6, {{2, 2, 3}, none, none, none, {6, 2, 3}, none, none, none}},
        {7, {none, {5, 0, 5}, none, {7, 0, 5}, none, {7, 0, 5}, none, {5, 0, 5}}},
    },
    {
        {1, {{4, 1, 4}, none, {5, 1, 4}, none, {0, 1, 4}, none, {1, 1, 4}, none}},
        {7, {none, {4, 0, 1}, none, {5, 0, 1}, none, {0, 0, 1}, none, {1, 0, 1}}},
        {1, {{7, 1, 4}, none, {6, 1, 4}, none, {3, 1, 4}, none, {2, 1, 4}, none}},
        {7, {none, {7, 0, 1}, none, {6, 0, 1}, none, {3, 0, 1}, none, {2, 0, 1}}},
    },
};

/// The way back: receivers become senders, in as many rounds.
std::vector<Level> turned(std::vector<Level> levels) {
  std::ranges::reverse(levels);
  for (Level &level : levels)
    for (auto &[distance, sendings, _] : level) {
      std::ranges::rotate(sendings, std::end(sendings) - distance);
      distance = numDevices - distance;
    }
  return levels;
}

/// Pieces of a level on the way back, by where their sender has them and where they arrive.
struct Part {
  bool isOwn;   // nothing has arrived at the sender: it sends its own contribution
  bool isFirst; // nothing has arrived at the receiver: the pieces arrive in the place of the sum
  Level rounds;
};

/// Pieces of blocks that have arrived at devices.
class Arrivals {
public:
  bool has(size_t device, int64_t block, int64_t piece) const { return known[device][size_t(block)][size_t(piece)]; }
  void add(size_t device, const Sending &sending) {
    for (int64_t piece = 0; piece < sending.count; ++piece)
      known[device][size_t(sending.block)][size_t(sending.piece + piece)] = true;
  }

private:
  bool known[numDevices][numDevices][numFrontierTrees] = {};
};

/// Adds the sending of one sender to the first round of this distance, from `first` on, in which it sends nothing.
void add(Level &rounds, size_t first, int64_t distance, size_t sender, const Sending &sending) {
  auto isFree = [&](const Round &round) { return round.distance == distance && round.sendings[sender].count == 0; };
  auto round = std::ranges::find_if(rounds.begin() + std::ptrdiff_t(first), rounds.end(), isFree);
  if (round == rounds.end())
    round = rounds.insert(round, nothing(distance));
  round->sendings[sender] = sending;
}

/// The parts of a level. Pieces that a device sends at once may be of different parts.
std::vector<Part> partsOf(const Level &level, Arrivals &arrivals) {
  const Arrivals before = arrivals;
  std::vector<Part> parts = {{true, true, {}}, {true, false, {}}, {false, true, {}}, {false, false, {}}};
  for (Round open : level) {
    std::vector<size_t> firsts;
    for (const Part &part : parts)
      firsts.push_back(part.rounds.size());
    for (size_t sender = 0; sender < numDevices; ++sender)
      while (open.sendings[sender].count > 0) {
        auto &[block, piece, count] = open.sendings[sender];
        size_t receiver = (sender + size_t(open.distance)) % numDevices;
        auto partOf = [&](int64_t one) {
          return size_t(before.has(sender, block, one)) * 2 + size_t(arrivals.has(receiver, block, one));
        };
        const size_t part = partOf(piece);
        Sending now = {block, piece, 0};
        while (now.count < count && partOf(piece + now.count) == part)
          ++now.count;
        add(parts[part].rounds, firsts[part], open.distance, sender, now);
        arrivals.add(receiver, now);
        piece += now.count;
        count -= now.count;
      }
  }
  return parts;
}

/// One slot for each round in which pieces arrive beside a sum, from `numSlots` on.
void giveSlots(std::vector<Part> &parts, int64_t &numSlots) {
  for (Part &part : parts)
    for (Round &round : part.rounds)
      round.slot = part.isFirst ? 0 : numSlots++;
}

/// A level as tables; an entry of the last three belongs to a round and a sender.
class LevelTables {
public:
  explicit LevelTables(const Level &level) : LevelTables(Columns(level)) {}

  /// For what a rank sends or receives in a round: the body gets the pieces, of which block.
  template <typename Body>
  void whereSends(Choreography &c, const Dim &dim, const Index &round, const Index &sender, Body body) {
    Index entry = round * numDevices + sender % numDevices;
    c.when(dim.size() == numDevices && blocks[entry] >= 0,
           [&] { body(blocks[entry], range(firsts[entry], counts[entry])); });
  }

  Table distances, slots; // by round

private:
  struct Columns {
    explicit Columns(const Level &level) {
      for (const Round &round : level) {
        distances.push_back(round.distance);
        slots.push_back(round.slot);
        for (const Sending &sending : round.sendings) {
          blocks.push_back(sending.block);
          firsts.push_back(sending.piece);
          counts.push_back(sending.count);
        }
      }
    }
    std::vector<int64_t> distances, slots, blocks, firsts, counts;
  };
  explicit LevelTables(Columns columns)
      : distances(std::move(columns.distances)), slots(std::move(columns.slots)), blocks(std::move(columns.blocks)),
        firsts(std::move(columns.firsts)), counts(std::move(columns.counts)) {}

  Table blocks, firsts, counts;
};

/// Where a reduction finds contributions, sums and slots: see frontierTreesReduceScatter.
class Reducer {
public:
  Reducer(Choreography &c, const Dim &dim, const BlockPieces &own, const BlockPieces &sums, const BlockPieces &slots)
      : c(c), dim(dim), me(c.rank()), own(own), sums(sums), slots(slots) {}

  /// One loop, and so one phase of a pipeline: combines what has arrived along a level, and sends along the next. All
  /// pairs of other nodes send in the first phase and combine in the last.
  void combineAndSend(const std::vector<Part> &arrived, const std::vector<Part> &parts) {
    size_t numCombined = numRounds(arrived), numInAll = numCombined + numRounds(parts);
    std::vector<Step> combined = stepsOf(arrived, 0, numInAll), sent = stepsOf(parts, numCombined, numInAll);
    c.loop(int64_t(numInAll), [&](Index round) {
      for (Step &step : combined)
        combine(step, round);
      for (Step &step : sent)
        send(step, round);
      if (arrived.empty())
        c.when(dim.size() != numDevices && round == 0, [&] { sendToAll(); });
      if (parts.empty())
        c.when(dim.size() != numDevices && round == 0, [&] { combineOfAll(); });
    });
  }

private:
  struct Step {
    bool isOwn, isFirst;
    LevelTables tables;
  };

  static size_t numRounds(const std::vector<Part> &parts) {
    size_t most = 0;
    for (const Part &part : parts)
      most = std::max(most, part.rounds.size());
    return most;
  }

  /// Of parts that begin after so many rounds of a loop. They do nothing in its other rounds.
  static std::vector<Step> stepsOf(const std::vector<Part> &parts, size_t numBefore, size_t numInAll) {
    std::vector<Step> steps;
    for (auto [isOwn, isFirst, rounds] : parts)
      if (!rounds.empty()) {
        rounds.insert(rounds.begin(), numBefore, nothing(1));
        rounds.resize(numInAll, nothing(1));
        steps.push_back({isOwn, isFirst, LevelTables(rounds)});
      }
    return steps;
  }

  void combine(Step &step, const Index &round) {
    Index sender = me[dim] + numDevices - step.tables.distances[round];
    step.tables.whereSends(c, dim, round, sender, [&](const Index &block, const Selector &which) {
      c.reduce(step.isFirst ? own(block, which) : slots(step.tables.slots[round], which), sums(block, which));
    });
  }

  void send(Step &step, const Index &round) {
    step.tables.whereSends(c, dim, round, me[dim], [&](const Index &block, const Selector &which) {
      c.send(step.isOwn ? own(block, which) : sums(block, which))
          .to(me.next(dim, step.tables.distances[round]))
          .at(step.isFirst ? sums(block, which) : slots(step.tables.slots[round], which));
    });
  }

  void sendToAll() {
    Rank peer = me.others(dim);
    c.send((own ? own : sums)(peer[dim], all)).to(peer).at(slots(me[dim], all));
  }

  void combineOfAll() {
    if (own)
      c.copy(own(me[dim], all), sums(me[dim], all));
    c.loop(dim.size() - 1, [&](Index i) { c.reduce(slots((me[dim] + 1 + i) % dim.size(), all), sums(me[dim], all)); });
  }

  Choreography &c;
  const Dim &dim;
  Rank me;
  const BlockPieces &own, &sums, &slots;
};

} // namespace

void frontierTreesAllGather(Choreography &c, const Dim &dim, const BlockPieces &pieces, Location caller) {
  CalledFrom scope(c, caller);
  Rank me = c.rank();
  c.when(dim.size() != numDevices, [&] { c.send(pieces(me[dim], all)).to(me.others(dim)); });
  for (const Level &level : outward) {
    LevelTables tables(level);
    c.loop(int64_t(level.size()), [&](Index round) {
      tables.whereSends(c, dim, round, me[dim], [&](const Index &block, const Selector &which) {
        c.send(pieces(block, which)).to(me.next(dim, tables.distances[round]));
      });
    });
  }
}

void frontierTreesReduceScatter(Choreography &c, const Dim &dim, const BlockPieces &own, const BlockPieces &sums,
                                const BlockPieces &slots, Location caller) {
  CalledFrom scope(c, caller);
  Reducer reducer(c, dim, own, sums, slots);
  Arrivals arrivals;
  int64_t numSlots = 0;
  std::vector<Part> arrived;
  for (const Level &level : turned(outward)) {
    std::vector<Part> parts = own ? partsOf(level, arrivals) : std::vector<Part>{{false, false, level}};
    giveSlots(parts, numSlots);
    reducer.combineAndSend(arrived, parts);
    arrived = std::move(parts);
  }
  reducer.combineAndSend(arrived, {});
}

} // namespace kolo::algorithms
