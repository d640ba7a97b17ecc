// A layer of experts on 2 nodes of 4 ranks, where only cluster centres travel: LSH-MoE (Nie et al., NeurIPS 2024), with
// a fixed number of centres for each pair of ranks:
//
//   ./experts experts.so
//
// Every rank hashes its tokens to buckets. A bucket's centre goes to the expert and back. The token's residual, its
// difference to the centre, stays at home and is added to what comes back. The program compares with all tokens sent.
#include <kolo/runtime/Communicator.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int numRanks = 8, numBits = 6;
constexpr size_t width = 128;                // of a token
constexpr size_t numTokens = 256;            // that a rank has for each expert; every rank is one
constexpr size_t numBuckets = 1u << numBits; // fixed: so every rank knows what it gets
constexpr size_t numTopics = 8;              // tokens are alike
using Numbers = std::vector<float>;

/// From -1 to 1, the same in every run.
float noise(uint64_t seed) {
  seed = (seed + 1) * 0x9e3779b97f4a7c15u;
  seed = (seed ^ (seed >> 29)) * 0xbf58476d1ce4e5b9u;
  seed = (seed ^ (seed >> 32)) * 0x94d049bb133111ebu;
  return float(seed >> 40) / float(1 << 23) - 1;
}

/// All tokens of a rank, by expert.
Numbers tokensOf(size_t rank) {
  Numbers tokens;
  for (size_t token = 0; token < numRanks * numTokens; ++token) {
    size_t topic = (token * 7 + rank) % numTopics;
    for (size_t i = 0; i < width; ++i)
      tokens.push_back(noise(topic * width + i) + 0.1f * noise(1'000'000 + (rank * 4096 + token) * width + i));
  }
  return tokens;
}

/// What expert `number` makes of tokens, one after the other: a residual block, as transformers have it.
void applyExpert(size_t number, Numbers &tokens) {
  for (size_t first = 0; first < tokens.size(); first += width) {
    Numbers token(tokens.begin() + int64_t(first), tokens.begin() + int64_t(first + width));
    for (size_t i = 0; i < width; ++i)
      tokens[first + i] = token[i] + 0.5f * std::tanh(token[(i * 5 + number) % width] - token[(i + number) % width]);
  }
}

/// The sides of some hyperplanes: near tokens fall into one bucket.
size_t bucketOf(const float *token) {
  size_t bucket = 0;
  for (size_t bit = 0; bit < numBits; ++bit) {
    float product = 0;
    for (size_t i = 0; i < width; ++i)
      product += token[i] * noise(2'000'000 + bit * width + i);
    bucket = bucket * 2 + (product > 0 ? 1 : 0);
  }
  return bucket;
}

/// The tokens of one rank, as centres by expert and bucket, and what is left of each token.
struct Clusters {
  std::vector<size_t> bucket; // of every token, by number among all centres
  Numbers centres, residuals;

  explicit Clusters(const Numbers &tokens) : centres(numRanks * numBuckets * width), residuals(tokens) {
    std::vector<float> sizes(numRanks * numBuckets);
    for (size_t token = 0; token < numRanks * numTokens; ++token) {
      bucket.push_back(token / numTokens * numBuckets + bucketOf(&tokens[token * width]));
      sizes[bucket.back()] += 1;
      for (size_t i = 0; i < width; ++i)
        centres[bucket.back() * width + i] += tokens[token * width + i];
    }
    for (size_t i = 0; i < centres.size(); ++i)
      centres[i] /= std::max(sizes[i / width], 1.0f);
    for (size_t i = 0; i < residuals.size(); ++i)
      residuals[i] -= centres[bucket[i / width] * width + i % width];
  }
  Numbers restore(const Numbers &answers) const {
    Numbers tokens = residuals;
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] += answers[bucket[i / width] * width + i % width];
    return tokens;
  }
};

