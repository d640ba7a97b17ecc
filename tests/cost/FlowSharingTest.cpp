// Max-min fair rates: hand-computed cases, and random ones against filling from scratch.
#include "compiler/cost/simulation/FlowSharing.h"
#include "tests/support/Support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace kolo::cost {
namespace {

using Uses = std::vector<ResourceUse>;

/// When every flow ends, in the order in which they end. All start at time 0.
std::vector<std::pair<uint32_t, double>> runToEnd(FlowSharing &sharing) {
  std::vector<std::pair<uint32_t, double>> result;
  std::vector<uint32_t> ended;
  sharing.settle(0);
  while (sharing.nextEnd() < INFINITY) {
    double now = sharing.nextEnd();
    sharing.takeEnded(now, ended);
    for (uint32_t flow : ended)
      result.emplace_back(flow, now);
    sharing.settle(now);
  }
  return result;
}

TEST(FlowSharing, TwoFlowsHalveALinkUntilOneEnds) {
  const std::vector<double> bandwidths{10};
  FlowSharing sharing(bandwidths);
  uint32_t longer = sharing.start(100, Uses{{0, 1}}), shorter = sharing.start(50, Uses{{0, 1}});
  std::vector<std::pair<uint32_t, double>> ends = runToEnd(sharing);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0], std::pair(shorter, 10.0));
  EXPECT_EQ(ends[1], std::pair(longer, 15.0)); // the 50 that are left, at 10
}

TEST(FlowSharing, AFlowThatIsLimitedElsewhereLeavesTheOthersMore) {
  // Bertsekas and Gallager's shape: one flow over both links, one over each.
  const std::vector<double> bandwidths{10, 20};
  FlowSharing sharing(bandwidths);
  uint32_t first = sharing.start(1, Uses{{0, 1}}), both = sharing.start(1, Uses{{0, 1}, {1, 1}});
  uint32_t second = sharing.start(1, Uses{{1, 1}});
  sharing.settle(0);
  EXPECT_DOUBLE_EQ(sharing.rateOf(first), 5);
  EXPECT_DOUBLE_EQ(sharing.rateOf(both), 5);
  EXPECT_DOUBLE_EQ(sharing.rateOf(second), 15);
}

TEST(FlowSharing, ALateFlowTakesItsPartAtOnce) {
  const std::vector<double> bandwidths{10};
  FlowSharing sharing(bandwidths);
  uint32_t early = sharing.start(100, Uses{{0, 1}});
  sharing.settle(0);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 10);
  uint32_t late = sharing.start(100, Uses{{0, 1}});
  sharing.settle(4);
  EXPECT_DOUBLE_EQ(sharing.rateOf(early), 5);
  EXPECT_DOUBLE_EQ(sharing.rateOf(late), 5);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 4 + 60 / 5.0);
  std::vector<uint32_t> ended;
  sharing.takeEnded(sharing.nextEnd(), ended);
  EXPECT_EQ(ended, std::vector<uint32_t>{early});
  sharing.settle(16);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 16 + 40 / 10.0);
}

TEST(FlowSharing, FlowsOfOneGroupEndAsTheirBytesSay) {
  const std::vector<double> bandwidths{12};
  FlowSharing sharing(bandwidths);
  uint32_t longest = sharing.start(30, Uses{{0, 1}}), shorter = sharing.start(10, Uses{{0, 1}});
  uint32_t alike = sharing.start(10, Uses{{0, 1}});
  auto ends = runToEnd(sharing);
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends[0], std::pair(shorter, 2.5)); // a third of the link each
  EXPECT_EQ(ends[1], std::pair(alike, 2.5));
  EXPECT_EQ(ends[2], std::pair(longest, 2.5 + 20 / 12.0));
}

TEST(FlowSharing, LoadsCountHowOftenAByteIsTaken) {
  // Memory is read and written by the copy, and read by the transfer.
  const std::vector<double> bandwidths{30, 4};
  FlowSharing sharing(bandwidths);
  uint32_t copy = sharing.start(1, Uses{{0, 2}}), transfer = sharing.start(1, Uses{{0, 1}, {1, 1}});
  sharing.settle(0);
  EXPECT_DOUBLE_EQ(sharing.rateOf(transfer), 4);
  EXPECT_DOUBLE_EQ(sharing.rateOf(copy), 13);
}

TEST(FlowSharing, FlowsThatNothingConnectsKeepTheirRates) {
  const std::vector<double> bandwidths{10, 10, 100};
  FlowSharing sharing(bandwidths);
  uint32_t first = sharing.start(1, Uses{{0, 1}, {2, 1}});
  sharing.settle(0);
  uint32_t other = sharing.start(1, Uses{{1, 1}, {2, 1}}); // resource 2 has room for both
  sharing.settle(0.01);
  EXPECT_EQ(sharing.rateOf(first), 10);
  EXPECT_EQ(sharing.rateOf(other), 10);
}

