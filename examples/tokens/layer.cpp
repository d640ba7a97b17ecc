// A layer of a mixture of experts on 8 ranks, against a dense computation of the same layer:
//
//   ./layer direct.so rail.so node.so
//
// A router gives each token the two experts with the largest scores, out of 16. Tokens go to their experts, which are
// small multilayer perceptrons, and the weighted answers come back: directly, then by nodes.
#include <kolo/runtime/Experts.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int numRanks = 8;
constexpr size_t width = 64, numTokens = 48, numExperts = 16, perToken = 2;
constexpr size_t expertsPerRank = numExperts / numRanks;
using Numbers = std::vector<float>;

/// From -1 to 1, the same in every run.
float noise(uint64_t seed) {
  seed = (seed + 1) * 0x9e3779b97f4a7c15u;
  seed = (seed ^ (seed >> 29)) * 0xbf58476d1ce4e5b9u;
  seed = (seed ^ (seed >> 32)) * 0x94d049bb133111ebu;
  return float(seed >> 40) / float(1 << 23) - 1;
}

Numbers tokensOf(size_t rank) {
  Numbers tokens(numTokens * width);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = noise(rank * 1'000'000 + i);
  return tokens;
}

/// What an expert makes of a token, in place.
void applyExpert(size_t expert, float *token) {
  Numbers hidden(width);
  for (size_t i = 0; i < width; ++i) {
    float sum = 0;
    for (size_t j = 0; j < width; ++j)
      sum += noise((expert * width + i) * width + j) * token[j];
    hidden[i] = std::tanh(sum / std::sqrt(float(width)));
  }
  std::copy(hidden.begin(), hidden.end(), token);
}

/// The experts of every token, and their weights: a softmax of the two largest scores.
struct Routing {
  std::vector<int32_t> experts;
  Numbers weights;

  explicit Routing(const Numbers &tokens) {
    for (size_t token = 0; token < numTokens; ++token) {
      Numbers scores(numExperts);
      for (size_t expert = 0; expert < numExperts; ++expert)
        for (size_t i = 0; i < width; ++i)
          scores[expert] += noise(77'000'000 + expert * width + i) * tokens[token * width + i];
      std::vector<int32_t> order(numExperts);
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + perToken, order.end(),
                        [&](int32_t a, int32_t b) { return scores[size_t(a)] > scores[size_t(b)]; });
      float first = std::exp(scores[size_t(order[0])]), second = std::exp(scores[size_t(order[1])]);
      experts.insert(experts.end(), order.begin(), order.begin() + perToken);
      weights.insert(weights.end(), {first / (first + second), second / (first + second)});
    }
  }
};

Numbers computeDensely(const Numbers &tokens, const Routing &routing) {
  Numbers output(tokens.size());
  for (size_t i = 0; i < routing.experts.size(); ++i) {
    const size_t token = i / perToken;
    Numbers answer(tokens.begin() + int64_t(token * width), tokens.begin() + int64_t((token + 1) * width));
    applyExpert(size_t(routing.experts[i]), answer.data());
    for (size_t j = 0; j < width; ++j)
      output[token * width + j] += routing.weights[i] * answer[j];
  }
  return output;
}

struct Outcome {
  Status status;
  float error = 0; // the largest difference to the dense layer
};

Outcome runRank(Communicator &communicator, const std::vector<const Plugin *> &plugins, const ExpertOptions &options) {
  const auto rank = size_t(communicator.rank());
  const Numbers tokens = tokensOf(rank);
  const Routing routing(tokens);
  Result<ExpertExchange> exchange = ExpertExchange::create(communicator, plugins, options);
  if (!exchange.isOk())
    return {exchange.status()};
  if (Status status = exchange->route(routing.experts, perToken); !status.isOk())
    return {status};
  const Routed routed = exchange->routed();
  Numbers rows(size_t(routed.numRows) * width), output(tokens.size());
  if (Status status = exchange->dispatch(tokens.data(), rows.data()); !status.isOk())
    return {status};
  for (size_t i = 0; i < routed.counts.size(); ++i)
    for (int64_t row = 0; row < routed.counts[i]; ++row)
      applyExpert(rank * expertsPerRank + i / numRanks, &rows[size_t(routed.firstRows[i] + row) * width]);
  if (Status status = exchange->combine(rows.data(), routing.weights, output.data()); !status.isOk())
    return {status};
  const Numbers expected = computeDensely(tokens, routing);
  Outcome outcome;
  for (size_t i = 0; i < output.size(); ++i)
    outcome.error = std::max(outcome.error, std::abs(output[i] - expected[i]));
  return outcome;
}

/// The worst of all ranks.
Outcome run(const std::vector<const char *> &paths, const char *mesh, ExpertLayout layout) {
  std::vector<Plugin> loaded;
  for (const char *path : paths) {
    Result<Plugin> plugin = Plugin::load(path);
    if (!plugin.isOk())
      return {plugin.status()};
    loaded.push_back(std::move(plugin).value());
  }
  std::vector<const Plugin *> plugins;
  for (const Plugin &plugin : loaded)
    plugins.push_back(&plugin);
  auto communicators = Communicator::createThreads(numRanks);
  if (!communicators.isOk())
    return {communicators.status()};
  const ExpertOptions options{*Mesh::parse(mesh), numExperts, width, DataType::F32, numTokens, layout};
  std::vector<Outcome> outcomes(numRanks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < numRanks; ++rank)
    threads.emplace_back([&, rank] { outcomes[rank] = runRank((*communicators)[rank], plugins, options); });
  for (std::thread &thread : threads)
    thread.join();
  Outcome worst;
  for (const Outcome &outcome : outcomes) {
    if (!outcome.status.isOk())
      return outcome;
    worst.error = std::max(worst.error, outcome.error);
  }
  return worst;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "layer: needs the paths of three plugins\n");
    return 1;
  }
  const Outcome outcomes[] = {run({argv[1]}, "rank=8", ExpertLayout::Slots),
                              run({argv[2], argv[3]}, "node=2,gpu=4", ExpertLayout::Compact)};
  for (const Outcome &outcome : outcomes)
    if (!outcome.status.isOk()) {
      std::fprintf(stderr, "layer: %s\n", outcome.status.message().c_str());
      return 1;
    }
  std::printf("%zu tokens of %zu elements on each of %d ranks, %zu of %zu experts each\n", numTokens, width, numRanks,
              perToken, numExperts);
  const char *names[] = {"directly:", "by nodes:"};
  bool isRight = true;
  for (size_t i = 0; i < 2; ++i) {
    isRight &= outcomes[i].error < 1e-5f;
    std::printf("%s %s\n", names[i], outcomes[i].error < 1e-5f ? "as the dense layer" : "wrong");
  }
  return isRight ? 0 : 1;
}
