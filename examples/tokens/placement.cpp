// Where experts are decides what crosses the network: ExFlow (Yao et al., IPDPS 2024), on 2 nodes of 4 ranks:
//
//   ./placement rail.so node.so
//
// Tokens pass two layers of 16 experts, one expert in each. They stay where their expert of the first layer is, and go
// on from there to the one of the second. Which that is depends on the first one, most of the time. So experts of the
// second layer are placed where the tokens come from, and the program compares what crosses between the nodes.
#include <kolo/runtime/Experts.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int numRanks = 8;
constexpr size_t width = 256, numTokens = 200, numExperts = 16, expertsPerRank = numExperts / numRanks;
using Numbers = std::vector<float>;
using Experts = std::vector<int32_t>;

/// The same in every run.
uint64_t draw(uint64_t seed) {
  seed = (seed + 1) * 0x9e3779b97f4a7c15u;
  seed = (seed ^ (seed >> 29)) * 0xbf58476d1ce4e5b9u;
  return seed ^ (seed >> 32);
}

int32_t firstExpert(size_t rank, size_t token) { return int32_t(draw(rank * numTokens + token) % numExperts); }

/// Four of five tokens go on to the expert that the first one is akin to.
int32_t secondExpert(size_t rank, size_t token) {
  const auto first = size_t(firstExpert(rank, token));
  const uint64_t drawn = draw(1'000'000 + rank * numTokens + token);
  return int32_t(drawn % 5 < 4 ? (first * 7 + 3) % numExperts : drawn / 5 % numExperts);
}

/// place[e]: where expert e of the second layer is, as the number that ExpertExchange has for that place. Experts with
/// the most tokens choose first: the place on the rank that most of their tokens are on.
Experts placeByAffinity() {
  std::vector<std::vector<size_t>> from(numExperts, std::vector<size_t>(numRanks));
  for (size_t rank = 0; rank < numRanks; ++rank)
    for (size_t token = 0; token < numTokens; ++token)
      ++from[size_t(secondExpert(rank, token))][size_t(firstExpert(rank, token)) / expertsPerRank];
  Experts order(numExperts), place(numExperts);
  std::iota(order.begin(), order.end(), 0);
  auto most = [&](int32_t expert) { return *std::ranges::max_element(from[size_t(expert)]); };
  std::ranges::sort(order, [&](int32_t a, int32_t b) { return most(a) != most(b) ? most(a) > most(b) : a < b; });
  std::vector<size_t> taken(numRanks);
  for (int32_t expert : order) {
    size_t best = numRanks;
    for (size_t rank = 0; rank < numRanks; ++rank)
      if (taken[rank] < expertsPerRank && (best == numRanks || from[size_t(expert)][rank] > from[size_t(expert)][best]))
        best = rank;
    place[size_t(expert)] = int32_t(best * expertsPerRank + taken[best]++);
  }
  return place;
}

struct Outcome {
  Status status;
  int64_t numAcross = 0; // tokens that this rank sent to the other node, in the second layer
};

/// Both layers. A token's first two elements say where it is from, so that all can be found at the end.
Outcome runRank(Communicator &communicator, const std::vector<const Plugin *> &plugins, const ExpertOptions &options,
                const Experts &place) {
  const auto rank = size_t(communicator.rank());
  Numbers tokens(numTokens * width);
  Experts experts;
  for (size_t token = 0; token < numTokens; ++token) {
    tokens[token * width] = float(rank);
    tokens[token * width + 1] = float(token);
    experts.push_back(firstExpert(rank, token));
  }
  Result<ExpertExchange> first = ExpertExchange::create(communicator, plugins, options),
                         second = ExpertExchange::create(communicator, plugins, options);
  for (const Status &status : {first.status(), second.status(), first->route(experts, 1)})
    if (!status.isOk())
      return {status};
  Numbers here(size_t(first->routed().numRows) * width);
  if (Status status = first->dispatch(tokens.data(), here.data()); !status.isOk())
    return {status};
  experts.clear();
  for (size_t row = 0; row < here.size() / width; ++row)
    experts.push_back(place[size_t(secondExpert(size_t(here[row * width]), size_t(here[row * width + 1])))]);
  if (Status status = second->route(experts, 1); !status.isOk())
    return {status};
  Numbers there(size_t(second->routed().numRows) * width);
  if (Status status = second->dispatch(here.data(), there.data()); !status.isOk())
    return {status};
  for (size_t row = 0; row < there.size() / width; ++row) {
    const int32_t expert = secondExpert(size_t(there[row * width]), size_t(there[row * width + 1]));
    if (size_t(place[size_t(expert)]) / expertsPerRank != rank)
      return {Status(StatusCode::Mismatch, "a token is not at its expert")};
  }
  return {{}, second->routed().numToNodes};
}

/// Of all ranks together.
Outcome run(const std::vector<const Plugin *> &plugins, const Experts &place) {
  auto communicators = Communicator::createThreads(numRanks);
  if (!communicators.isOk())
    return {communicators.status()};
  const ExpertOptions options{*Mesh::parse("node=2,gpu=4"), numExperts,           width, DataType::F32,
                              numRanks * numTokens,         ExpertLayout::Compact};
  std::vector<Outcome> outcomes(numRanks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < numRanks; ++rank)
    threads.emplace_back([&, rank] { outcomes[rank] = runRank((*communicators)[rank], plugins, options, place); });
  for (std::thread &thread : threads)
    thread.join();
  Outcome all;
  for (const Outcome &outcome : outcomes) {
    if (!outcome.status.isOk())
      return outcome;
    all.numAcross += outcome.numAcross;
  }
  return all;
}

int fail(const Status &status) {
  std::fprintf(stderr, "placement: %s\n", status.message().c_str());
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return fail(Status(StatusCode::InvalidArgument, "needs the paths of two plugins"));
  Result<Plugin> rail = Plugin::load(argv[1]), node = Plugin::load(argv[2]);
  for (const Status &status : {rail.status(), node.status()})
    if (!status.isOk())
      return fail(status);
  const std::vector<const Plugin *> plugins = {&*rail, &*node};
  Experts inOrder(numExperts);
  std::iota(inOrder.begin(), inOrder.end(), 0);
  const Outcome before = run(plugins, inOrder), after = run(plugins, placeByAffinity());
  for (const Outcome &outcome : {before, after})
    if (!outcome.status.isOk())
      return fail(outcome.status);
  auto bytes = [](const Outcome &outcome) { return (long long)(outcome.numAcross * int64_t(width * sizeof(float))); };
  std::printf("%zu tokens go on to a second layer of %zu experts\n", numRanks * numTokens, numExperts);
  std::printf("experts in order:    %lld bytes between nodes\n", bytes(before));
  std::printf("experts by affinity: %lld bytes between nodes\n", bytes(after));
  return bytes(after) < bytes(before) ? 0 : 1;
}