/// To the experts, through them, and back; `data` has equal parts for all experts.
Status visitExperts(Communicator &communicator, const Plugin &plugin, Numbers &data) {
  Numbers there(data.size());
  CallArguments arguments{"", *Mesh::parse("node=2,gpu=4"), int64_t(data.size() / numRanks)};
  arguments.input = data.data();
  arguments.output = there.data();
  if (Status status = communicator.run(plugin, arguments); !status.isOk())
    return status;
  applyExpert(size_t(communicator.rank()), there);
  arguments.input = there.data();
  arguments.output = data.data();
  return communicator.run(plugin, arguments);
}

struct Outcome {
  Status status;
  int64_t sentBytes = 0;
  double error = 0; // of the layer's outputs, relative to exact ones
};

Outcome runRank(Communicator &communicator, const Plugin &plugin, bool sendsCentres) {
  auto rank = size_t(communicator.rank());
  Numbers tokens = tokensOf(rank), exact;
  for (size_t expert = 0; expert < numRanks; ++expert) {
    auto begin = tokens.begin() + int64_t(expert * numTokens * width);
    Numbers part(begin, begin + int64_t(numTokens * width));
    applyExpert(expert, part);
    exact.insert(exact.end(), part.begin(), part.end());
  }
  Outcome outcome;
  if (sendsCentres) {
    Clusters clusters(tokens);
    outcome.status = visitExperts(communicator, plugin, clusters.centres);
    tokens = clusters.restore(clusters.centres);
  } else {
    outcome.status = visitExperts(communicator, plugin, tokens);
  }
  double squares = 0, size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    squares += std::pow(double(tokens[i]) - double(exact[i]), 2);
    size += std::pow(double(exact[i]), 2);
  }
  outcome.error = std::sqrt(squares / size);
  outcome.sentBytes = communicator.traffic().sentBytes + communicator.traffic().fetchedBytes;
  return outcome;
}

/// The most bytes and the largest error of any rank.
Outcome run(const Plugin &plugin, bool sendsCentres) {
  CommunicatorOptions options;
  options.countsTraffic = true;
  auto communicators = Communicator::createThreads(numRanks, options);
  if (!communicators.isOk())
    return {communicators.status()};
  std::vector<Outcome> outcomes(numRanks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < numRanks; ++rank)
    threads.emplace_back([&, rank] { outcomes[rank] = runRank((*communicators)[rank], plugin, sendsCentres); });
  for (std::thread &thread : threads)
    thread.join();
  Outcome worst;
  for (const Outcome &outcome : outcomes) {
    if (!outcome.status.isOk())
      return outcome;
    worst.sentBytes = std::max(worst.sentBytes, outcome.sentBytes);
    worst.error = std::max(worst.error, outcome.error);
  }
  return worst;
}

int fail(const Status &status) {
  std::fprintf(stderr, "experts: %s\n", status.message().c_str());
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return fail(Status(StatusCode::InvalidArgument, "needs the plugin's path"));
  Result<Plugin> plugin = Plugin::load(argv[1]);
  if (!plugin.isOk())
    return fail(plugin.status());
  Outcome all = run(*plugin, false), centres = run(*plugin, true);
  for (const Outcome &outcome : {all, centres})
    if (!outcome.status.isOk())
      return fail(outcome.status);
  std::printf("%zu tokens of %zu elements for each of %d experts, there and back\n", numTokens, width, numRanks);
  std::printf("all tokens:   a rank moves %lld bytes; outputs are off by %.4f\n", (long long)all.sentBytes, all.error);
  std::printf("%zu centres:   a rank moves %lld bytes; outputs are off by %.4f\n", numBuckets,
              (long long)centres.sentBytes, centres.error);
  bool isSmaller = centres.sentBytes * int64_t(numTokens / numBuckets) == all.sentBytes;
  return isSmaller && all.error < 0.05 && centres.error < 0.1 ? 0 : 1;
}
