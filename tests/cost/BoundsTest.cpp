#include "Support.h"

#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>

using namespace kolo::cost;
using Json = nlohmann::ordered_json;

/// Gigabytes per second of the larger buffer of one rank that the bound allows.
static double reach(const Machine &machine, int64_t nodes, KoloCollective collective) {
  return 1 / LowerBounds(machine, allDevices(machine, nodes)).of(collective, 1'000'000'000).bandwidthSeconds;
}

TEST(Bounds, OneFrontierNode) {
  Machine frontier = machineCalled("frontier");
  EXPECT_NEAR(reach(frontier, 1, KOLO_ALL_GATHER), 333.333, 1e-3);
  EXPECT_NEAR(reach(frontier, 1, KOLO_REDUCE_SCATTER), 333.333, 1e-3);
  EXPECT_NEAR(reach(frontier, 1, KOLO_ALL_REDUCE), 166.667, 1e-3);
  EXPECT_NEAR(reach(frontier, 1, KOLO_ALL_TO_ALL), 150, 1e-3);
  LowerBounds bounds(frontier, allDevices(frontier, 1));
  EXPECT_EQ(bounds.of(KOLO_ALL_GATHER, 1 << 20).bottleneck, "into {GCD 0, GCD 1}");
  EXPECT_EQ(bounds.of(KOLO_ALL_TO_ALL, 1 << 20).bottleneck, "into {GCD 0, GCD 1, GCD 2, GCD 3}");
}

TEST(Bounds, ManyFrontierNodes) {
  Machine frontier = machineCalled("frontier");
  for (int64_t nodes : {2, 4, 16, 128, 256, 1024, 9408}) {
    double share = double(nodes) / double(nodes - 1);
    EXPECT_NEAR(reach(frontier, nodes, KOLO_ALL_GATHER), 100 * share, 1e-6) << nodes;
    EXPECT_NEAR(reach(frontier, nodes, KOLO_REDUCE_SCATTER), 100 * share, 1e-6) << nodes;
    EXPECT_NEAR(reach(frontier, nodes, KOLO_ALL_REDUCE), 50 * share, 1e-6) << nodes;
    // A group of 1,024 ranks sends to all ranks outside, over 7.3 TB/s.
    double taper = nodes > 128 ? 7300 / (1024 * (1 - 128.0 / double(nodes))) : 1e9;
    EXPECT_NEAR(reach(frontier, nodes, KOLO_ALL_TO_ALL), std::min(12.5 * share, taper), 1e-6) << nodes;
  }
  EXPECT_EQ(lowerBound(frontier, allDevices(frontier, 9408), KOLO_ALL_TO_ALL, 1 << 30).bottleneck, "into a group");
  EXPECT_EQ(lowerBound(frontier, allDevices(frontier, 16), KOLO_ALL_TO_ALL, 1 << 30).bottleneck, "into a node");
}

TEST(Bounds, OnePortPerRankIsTheTextbooksModel) {
  Machine machine = machineCalled(KOLO_TEST_MACHINES "/alpha-beta.json");
  EXPECT_NEAR(reach(machine, 1, KOLO_ALL_GATHER), 25 * 8 / 7.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_SCATTER), 25 * 8 / 7.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_GATHER), 25 * 8 / 7.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_ALL_TO_ALL), 25 * 8 / 7.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_ALL_REDUCE), 12.5 * 8 / 7.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_BROADCAST), 25, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_REDUCE), 25, 1e-9);
}

TEST(Bounds, SwitchesLimitByTheirCapacity) {
  Json file = Json::parse(R"({"version": 1, "name": "s", "title": "s", "nodes": 1,
    "node": {"devices": {"name": "d", "count": 4}, "switches": [{"name": "hub", "gigabytesPerSecond": 20}]},
    "linkClasses": [{"name": "link", "gigabytesPerSecond": 50,
                     "latencyMicroseconds": {"bulk": 1, "ll": 1, "ll128": 1}}],
    "payloadShare": {"ll": 0.5, "ll128": 0.9375}})");
  for (const char *device : {"d 0", "d 1", "d 2", "d 3"})
    file["node"]["links"].push_back({{"from", device}, {"to", "hub"}, {"class", "link"}, {"count", 1}});
  EXPECT_NEAR(reach(parsed(file), 1, KOLO_BROADCAST), 20, 1e-9);
  file["node"]["switches"][0]["gigabytesPerSecond"] = 70;
  EXPECT_NEAR(reach(parsed(file), 1, KOLO_BROADCAST), 50, 1e-9);
}

