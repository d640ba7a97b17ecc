// A sample, then neighbours of the best.
#include "tools/explore/Search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <tuple>

namespace kolo::explore {

void forEach(size_t count, unsigned numThreads, const std::function<void(unsigned thread, size_t i)> &body) {
  std::atomic<size_t> next = 0;
  std::exception_ptr problem;
  std::mutex mutex;
  auto work = [&](unsigned thread) {
    try {
      for (size_t i = next++; i < count; i = next++)
        body(thread, i);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!problem)
        problem = std::current_exception();
      next = count;
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned thread = 1; thread < numThreads; ++thread)
    threads.emplace_back(work, thread);
  work(0);
  threads.clear();
  if (problem)
    std::rethrow_exception(problem);
}

namespace {

/// Of std::mt19937_64 alone: distributions and std::shuffle differ from library to library.
void shuffle(std::vector<size_t> &numbers, std::mt19937_64 &random) {
  for (size_t i = numbers.size(); i > 1; --i)
    std::swap(numbers[i - 1], numbers[random() % i]);
}

bool areNeighbours(const Structure &a, const Structure &b) {
  if (a.dims != b.dims || a.sizes != b.sizes || a.placement != b.placement)
    return false;
  size_t numBlocks = 0, numOthers = 0;
  for (size_t i = 0; i < a.phases.size(); ++i) {
    numOthers += a.phases[i].dim != b.phases[i].dim;
    numBlocks += a.phases[i].dim == b.phases[i].dim && a.phases[i].block != b.phases[i].block;
  }
  return numBlocks + numOthers / 2 + (a.striping != b.striping) <= 1;
}

class Searcher {
public:
  Searcher(const Space &space, const SearchOptions &options, const CostFunction &cost)
      : space(space), options(options), cost(cost), isTaken(space.structures.size()) {
    total = std::min(options.mostStructures, space.structures.size());
  }

  SearchResult run() {
    costAll(sample(total < space.structures.size() ? total * 3 / 4 : total));
    constexpr int numRounds = 2;
    for (int round = 0; round < numRounds; ++round)
      costAll(neighbours((total - result.structures.size()) / size_t(numRounds - round)));
    costAll(sample(total - result.structures.size()));
    result.numInSpace = space.structures.size();
    for (const auto &[reason, count] : space.leftOut)
      result.leftOut[reason] += count;
    return std::move(result);
  }

private:
  /// Takes from the meshes in turn, at random within each.
  std::vector<size_t> sample(size_t count) {
    std::vector<std::vector<size_t>> byMesh;
    for (size_t i = 0; i < space.structures.size(); ++i) {
      bool isNewMesh = i == 0 || space.structures[i].dims != space.structures[i - 1].dims ||
                       space.structures[i].placement != space.structures[i - 1].placement;
      if (isNewMesh)
        byMesh.emplace_back();
      if (!isTaken[i])
        byMesh.back().push_back(i);
    }
    std::mt19937_64 random(options.seed);
    for (std::vector<size_t> &ofMesh : byMesh)
      shuffle(ofMesh, random);
    std::vector<size_t> chosen;
    for (size_t turn = 0; chosen.size() < count; ++turn) {
      size_t before = chosen.size();
      for (const std::vector<size_t> &ofMesh : byMesh)
        if (turn < ofMesh.size() && chosen.size() < count)
          chosen.push_back(ofMesh[turn]);
      if (chosen.size() == before)
        break;
    }
    return chosen;
  }

  std::vector<size_t> neighbours(size_t count) {
    constexpr size_t numBest = 6; // of a size
    std::set<size_t> best;
    for (size_t size = 0; size < numSizes(); ++size)
      for (const Ranked &ranked : rank(result, size, numBest))
        best.insert(numbers[ranked.structure]);
    std::vector<size_t> chosen;
    for (size_t i = 0; i < space.structures.size(); ++i) {
      auto isNear = [&](size_t other) { return areNeighbours(space.structures[i], space.structures[other]); };
      if (!isTaken[i] && std::ranges::any_of(best, isNear))
        chosen.push_back(i);
    }
    std::mt19937_64 random(options.seed + 1);
    shuffle(chosen, random);
    chosen.resize(std::min(chosen.size(), count));
    return chosen;
  }

  size_t numSizes() const {
    for (const Costs &costs : result.costs)
      for (const std::vector<double> &seconds : costs.seconds)
        if (!seconds.empty())
          return seconds.size();
    return 0;
  }

  void costAll(std::vector<size_t> chosen) {
    std::ranges::sort(chosen);
    size_t first = result.structures.size();
    for (size_t number : chosen) {
      isTaken[number] = true;
      numbers.push_back(number);
      result.structures.push_back(space.structures[number]);
    }
    result.costs.resize(result.structures.size());
    std::mutex mutex;
    forEach(chosen.size(), options.numThreads, [&](unsigned thread, size_t i) {
      Costs costs = cost(thread, result.structures[first + i]);
      std::lock_guard lock(mutex);
      result.costs[first + i] = std::move(costs);
      options.progress(++done, total);
    });
    for (size_t i = first; i < result.costs.size(); ++i)
      for (const std::string &refusal : result.costs[i].refusals)
        refusal.empty() ? ++result.numCandidates : ++result.leftOut[refusal];
  }

  const Space &space;
  const SearchOptions &options;
  const CostFunction &cost;
  std::vector<bool> isTaken;
  std::vector<size_t> numbers; // in the space, of the result's structures
  size_t total = 0, done = 0;
  SearchResult result;
};

} // namespace

SearchResult search(const Space &space, const SearchOptions &options, const CostFunction &cost) {
  return Searcher(space, options, cost).run();
}

std::vector<Ranked> rank(const SearchResult &result, size_t size, size_t most) {
  std::vector<Ranked> all;
  for (size_t structure = 0; structure < result.costs.size(); ++structure)
    for (size_t schedule = 0; schedule < result.costs[structure].seconds.size(); ++schedule)
      if (const std::vector<double> &seconds = result.costs[structure].seconds[schedule];
          !seconds.empty() && std::isfinite(seconds[size]))
        all.push_back({structure, schedule, seconds[size]});
  std::ranges::sort(all, {}, [](const Ranked &one) { return std::tuple(one.seconds, one.structure, one.schedule); });
  std::vector<Ranked> chosen;
  for (const Ranked &ranked : all) {
    auto isAlike = [&](const Ranked &other) {
      return other.seconds == ranked.seconds && other.schedule == ranked.schedule;
    };
    constexpr int mostSchedules = 2;
    bool isNew = std::ranges::none_of(chosen, isAlike) &&
                 std::ranges::count(chosen, ranked.structure, &Ranked::structure) < mostSchedules;
    if (chosen.size() == most)
      break;
    if (isNew)
      chosen.push_back(ranked);
  }
  return chosen;
}

} // namespace kolo::explore
