// Classes of alike resources: hand-made cases, and random ones against comparing flows one by one.
#include "compiler/cost/simulation/AlikeResources.h"
#include "tests/support/Support.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

namespace kolo::cost {
namespace {

/// Resources and kinds, with a kind without flows for each resource, which tells its class.
class Sample {
public:
  struct Use {
    uint32_t resource;
    double load;
  };
  struct Kind {
    double cap;
    std::vector<Use> uses;
    uint32_t numFlows = 0;
  };

  uint32_t addResource(double bandwidth) {
    uint32_t number = alike.addResource(bandwidth);
    bandwidths.push_back(bandwidth);
    alike.enter(number);
    kinds.push_back({0, {}});
    alike.addKind(uint32_t(kinds.size() - 1), 0);
    alike.addUse(uint32_t(kinds.size() - 1), number, 1);
    probes.push_back(uint32_t(kinds.size() - 1));
    return number;
  }
  uint32_t addKind(double cap, const std::vector<Use> &uses, int numFlows) {
    uint32_t number = uint32_t(kinds.size());
    kinds.push_back({cap, uses});
    alike.addKind(number, cap);
    for (const Use &use : uses)
      alike.addUse(number, use.resource, use.load);
    for (int flow = 0; flow < numFlows; ++flow)
      addFlow(number);
    return number;
  }
  void addFlow(uint32_t kind) {
    alike.addFlow(kind);
    ++kinds[kind].numFlows;
  }
  void removeFlow(uint32_t kind) {
    alike.removeFlow(kind);
    --kinds[kind].numFlows;
  }
  uint32_t classOf(uint32_t resource) const {
    std::vector<ResourceUse> found;
    alike.findUses(probes[resource], found);
    return found.at(0).resource;
  }
  /// By resource: the least resource of its class.
  std::vector<uint32_t> classes() const {
    std::map<uint32_t, uint32_t> first;
    std::vector<uint32_t> result;
    for (uint32_t resource = 0; resource < bandwidths.size(); ++resource)
      result.push_back(first.try_emplace(classOf(resource), resource).first->second);
    return result;
  }
  /// The largest classes that are parts of the given ones: those part until all resources of each have the same flows.
  std::vector<uint32_t> refined(std::vector<uint32_t> classes) const {
    while (true) {
      using Color = std::tuple<double, std::multiset<std::pair<uint32_t, double>>>;
      std::vector<std::multiset<std::pair<Color, double>>> flows(bandwidths.size());
      for (const Kind &kind : kinds) {
        Color color{kind.cap, {}};
        for (const Use &use : kind.uses)
          std::get<1>(color).emplace(classes[use.resource], use.load);
        for (uint32_t flow = 0; flow < kind.numFlows; ++flow)
          for (const Use &use : kind.uses)
            flows[use.resource].emplace(color, use.load);
      }
      std::map<std::tuple<uint32_t, double, std::multiset<std::pair<Color, double>>>, uint32_t> first;
      std::vector<uint32_t> next;
      for (uint32_t resource = 0; resource < bandwidths.size(); ++resource)
        next.push_back(
            first.try_emplace({classes[resource], bandwidths[resource], flows[resource]}, resource).first->second);
      if (next == classes)
        return classes;
      classes = next;
    }
  }

