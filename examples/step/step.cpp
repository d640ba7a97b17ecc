// One training step on 2 nodes of 2 modules of 2 dies, with two ways to spread weights, gradients and optimizer state:
//
//   ./step plugins
//
// Every collective is a plugin of that folder.
// By three levels of partitions (Xu et al. 2025) all sums here are exact, and so are the new weights. ZeRO++ (Wang et
// al. 2024) rounds weights and gradients on the network; the program says how far its new weights are from exact ones.
#include <kolo/runtime/Communicator.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int numRanks = 8;
constexpr int64_t numWeights = numRanks * 2048; // a share of whole codec blocks for every rank
constexpr float rate = 1.0f / 4096;
using Numbers = std::vector<float>;
using Plugins = std::map<std::string, Plugin>;

Numbers initialWeights() {
  Numbers weights;
  for (int64_t i = 0; i < numWeights; ++i)
    weights.push_back(float(i * 37 % 255 - 127));
  return weights;
}

/// Of the micro-batch of a rank: integers, so that sums are exact in any order.
Numbers gradientOf(int rank, const Numbers &weights) {
  Numbers gradient;
  for (size_t i = 0; i < weights.size(); ++i)
    gradient.push_back(weights[i] + float((int64_t(i) + rank) % 11 - 5));
  return gradient;
}

Numbers exactStep() {
  Numbers weights = initialWeights(), updated = weights;
  for (int rank = 0; rank < numRanks; ++rank) {
    Numbers gradient = gradientOf(rank, weights);
    for (size_t i = 0; i < updated.size(); ++i)
      updated[i] -= rate * gradient[i];
  }
  return updated;
}

Numbers partOf(const Numbers &whole, size_t number, size_t numParts) {
  auto size = whole.size() / numParts;
  return {whole.begin() + int64_t(number * size), whole.begin() + int64_t((number + 1) * size)};
}

/// One rank's calls. The first failure is kept, and ends them.
class Rank {
public:
  Rank(Communicator &communicator, const Plugins &plugins, const char *mesh)
      : communicator(communicator), plugins(plugins), mesh(*Mesh::parse(mesh)) {}

  /// The output has `outputSize` elements; `count` as the collective counts them.
  Numbers call(const char *program, const Numbers &in, size_t outputSize, size_t count) {
    Numbers out(outputSize);
    CallArguments arguments{program, mesh, int64_t(count)};
    arguments.input = in.data();
    arguments.output = out.data();
    if (status.isOk())
      status = communicator.run(plugins.at(program), arguments);
    return out;
  }
  Numbers gather(const char *program, const Numbers &in, size_t numRanks) {
    return call(program, in, in.size() * numRanks, in.size());
  }
  Numbers scatter(const char *program, const Numbers &in, size_t numRanks) {
    return call(program, in, in.size() / numRanks, in.size() / numRanks);
  }
  int number() const { return communicator.rank(); }

  Status status;

private:
  Communicator &communicator;
  const Plugins &plugins;
  Mesh mesh;
};

void update(Numbers &weights, const Numbers &gradient) {
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] -= rate * gradient[i];
}

/// A rank is (node, module, die). Weights are spread over dies, gradients over (die, module), and optimizer state over
/// (die, module, node). Gives the rank's new share of the weights.
Numbers stepByLevels(Rank &rank) {
  auto number = size_t(rank.number()), node = number / 4, module = number / 2 % 2, die = number % 2;
  Numbers share = partOf(initialWeights(), die, 2);
  Numbers own = partOf(share, module * 2 + node, 4); // what this rank's optimizer updates
  Numbers forward = rank.gather("pairAllGather", share, 2), backward = rank.gather("pairAllGather", share, 2);
  Numbers gradient = rank.scatter("nodeReduceScatter", gradientOf(rank.number(), backward), 4);
  update(own, rank.scatter("railReduceScatter", gradient, 2));
  return rank.gather("partitionAllGather", own, 4);
}

