// Groups of sends and receives with random counts, and when ranks come at random times.
#include "GroupSteps.h"

#include <dlfcn.h>

namespace {

/// Uniform, skewed, sparse, one huge block, or none at all.
Counts randomCounts(int size, std::minstd_rand &random, size_t unit) {
  Counts counts = makeCounts(size, 0);
  const size_t most = roomBytes / unit / static_cast<size_t>(size) / 4;
  const unsigned kind = random() % 5;
  const size_t uniform = random() % most + 1;
  const size_t hugeFrom = random() % counts.size(), hugeTo = random() % counts.size();
  for (size_t from = 0; from < counts.size(); ++from)
    for (size_t to = 0; to < counts.size(); ++to) {
      const size_t skewed = most / ((to + 1) * (to + 1)) / (1 + random() % 3);
      const size_t sparse = random() % 4 == 0 ? random() % 100 : 0;
      const size_t huge = from == hugeFrom && to == hugeTo ? roomBytes / unit / 2 : random() % 3;
      counts[from][to] = std::array<size_t, 5>{uniform, skewed, sparse, huge, 0}[kind];
    }
  return counts;
}

/// Leaves out what is not between neighbours, or not from or to rank `root`.
void thin(Counts &counts, unsigned pattern, size_t root) {
  const size_t size = counts.size();
  for (size_t from = 0; from < size; ++from)
    for (size_t to = 0; to < size; ++to)
      if (pattern == 0 ? (from + 1) % size != to : pattern == 1 ? from != root : to != root)
        counts[from][to] = absent;
}

/// `maySplit`: no rank calls for another one in its groups. Two ranks that split have one group of both, and one of
/// one.
Step randomStep(size_t number, int size, bool maySplit) {
  std::minstd_rand random(static_cast<unsigned>(number * 7919 + 11));
  random.discard(5);
  Step step;
  step.number = number;
  step.type = types[number % std::size(types)];
  step.counts = randomCounts(size, random, step.type.numBytes);
  const unsigned pattern = random() % 10;
  if (pattern < 3) {
    thin(step.counts, pattern, random() % step.counts.size());
  } else if (pattern < 6) { // blocks without data are left out
    for (std::vector<size_t> &row : step.counts)
      std::ranges::replace(row, size_t(0), absent);
  }
  step.isSplit = pattern == 6 && maySplit && size > 2;
  return step;
}

using AlltoAllv = ncclResult_t(const void *, const size_t *, const size_t *, void *, const size_t *, const size_t *,
                               ncclDataType_t, ncclComm_t, cudaStream_t);

/// One side of a call, in elements.
struct Side {
  std::vector<size_t> counts, places;

  void add(size_t numBytes, size_t place, size_t unit) {
    counts.push_back(numBytes / unit);
    places.push_back(place / unit);
  }
};

void callVector(const Caller &caller, const Step &step) {
  static auto *call = reinterpret_cast<AlltoAllv *>(dlsym(RTLD_DEFAULT, std::getenv("KOLO_TEST_ALLTOALLV")));
  const int self = caller.rank.number;
  Side sent, received; // gone when the group ends
  for (int peer = 0; peer < step.size(); ++peer) {
    sent.add(step.bytesOf(self, peer), caller.input.places[static_cast<size_t>(peer)], step.type.numBytes);
    received.add(step.bytesOf(peer, self), caller.output.places[static_cast<size_t>(peer)], step.type.numBytes);
  }
  makeCurrent(caller.rank.device);
  NCCL(call(caller.input.address, sent.counts.data(), sent.places.data(), caller.output.address, received.counts.data(),
            received.places.data(), step.type.type, caller.rank.comm,
            reinterpret_cast<cudaStream_t>(caller.rank.stream)));
}

/// `isApart`: in a group with a collective, so that NCCL gets the call.
void runVector(Callers &callers, const Step &step, bool isApart) {
  for (Caller &each : callers.all)
    each.prepare(step);
  const bool isGroup = isApart || callers.all.size() > 1;
  if (isGroup)
    NCCL(ncclGroupStart());
  for (Caller &each : callers.all) {
    callVector(each, step);
    const Rank &rank = each.rank;
    if (isApart)
      NCCL(ncclAllReduce(rank.input, rank.output, 10, ncclInt, ncclSum, rank.comm, rank.stream));
  }
  if (isGroup)
    NCCL(ncclGroupEnd());
  callers.here.synchronize();
  for (Caller &each : callers.all)
    each.check(step, !isApart);
}

} // namespace

int numSteps() {
  const char *text = std::getenv("KOLO_TEST_STEPS");
  return text ? std::atoi(text) : 24;
}

void checkRandom(OwnRanks &here) {
  Callers callers(here);
  size_t numCarried = 0;
  for (int number = 0; number < numSteps(); ++number) {
    const Step step = randomStep(static_cast<size_t>(number), here.size, here.ranks.size() == 1);
    std::minstd_rand random(static_cast<unsigned>(number * 131 + here.ranks[0].number + 3));
    random.discard(5);
    if (random() % 4 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    callers.run(step);
    numCarried += step.isCarried();
  }
  say("carried " + std::to_string(numCarried));
  callers.sayForwarded();
}

void checkVector(OwnRanks &here) {
  Callers callers(here);
  for (int number = 0; number < numSteps(); ++number) {
    std::minstd_rand random(static_cast<unsigned>(number * 7919 + 17));
    random.discard(5);
    Step step;
    step.number = static_cast<size_t>(number);
    step.type = types[step.number % std::size(types)];
    step.counts = randomCounts(here.size, random, step.type.numBytes);
    runVector(callers, step, number % 5 == 2);
  }
}