TEST(FlowSharing, FlowsPartWhileAnotherResourceIsContended) {
  // Two flows share resource 0. One of them also takes resource 1, which seven others fill from time 4 to 6.
  const std::vector<double> bandwidths{10, 30};
  FlowSharing sharing(bandwidths);
  uint32_t alone = sharing.start(100, Uses{{0, 1}}), crossing = sharing.start(100, Uses{{0, 1}, {1, 1}});
  sharing.settle(0);
  EXPECT_DOUBLE_EQ(sharing.rateOf(alone), 5);
  EXPECT_DOUBLE_EQ(sharing.rateOf(crossing), 5);
  for (int other = 0; other < 7; ++other)
    sharing.start(7.5, Uses{{1, 1}});
  sharing.settle(4);
  EXPECT_DOUBLE_EQ(sharing.rateOf(alone), 6.25);
  EXPECT_DOUBLE_EQ(sharing.rateOf(crossing), 3.75);
  std::vector<uint32_t> ended;
  sharing.takeEnded(6, ended);
  EXPECT_EQ(ended.size(), 7u);
  sharing.settle(6);
  EXPECT_DOUBLE_EQ(sharing.rateOf(alone), 5);
  EXPECT_DOUBLE_EQ(sharing.rateOf(crossing), 5);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 6 + (100 - 20 - 12.5) / 5);
  sharing.takeEnded(sharing.nextEnd(), ended);
  ASSERT_EQ(ended, std::vector<uint32_t>{alone});
  sharing.settle(19.5);
  EXPECT_DOUBLE_EQ(sharing.nextEnd(), 20); // all 200 bytes, without a pause
}

/// All rates by progressive filling, from scratch.
std::map<uint32_t, double> fill(const std::vector<double> &bandwidths, const std::map<uint32_t, Uses> &flows) {
  std::map<uint32_t, double> rates;
  std::vector<double> left = bandwidths;
  while (rates.size() < flows.size()) {
    std::vector<double> weight(left.size());
    for (const auto &[flow, uses] : flows)
      for (const ResourceUse &use : uses)
        if (!rates.contains(flow))
          weight[use.resource] += use.load;
    double level = INFINITY;
    size_t full = 0;
    for (size_t resource = 0; resource < left.size(); ++resource)
      if (weight[resource] > 0 && left[resource] / weight[resource] < level) {
        level = left[resource] / weight[resource];
        full = resource;
      }
    for (const auto &[flow, uses] : flows) {
      bool isFull = std::ranges::any_of(uses, [&](const ResourceUse &use) { return use.resource == full; });
      if (rates.contains(flow) || !isFull)
        continue;
      rates[flow] = level;
      for (const ResourceUse &use : uses)
        left[use.resource] -= use.load * level;
    }
  }
  return rates;
}

TEST(FlowSharing, GivesTheRatesOfFillingFromScratch) {
  std::mt19937_64 random(test::testSeed());
  auto below = [&](uint64_t end) { return random() % end; };
  for (int round = 0; round < 30; ++round) {
    std::vector<double> bandwidths;
    for (size_t number = 3 + below(20); number > 0; --number)
      bandwidths.push_back(double(1 + below(40)));
    FlowSharing sharing(bandwidths);
    std::map<uint32_t, Uses> flows;
    std::vector<uint32_t> ended;
    double now = 0;
    for (int step = 0; step < 200; ++step) {
      if (!flows.empty() && below(2) == 0) {
        now = sharing.nextEnd();
        sharing.takeEnded(now, ended);
        for (uint32_t flow : ended)
          flows.erase(flow);
      }
      for (uint64_t number = below(4); number > 0; --number) {
        Uses uses;
        for (uint32_t resource = 0; resource < bandwidths.size(); ++resource)
          if (below(6) == 0)
            uses.push_back({resource, double(1 + below(3))});
        if (!uses.empty())
          flows[sharing.start(double(1 + below(1000)), uses)] = uses;
      }
      sharing.settle(now);
      for (const auto &[flow, rate] : fill(bandwidths, flows))
        ASSERT_NEAR(sharing.rateOf(flow), rate, 1e-9 * rate) << "round " << round << ", step " << step;
    }
  }
}