TEST(Bounds, LatencyIsThatOfTheFarthestPairWithTheFastestProtocol) {
  Machine frontier = machineCalled("frontier");
  auto latency = [&](int64_t nodes, KoloCollective collective) {
    return lowerBound(frontier, allDevices(frontier, nodes), collective, 8).latencySeconds * 1e6;
  };
  EXPECT_NEAR(latency(1, KOLO_ALL_GATHER), 2 * 0.8, 1e-9);
  EXPECT_NEAR(latency(2, KOLO_ALL_GATHER), 0.8 + 9.5 + 0.8, 1e-9);
  EXPECT_NEAR(latency(2, KOLO_BROADCAST), 9.5 + 0.8, 1e-9); // the best root is beside a NIC
  EXPECT_NEAR(latency(256, KOLO_ALL_REDUCE), 0.8 + 10.2 + 0.8, 1e-9);
  Machine ring = machineCalled("ring8");
  EXPECT_NEAR(lowerBound(ring, allDevices(ring, 1), KOLO_ALL_GATHER, 8).seconds * 1e6, 4, 1e-9);
}

/// Of any two sets of ranks, one has a rank that comes after a rank of the other, and needs what that one has.
TEST(Bounds, OfScansAreThoseOfTheTightestCut) {
  Machine ring = machineCalled("ring8"), frontier = machineCalled("frontier");
  for (KoloCollective collective : {KOLO_SCAN, KOLO_EXSCAN}) {
    EXPECT_NEAR(reach(ring, 1, collective), reach(ring, 1, KOLO_BROADCAST), 1e-9);
    EXPECT_NEAR(lowerBound(frontier, allDevices(frontier, 16), collective, 8).latencySeconds,
                lowerBound(frontier, allDevices(frontier, 16), KOLO_ALL_REDUCE, 8).latencySeconds, 1e-12);
    EXPECT_EQ(lowerBound(frontier, allDevices(frontier, 16), collective, 1 << 30).bottleneck, "into or out of a node");
  }
}

TEST(Bounds, OneRankNeedsNoTime) {
  Machine frontier = machineCalled("frontier");
  auto one = std::get<Placement>(Placement::create(frontier, {{"rank"}, {1}}));
  for (int collective = 0; collective < KOLO_NUM_COLLECTIVES; ++collective)
    EXPECT_EQ(lowerBound(frontier, one, KoloCollective(collective), 1 << 30).seconds, 0) << collective;
}