/// A rank is (node, gpu), and has 1/8 of everything, and 1/4 of the weights a second time, for the backward pass.
Numbers stepOfZero(Rank &rank) {
  auto number = size_t(rank.number());
  Numbers own = partOf(initialWeights(), number, numRanks);
  Numbers forward = rank.gather("quantisedRailAllGather", own, numRanks);
  Numbers backward = rank.gather("nodeLocalAllGather", partOf(forward, number % 4, 4), 4);
  update(own, rank.scatter("quantisedReduceScatter", gradientOf(rank.number(), backward), numRanks));
  return own;
}

int fail(const Status &status) {
  std::fprintf(stderr, "step: %s\n", status.message().c_str());
  return 1;
}

struct Outcome {
  bool isOk = true;
  double worst = 0, sentBytes = 0; // farthest from the exact weights; the most that a rank sends
};

/// `shareOf`: the exact counterpart of what a rank gets.
Outcome run(const Plugins &plugins, const char *mesh, const std::function<Numbers(Rank &)> &step,
            const std::function<Numbers(int)> &shareOf) {
  CommunicatorOptions options;
  options.countsTraffic = true;
  auto communicators = Communicator::createThreads(numRanks, options);
  if (!communicators.isOk())
    return {fail(communicators.status()) == 0};
  std::array<Status, numRanks> statuses;
  std::array<Numbers, numRanks> shares;
  std::vector<std::thread> threads;
  for (size_t number = 0; number < numRanks; ++number)
    threads.emplace_back([&, number] {
      Rank rank((*communicators)[number], plugins, mesh);
      shares[number] = step(rank);
      statuses[number] = rank.status;
    });
  for (std::thread &thread : threads)
    thread.join();
  Outcome outcome;
  for (size_t number = 0; number < numRanks; ++number) {
    if (!statuses[number].isOk())
      return {fail(statuses[number]) == 0};
    Numbers exact = shareOf(int(number));
    for (size_t i = 0; i < exact.size(); ++i)
      outcome.worst = std::max(outcome.worst, std::fabs(double(shares[number][i]) - double(exact[i])));
    Traffic traffic = (*communicators)[number].traffic();
    outcome.sentBytes = std::max(outcome.sentBytes, double(traffic.sentBytes + traffic.fetchedBytes));
  }
  return outcome;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return fail(Status(StatusCode::InvalidArgument, "needs the folder of the plugins"));
  Plugins plugins;
  for (const char *name : {"pairAllGather", "nodeReduceScatter", "railReduceScatter", "partitionAllGather",
                           "quantisedRailAllGather", "nodeLocalAllGather", "quantisedReduceScatter"}) {
    Result<Plugin> plugin = Plugin::load(std::string(argv[1]) + "/" + name + ".so");
    if (!plugin.isOk())
      return fail(plugin.status());
    plugins.emplace(name, *plugin);
  }
  Numbers exact = exactStep();
  Outcome byLevels =
      run(plugins, "node=2,module=2,die=2", stepByLevels, [&](int rank) { return partOf(exact, size_t(rank % 2), 2); });
  Outcome ofZero =
      run(plugins, "node=2,gpu=4", stepOfZero, [&](int rank) { return partOf(exact, size_t(rank), numRanks); });
  if (!byLevels.isOk || !ofZero.isOk)
    return 1;
  // Weights: |error| <= 127/254. Gradients, each that large and 5 more: 6 times int8(256)'s worst error and 4 times
  // int4(256)'s, of the largest; and every rank's gradient has the weights' error.
  double bound = rate * ((6.0 / 254 + 4.0 / 8) * 132.5 * 1.01 + 8 * 0.5);
  std::printf("%lld weights on %d ranks, one step\n", (long long)numWeights, numRanks);
  std::printf("three levels: a rank moves %.0f bytes; the new weights are %s\n", byLevels.sentBytes,
              byLevels.worst == 0 ? "exact" : "wrong");
  std::printf("ZeRO++:       a rank moves %.0f bytes; the new weights are off by at most %.5f, as %.5f allows\n",
              ofZero.sentBytes, ofZero.worst, bound);
  return byLevels.worst == 0 && ofZero.worst > 0 && ofZero.worst <= bound ? 0 : 1;
}