/// When flows end that start at some times, by filling from scratch after every start and every end.
std::vector<double> endsFromScratch(const std::vector<double> &bandwidths, const std::vector<Uses> &uses,
                                    const std::vector<double> &starts, const std::vector<double> &bytes) {
  std::vector<double> left = bytes, ends(uses.size(), INFINITY);
  double now = 0;
  auto isOpen = [&](size_t flow) { return starts[flow] <= now && ends[flow] == INFINITY; };
  for (size_t numEnded = 0; numEnded < uses.size();) {
    std::map<uint32_t, Uses> open;
    double next = INFINITY;
    for (uint32_t flow = 0; flow < uses.size(); ++flow) {
      if (isOpen(flow))
        open[flow] = uses[flow];
      else if (starts[flow] > now)
        next = std::min(next, starts[flow]);
    }
    std::map<uint32_t, double> rates = fill(bandwidths, open);
    for (const auto &[flow, rate] : rates)
      next = std::min(next, now + left[flow] / rate);
    for (const auto &[flow, rate] : rates) {
      left[flow] -= rate * (next - now);
      if (left[flow] <= 1e-9 * bytes[flow]) {
        ends[flow] = next;
        ++numEnded;
      }
    }
    now = next;
  }
  return ends;
}

/// Starts are in order.
void expectEndsOfFillingFromScratch(const std::vector<double> &bandwidths, const std::vector<Uses> &uses,
                                    const std::vector<double> &starts, const std::vector<double> &bytes) {
  std::vector<double> expected = endsFromScratch(bandwidths, uses, starts, bytes), ends(uses.size(), -1);
  FlowSharing sharing(bandwidths);
  std::map<uint32_t, size_t> numberOf; // by flow
  std::vector<uint32_t> ended;
  for (size_t numStarted = 0; numStarted < uses.size() || sharing.nextEnd() < INFINITY;) {
    double end = sharing.nextEnd(), now = numStarted < uses.size() ? std::min(end, starts[numStarted]) : end;
    if (now == end) {
      sharing.takeEnded(end, ended);
      for (uint32_t flow : ended)
        ends[numberOf[flow]] = now;
    } else {
      for (; numStarted < uses.size() && starts[numStarted] == now; ++numStarted)
        numberOf[sharing.start(bytes[numStarted], uses[numStarted])] = numStarted;
    }
    sharing.settle(now);
  }
  for (size_t flow = 0; flow < uses.size(); ++flow)
    ASSERT_NEAR(ends[flow], expected[flow], 1e-7 * expected[flow]) << "flow " << flow;
}

TEST(FlowSharing, FlowsEndAsFillingFromScratchSays) {
  std::mt19937_64 random(test::testSeed());
  auto below = [&](uint64_t end) { return random() % end; };
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    std::vector<double> bandwidths, starts, bytes;
    for (size_t number = 3 + below(10); number > 0; --number)
      bandwidths.push_back(double(1 + below(40)));
    std::vector<Uses> uses;
    for (int flow = 0; flow < 60; ++flow) {
      uses.push_back({{uint32_t(below(bandwidths.size())), double(1 + below(3))}});
      for (uint32_t resource = 0; resource < bandwidths.size(); ++resource)
        if (resource != uses.back()[0].resource && below(6) == 0)
          uses.back().push_back({resource, 1});
      starts.push_back((starts.empty() ? 0 : starts.back()) + 0.25 * double(below(3)));
      bytes.push_back(double(1 + below(30)));
    }
    expectEndsOfFillingFromScratch(bandwidths, uses, starts, bytes);
  }
}

TEST(FlowSharing, FlowsOfAlikeNodesEndAsFillingFromScratchSays) {
  // Every node sends to every other one over all pairs of their links, wave after wave. Now and then a flow differs.
  std::mt19937_64 random(test::testSeed());
  auto below = [&](uint64_t end) { return uint32_t(random() % end); };
  constexpr uint32_t numNodes = 5, numLinks = 2;
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    std::vector<double> bandwidths(2 * numNodes * numLinks, 10), starts, bytes;
    auto link = [&](uint32_t node, uint32_t number, bool isInto) { return (node * numLinks + number) * 2 + isInto; };
    std::vector<Uses> uses;
    for (int wave = 0; wave < 24; ++wave)
      for (uint32_t distance = 1; distance < numNodes; ++distance) {
        double size = 1 + below(20);
        for (uint32_t from = 0; from < numNodes; ++from)
          for (uint32_t pair = 0; pair < numLinks * numLinks; ++pair) {
            uint32_t out = link(from, pair % numLinks, false);
            uint32_t into = link((from + distance) % numNodes, pair / numLinks, true);
            uses.push_back({{out, 1}, {into, 1}});
            starts.push_back(16 * wave);
            bytes.push_back(below(100) == 0 ? 0.5 : size);
          }
      }
    expectEndsOfFillingFromScratch(bandwidths, uses, starts, bytes);
  }
}

} // namespace
} // namespace kolo::cost