TEST(Bounds, TooManyCutsAreSaidAndStillGiveABound) {
  std::vector<std::array<int, 3>> links;
  constexpr int devices = 32;
  for (int device = 0; device < devices; ++device)
    links.push_back({device, (device + 1) % devices, 10});
  Machine ring = parsed(machineOf(devices, links));
  LowerBound bound = lowerBound(ring, allDevices(ring, 1), KOLO_ALL_TO_ALL, 1'000'000'000);
  EXPECT_FALSE(bound.triesAllCuts);
  double exact = 16 * 16 / 32.0 / 20;
  EXPECT_LE(bound.bandwidthSeconds, exact);
  EXPECT_GE(bound.bandwidthSeconds, 0.99 * exact);
  EXPECT_NEAR(reach(ring, 1, KOLO_ALL_GATHER), 20 * 32 / 31.0, 1e-9);
}

TEST(Bounds, TheWholeOfFrontierTakesLessThanAMillisecond) {
  Machine frontier = machineCalled("frontier");
  Placement placement = allDevices(frontier, 9408);
  double least = 1;
  for (int times = 0; times < 20; ++times) {
    auto start = std::chrono::steady_clock::now();
    LowerBounds bounds(frontier, placement);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  EXPECT_LT(least, 1e-3);
}

namespace {

/// An independent oracle: a graph with edges of both directions, and flows by the shortest augmenting path.
class Oracle {
public:
  Oracle(size_t numVertices, std::vector<int> ranks)
      : capacity(numVertices, std::vector<double>(numVertices)), ranks(std::move(ranks)) {}
  void link(int a, int b, double bandwidth) {
    capacity[size_t(a)][size_t(b)] += bandwidth;
    capacity[size_t(b)][size_t(a)] += bandwidth;
  }

  /// From a source with an edge of such a capacity to each rank.
  double flow(const std::vector<double> &fromSource, const std::vector<bool> &isSink) const {
    size_t count = capacity.size(), source = count, sink = count + 1;
    auto left = capacity;
    for (auto &row : left)
      row.resize(count + 2);
    left.resize(count + 2, std::vector<double>(count + 2));
    for (size_t k = 0; k < ranks.size(); ++k) {
      left[source][size_t(ranks[k])] = fromSource[k];
      left[size_t(ranks[k])][sink] = isSink[k] ? infinite : 0;
    }
    double sum = 0;
    for (;;) {
      std::vector<size_t> from(count + 2, SIZE_MAX);
      from[source] = source;
      for (std::deque<size_t> queue = {source}; !queue.empty(); queue.pop_front())
        for (size_t next = 0; next < count + 2; ++next)
          if (from[next] == SIZE_MAX && left[queue.front()][next] > 1e-12) {
            from[next] = queue.front();
            queue.push_back(next);
          }
      if (from[sink] == SIZE_MAX)
        return sum;
      double most = infinite;
      for (size_t at = sink; at != source; at = from[at])
        most = std::min(most, left[from[at]][at]);
      for (size_t at = sink; at != source; at = from[at]) {
        left[from[at]][at] -= most;
        left[at][from[at]] += most;
      }
      sum += most;
    }
  }

  /// What can leave a set of ranks.
  double cut(unsigned set) const {
    std::vector<double> inside(ranks.size());
    std::vector<bool> outside(ranks.size());
    for (size_t k = 0; k < ranks.size(); ++k)
      (set >> k & 1 ? inside[k] = infinite : 0, outside[k] = !(set >> k & 1));
    return flow(inside, outside);
  }

  /// Whether all ranks can get `rate` from every rank: ForestColl, theorem 1.
  bool spreads(double rate) const {
    for (size_t k = 0; k < ranks.size(); ++k) {
      std::vector<bool> isSink(ranks.size());
      isSink[k] = true;
      if (flow(std::vector<double>(ranks.size(), rate), isSink) < rate * double(ranks.size()) * (1 - 1e-9))
        return false;
    }
    return true;
  }

  double allToAll() const {
    double most = 0, all = double(ranks.size());
    for (unsigned set = 1; set + 1 < 1u << ranks.size(); ++set) {
      double inside = __builtin_popcount(set);
      most = std::max(most, inside * (all - inside) / all / cut(set));
    }
    return most;
  }

  /// Over all partitions, each rank joining an earlier part or a new one.
  double allReduce() const {
    std::vector<double> cuts(size_t(1) << ranks.size());
    for (unsigned set = 1; set + 1 < 1u << ranks.size(); ++set)
      cuts[set] = cut(set);
    double most = 0;
    std::vector<unsigned> parts;
    std::function<void(size_t)> place = [&](size_t rank) {
      if (rank == ranks.size()) {
        double sum = 0;
        for (unsigned part : parts)
          sum += cuts[part];
        if (parts.size() > 1)
          most = std::max(most, 2 * double(parts.size() - 1) / sum);
        return;
      }
      for (size_t part = 0; part < parts.size(); ++part) {
        parts[part] |= 1u << rank;
        place(rank + 1);
        parts[part] &= ~(1u << rank);
      }
      parts.push_back(1u << rank);
      place(rank + 1);
      parts.pop_back();
    };
    place(0);
    return most;
  }

  /// Seconds per byte with the best root.
  double broadcast() const {
    double least = infinite;
    for (size_t root = 0; root < ranks.size(); ++root) {
      double slowest = 0;
      for (size_t k = 0; k < ranks.size(); ++k) {
        std::vector<double> fromSource(ranks.size());
        std::vector<bool> isSink(ranks.size());
        fromSource[root] = infinite;
        isSink[k] = true;
        slowest = std::max(slowest, k == root ? 0 : 1 / flow(fromSource, isSink));
      }
      least = std::min(least, slowest);
    }
    return least;
  }

  /// Whether the best root can get `rate` from every other rank.
  bool gathers(double rate) const {
    for (size_t root = 0; root < ranks.size(); ++root) {
      std::vector<double> fromSource(ranks.size(), rate);
      std::vector<bool> isSink(ranks.size());
      fromSource[root] = 0;
      isSink[root] = true;
      if (flow(fromSource, isSink) >= rate * double(ranks.size() - 1) * (1 - 1e-9))
        return true;
    }
    return false;
  }

private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> capacity;
  std::vector<int> ranks;
};

/// A connected random graph: devices, of which the first ones have ranks, and perhaps a switch.
struct RandomMachine {
  explicit RandomMachine(unsigned seed) : random(seed) {
    devices = pick(3, 7);
    used = pick(3, devices);
    bool hasSwitch = pick(0, 1);
    vertices = devices + hasSwitch;
    for (int vertex = 1; vertex < vertices; ++vertex)
      link(pick(0, vertex - 1), vertex);
    for (int times = pick(0, 8); times > 0; --times)
      link(pick(0, vertices - 1), pick(0, vertices - 1));
    file = machineOf(devices, {});
    if (hasSwitch)
      file["node"]["switches"] = {{{"name", "switch"}}};
    auto nameOf = [&](int vertex) { return vertex < devices ? "d " + std::to_string(vertex) : "switch"; };
    for (auto [ends, count] : links)
      file["node"]["links"].push_back(
          {{"from", nameOf(ends.first)}, {"to", nameOf(ends.second)}, {"class", "link"}, {"count", count}});
  }
  int pick(int least, int most) { return std::uniform_int_distribution(least, most)(random); }
  void link(int a, int b) {
    if (a != b)
      links[std::minmax(a, b)] = pick(1, 9);
  }

  std::mt19937 random;
  int devices, used, vertices;
  std::map<std::pair<int, int>, int> links;
  Json file;
};

} // namespace

TEST(Bounds, AllCutsOfRandomNodesAsMaxFlowsFindThem) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomMachine random(seed);
    Machine machine = parsed(random.file);
    std::vector<int> ranks(size_t(random.used), 0);
    std::iota(ranks.begin(), ranks.end(), 0);
    Oracle oracle(size_t(random.vertices), ranks);
    for (auto [ends, count] : random.links)
      oracle.link(ends.first, ends.second, count);
    LowerBounds bounds(machine, std::get<Placement>(Placement::create(machine, {{"rank"}, {random.used}})));
    auto seconds = [&](KoloCollective collective) { return bounds.of(collective, 1'000'000'000).bandwidthSeconds; };
    double perRank = 1.0 / random.used;
    for (KoloCollective collective : {KOLO_ALL_GATHER, KOLO_REDUCE_SCATTER}) {
      EXPECT_TRUE(oracle.spreads(perRank / seconds(collective) * 0.999999));
      EXPECT_FALSE(oracle.spreads(perRank / seconds(collective) * 1.000001));
    }
    for (KoloCollective collective : {KOLO_GATHER, KOLO_SCATTER}) {
      EXPECT_TRUE(oracle.gathers(perRank / seconds(collective) * 0.999999));
      EXPECT_FALSE(oracle.gathers(perRank / seconds(collective) * 1.000001));
    }
    EXPECT_NEAR(seconds(KOLO_BROADCAST), oracle.broadcast(), 1e-9);
    EXPECT_NEAR(seconds(KOLO_REDUCE), oracle.broadcast(), 1e-9);
    EXPECT_NEAR(seconds(KOLO_ALL_TO_ALL), oracle.allToAll(), 1e-9);
    EXPECT_NEAR(seconds(KOLO_ALL_REDUCE), oracle.allReduce(), 1e-9);
  }
}

/// Nodes with a NIC on some devices, in units of two, as one graph: no bound may exceed what its cuts allow.
TEST(Bounds, AcrossRandomNodesNoBoundExceedsTheWholeGraphs) {
  int exact = 0;
  constexpr int numSeeds = 20;
  for (unsigned seed = 0; seed < numSeeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto pick = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
    int devices = pick(2, 3), nodes = pick(2, 3), exit = pick(1, 8);
    std::vector<std::array<int, 3>> links;
    for (int device = 1; device < devices; ++device)
      links.push_back({pick(0, device - 1), device, pick(1, 9)});
    Json file = machineOf(devices, links);
    std::vector<int> wires(size_t(devices), 0);
    for (int device = 0; device < devices; ++device)
      if (device == 0 || pick(0, 1)) {
        wires[size_t(device)] = pick(1, 6);
        std::string nic = "nic " + std::to_string(device), wire = "wire " + std::to_string(device);
        Json kind = file["linkClasses"][0];
        kind["name"] = wire;
        kind["gigabytesPerSecond"] = wires[size_t(device)];
        file["linkClasses"].push_back(kind);
        file["node"]["nics"].push_back({{"name", nic}, {"class", wire}});
        file["node"]["links"].push_back(
            {{"from", "d " + std::to_string(device)}, {"to", nic}, {"class", "link"}, {"count", 9}});
      }
    file["nodes"] = 4;
    Json latency = file["linkClasses"][0]["latencyMicroseconds"];
    file["levels"] = {{{"name", "unit"}, {"nodes", 2}, {"gigabytesPerSecond", exit}, {"latencyMicroseconds", latency}},
                      {{"name", "all"}, {"nodes", 4}, {"latencyMicroseconds", latency}}};
    Machine machine = parsed(file);
    int unit = devices * nodes; // the vertices of two units, then that of all
    std::vector<int> ranks(size_t(unit), 0);
    std::iota(ranks.begin(), ranks.end(), 0);
    Oracle oracle(size_t(unit) + 3, ranks);
    for (int node = 0; node < nodes; ++node) {
      for (auto [from, to, bandwidth] : links)
        oracle.link(node * devices + from, node * devices + to, bandwidth);
      for (int device = 0; device < devices; ++device)
        oracle.link(node * devices + device, unit + node / 2, wires[size_t(device)]);
    }
    oracle.link(unit, unit + 2, exit);
    oracle.link(unit + 1, unit + 2, exit);
    LowerBounds bounds(machine, allDevices(machine, nodes));
    auto seconds = [&](KoloCollective collective) { return bounds.of(collective, 1'000'000'000).bandwidthSeconds; };
    double perRank = 1.0 / (devices * nodes);
    EXPECT_FALSE(oracle.spreads(perRank / seconds(KOLO_ALL_GATHER) * 1.000001));
    exact += oracle.spreads(perRank / seconds(KOLO_ALL_GATHER) * 0.999999);
    EXPECT_LE(seconds(KOLO_BROADCAST), oracle.broadcast() * 1.000001);
    EXPECT_FALSE(oracle.gathers(perRank / seconds(KOLO_GATHER) * 1.000001));
    EXPECT_LE(seconds(KOLO_ALL_TO_ALL), oracle.allToAll() * 1.000001);
    if (devices * nodes <= 8)
      EXPECT_LE(seconds(KOLO_ALL_REDUCE), oracle.allReduce() * 1.000001);
  }
  EXPECT_GE(exact, numSeeds * 3 / 4); // of all-gather: what the levels leave out hardly matters
}

TEST(Bounds, LinksThatAreFasterForSmallCallsBoundTheseByThat) {
  Json file = machineOf(2, {{0, 1, 1}});
  file["linkClasses"][0]["bySize"] = {{{"upToBytes", 1 << 20}, {"gigabytesPerSecond", 4}},
                                      {{"upToBytes", 1 << 24}, {"gigabytesPerSecond", 8}}};
  Machine machine = parsed(file);
  LowerBounds bounds(machine, allDevices(machine, 1));
  auto gigabytesPerSecond = [&](int64_t bytes) {
    return double(bytes) / bounds.of(KOLO_BROADCAST, bytes).bandwidthSeconds / 1e9;
  };
  EXPECT_NEAR(gigabytesPerSecond(1), 8, 1e-9); // a working set may be larger than the call
  EXPECT_NEAR(gigabytesPerSecond(1 << 24), 8, 1e-9);
  EXPECT_NEAR(gigabytesPerSecond((1 << 24) + 1), 1, 1e-9);
}

TEST(Bounds, CoresThatShareAMemoryReadEveryInputAndWriteEveryOutput) {
  Json file = machineOf(4, {{0, 1, 100}, {1, 2, 100}, {2, 3, 100}, {3, 0, 100}});
  file["node"]["devices"]["memory"] = {{"gigabytesPerSecond", 12}, {"isShared", true}};
  Machine machine = parsed(file);
  EXPECT_NEAR(reach(machine, 1, KOLO_ALL_GATHER), 12 / 4.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_BROADCAST), 12 / 4.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_REDUCE_SCATTER), 12 / 5.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_REDUCE), 12 / 5.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_ALL_REDUCE), 12 / 8.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_ALL_TO_ALL), 12 / 6.0, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_GATHER), 12 / 1.5, 1e-9);
  EXPECT_NEAR(reach(machine, 1, KOLO_SCATTER), 12 / 1.5, 1e-9);
  EXPECT_EQ(lowerBound(machine, allDevices(machine, 1), KOLO_GATHER, 1 << 30).bottleneck, "memory");
}
