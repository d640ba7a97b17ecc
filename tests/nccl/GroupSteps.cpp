#include "GroupSteps.h"

#include <numeric>

namespace {

unsigned char byteOf(int sender, int receiver, size_t step, size_t i) {
  return static_cast<unsigned char>(sender * 31 + receiver * 7 + static_cast<int>(step) * 13 +
                                    static_cast<int>(i * 3 + i / 251));
}

} // namespace

unsigned char *allocate(size_t numBytes) {
  CUdeviceptr memory = 0;
  CUDA(cuMemAlloc(&memory, numBytes));
  return reinterpret_cast<unsigned char *>(memory);
}

void Memory::place(const std::vector<size_t> &numBytes, size_t unit, std::minstd_rand &random) {
  std::vector<size_t> order(numBytes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::shuffle(order, random);
  places.assign(numBytes.size(), 0);
  size_t next = random() % 5 * unit;
  for (size_t peer : order) {
    places[peer] = next;
    next += numBytes[peer] + random() % 3 * unit;
  }
}

size_t Step::bytesOf(int sender, int receiver) const {
  const size_t count = counts[static_cast<size_t>(sender)][static_cast<size_t>(receiver)];
  return count == absent ? 0 : count * type.numBytes;
}

bool Step::isCarried() const {
  for (int left = 0; left < size(); ++left)
    for (int right = 0; right < left; ++right)
      if (isSplit || !(size() == 2 ? has(left, right) && has(right, left) : has(left, right) || has(right, left)))
        return false;
  return true;
}

int64_t Step::numTransfersOf(int rank) const {
  int64_t transfers = 0;
  for (int peer = 0; peer < size(); ++peer)
    transfers += has(rank, peer) + has(peer, rank);
  return transfers;
}

Step fullStep(size_t number, int size) {
  Step step;
  step.number = number;
  step.counts = makeCounts(size, 0);
  for (size_t from = 0; from < step.counts.size(); ++from)
    for (size_t to = 0; to < step.counts.size(); ++to)
      step.counts[from][to] = 100 + 10 * from + to;
  return step;
}

Counts makeCounts(int size, size_t count) {
  return {static_cast<size_t>(size), std::vector<size_t>(static_cast<size_t>(size), count)};
}

void Caller::prepare(const Step &step) {
  std::minstd_rand random(static_cast<unsigned>(step.number * 97 + static_cast<size_t>(rank.number) + 1));
  std::vector<size_t> sent, received;
  for (int peer = 0; peer < step.size(); ++peer) {
    sent.push_back(step.bytesOf(rank.number, peer));
    received.push_back(step.bytesOf(peer, rank.number));
  }
  input.place(sent, step.type.numBytes, random);
  output.place(received, step.type.numBytes, random);
  std::vector<unsigned char> content(roomBytes, poison);
  copy(output.address, content.data());
  for (int peer = 0; peer < step.size(); ++peer)
    for (size_t i = 0; i < sent[static_cast<size_t>(peer)]; ++i)
      content[input.places[static_cast<size_t>(peer)] + i] = byteOf(rank.number, peer, step.number, i);
  copy(input.address, content.data());
}

void Caller::copy(void *to, const void *from) const {
  makeCurrent(rank.device);
  CUDA(cuMemcpy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), roomBytes));
}

void Caller::callPeer(const Step &step, int peer) const {
  const auto at = static_cast<size_t>(peer), self = static_cast<size_t>(rank.number);
  if (step.has(rank.number, peer))
    NCCL(ncclSend(input.address + input.places[at], step.counts[self][at], step.type.type, peer, rank.comm,
                  rank.stream));
  if (step.has(peer, rank.number))
    NCCL(ncclRecv(output.address + output.places[at], step.counts[at][self], step.type.type, peer, rank.comm,
                  rank.stream));
}

void Caller::callAll(const Step &step) const {
  for (int peer = 0; peer < step.size(); ++peer)
    callPeer(step, peer);
}

void Caller::call(const Step &step) const {
  makeCurrent(rank.device);
  NCCL(ncclGroupStart());
  for (int peer = 0; peer < step.size(); ++peer) {
    if (step.isSplit && rank.number == step.size() - 1 && peer > 0) {
      NCCL(ncclGroupEnd());
      NCCL(ncclGroupStart());
    }
    callPeer(step, peer);
  }
  NCCL(ncclGroupEnd());
}

bool Caller::hasReceived() const {
  std::vector<unsigned char> found(roomBytes);
  copy(found.data(), output.address);
  return std::ranges::any_of(found, [](unsigned char byte) { return byte != poison; });
}

void Caller::check(const Step &step, bool isCarried) {
  std::vector<unsigned char> right(roomBytes, poison), found(roomBytes);
  for (int peer = 0; isCarried && peer < step.size(); ++peer)
    for (size_t i = 0; i < step.bytesOf(peer, rank.number); ++i)
      right[output.places[static_cast<size_t>(peer)] + i] = byteOf(peer, rank.number, step.number, i);
  copy(found.data(), output.address);
  if (auto differ = std::ranges::mismatch(found, right); differ.in1 != found.end())
    wrong("step " + std::to_string(step.number) + ": rank " + std::to_string(rank.number) + " has " +
          std::to_string(*differ.in1) + " at " + std::to_string(differ.in1 - found.begin()) + ", not " +
          std::to_string(*differ.in2));
  if (!isCarried)
    numForwarded += step.numTransfersOf(rank.number);
}

Callers::Callers(OwnRanks &ranks) : here(ranks) {
  for (Rank &rank : here.ranks) {
    makeCurrent(rank.device);
    all.push_back(Caller{rank});
  }
}

void Callers::start(const Step &step) {
  for (Caller &each : all)
    each.prepare(step);
  if (all.size() > 1)
    NCCL(ncclGroupStart());
  for (Caller &each : all)
    each.call(step);
  if (all.size() > 1)
    NCCL(ncclGroupEnd());
}

void Callers::finish(const Step &step, bool isCarried) {
  here.synchronize();
  for (Caller &each : all)
    each.check(step, isCarried);
}

void Callers::sayForwarded() const {
  for (const Caller &each : all)
    say("expected " + std::to_string(each.numForwarded));
}

/// Begins a group whose calls are those of a full step, but for what `change` makes of it, and ends it.
void runApart(OwnRanks &here, const std::function<void(Caller &, const Step &)> &change) {
  Callers callers(here);
  const Step step = fullStep(1, here.size);
  for (Caller &each : callers.all)
    each.prepare(step);
  NCCL(ncclGroupStart());
  for (Caller &each : callers.all) {
    makeCurrent(each.rank.device);
    change(each, step);
  }
  NCCL(ncclGroupEnd());
  callers.finish(step, false);
  callers.run(fullStep(2, here.size)); // the next one is carried again
}