  AlikeResources alike;
  std::vector<double> bandwidths;
  std::vector<Kind> kinds;
  std::vector<uint32_t> probes;
};

TEST(AlikeResources, ARingIsOneClassUntilAFlowEnds) {
  Sample ring;
  constexpr uint32_t size = 6;
  for (uint32_t link = 0; link < size; ++link)
    ring.addResource(10);
  std::vector<uint32_t> overTwo;
  for (uint32_t link = 0; link < size; ++link)
    overTwo.push_back(ring.addKind(10, {{link, 1}, {(link + 1) % size, 1}}, 1));
  ring.alike.refine();
  EXPECT_NE(ring.classOf(0), ring.classOf(1)); // they do not join by themselves
  ring.alike.findAnew();
  EXPECT_EQ(ring.classes(), std::vector<uint32_t>(size, 0));
  EXPECT_EQ(ring.alike.bandwidthOf(ring.classOf(0)), 60);
  EXPECT_EQ(ring.alike.colorOf(overTwo[0]), ring.alike.colorOf(overTwo[3]));
  std::vector<ResourceUse> found;
  ring.alike.findUses(overTwo[0], found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].load, 2); // of both links
  ring.alike.forget();
  // Links 0 and 1 have a flow less each: the ring has a mirror between them.
  ring.removeFlow(overTwo[0]);
  ring.alike.refine();
  EXPECT_EQ(ring.classes(), (std::vector<uint32_t>{0, 0, 2, 3, 3, 2}));
  EXPECT_EQ(ring.alike.bandwidthOf(ring.classOf(3)), 20);
  EXPECT_EQ(ring.alike.colorOf(overTwo[1]), ring.alike.colorOf(overTwo[5]));
  EXPECT_NE(ring.alike.colorOf(overTwo[1]), ring.alike.colorOf(overTwo[3]));
}

TEST(AlikeResources, BandwidthsLoadsAndCapsPartThem) {
  Sample sample;
  for (double bandwidth : {10, 10, 10, 10, 20})
    sample.addResource(bandwidth);
  sample.addKind(5, {{0, 1}}, 2);
  sample.addKind(5, {{1, 1}}, 2);
  sample.addKind(5, {{2, 2}}, 2);
  sample.addKind(4, {{3, 1}}, 2);
  sample.addKind(5, {{4, 1}}, 2);
  sample.alike.findAnew();
  EXPECT_EQ(sample.classes(), (std::vector<uint32_t>{0, 0, 2, 3, 4}));
}

TEST(AlikeResources, WhatLeavesIsUsedNoMore) {
  Sample sample;
  for (int link = 0; link < 3; ++link)
    sample.addResource(10);
  uint32_t kind = sample.addKind(10, {{0, 1}, {1, 1}, {2, 1}}, 1), other = sample.addKind(10, {{0, 1}, {2, 1}}, 1);
  sample.alike.findAnew();
  EXPECT_EQ(sample.classes(), (std::vector<uint32_t>{0, 1, 0}));
  EXPECT_NE(sample.alike.colorOf(kind), sample.alike.colorOf(other));
  sample.alike.leave(1);
  sample.alike.refine();
  std::vector<ResourceUse> found;
  sample.alike.findUses(kind, found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].load, 2);
  EXPECT_EQ(sample.alike.bandwidthOf(found[0].resource), 20);
  EXPECT_EQ(sample.alike.colorOf(kind), sample.alike.colorOf(other));
}

TEST(AlikeResources, ClassesAreThoseOfComparingFlowsOneByOne) {
  std::mt19937_64 random(test::testSeed());
  auto below = [&](uint64_t end) { return uint32_t(random() % end); };
  size_t numJoined = 0, numParted = 0;
  for (int round = 0; round < 100; ++round) {
    Sample sample;
    uint32_t numNodes = 2 + below(5), numLinks = 1 + below(4);
    for (uint32_t resource = 0; resource < 2 * numNodes * numLinks; ++resource)
      sample.addResource(below(8) == 0 ? 20 : 10);
    auto link = [&](uint32_t node, uint32_t number, bool isInto) { return (node * numLinks + number) * 2 + isInto; };
    // Between nodes at certain distances, over all pairs of links.
    std::vector<uint32_t> flows;
    uint32_t distances = below(1u << numNodes);
    for (uint32_t from = 0; from < numNodes; ++from)
      for (uint32_t distance = 1; distance < numNodes; ++distance)
        for (uint32_t out = 0; out < numLinks && (distances >> distance & 1); ++out)
          for (uint32_t in = 0; in < numLinks; ++in)
            flows.push_back(sample.addKind(
                10, {{link(from, out, false), 1}, {link((from + distance) % numNodes, in, true), 1}}, 2));
    sample.alike.findAnew();
    for (int step = 0; step < 20 && !flows.empty(); ++step) {
      std::vector<uint32_t> before = sample.classes();
      for (uint32_t number = below(3); number > 0; --number) {
        uint32_t kind = flows[below(flows.size())];
        if (below(2) == 0 && sample.kinds[kind].numFlows > 0)
          sample.removeFlow(kind);
        else
          sample.addFlow(kind);
      }
      bool isAnew = below(4) == 0;
      isAnew ? sample.alike.findAnew() : sample.alike.refine();
      std::vector<uint32_t> expected = sample.refined(isAnew ? std::vector<uint32_t>(before.size(), 0) : before);
      ASSERT_EQ(sample.classes(), expected) << "round " << round << ", step " << step;
      numJoined += isAnew && expected != before;
      numParted += !isAnew && expected != before;
      // Flows of the same color take the same of the same classes.
      std::map<uint64_t, std::vector<std::pair<uint32_t, double>>> usesOf;
      for (uint32_t kind : flows) {
        std::vector<ResourceUse> found;
        sample.alike.findUses(kind, found);
        std::vector<std::pair<uint32_t, double>> uses;
        for (const ResourceUse &use : found)
          uses.emplace_back(use.resource, use.load);
        std::ranges::sort(uses);
        ASSERT_EQ(usesOf.try_emplace(sample.alike.colorOf(kind), uses).first->second, uses);
      }
      sample.alike.forget();
    }
  }
  EXPECT_GT(numJoined, 20u);
  EXPECT_GT(numParted, 100u);
}

} // namespace
} // namespace kolo::cost
