// Two ranks play ping-pong through windows and channels, and check every value. They are threads of one process, or
// processes that are started with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT:
//
//   ./channel
//   export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500; RANK=0 ./channel & RANK=1 ./channel; wait
#include "kolo/runtime/Communicator.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr uint64_t numRounds = 10000;
constexpr int channelId = 0;

/// The value of a round; the rank whose turn it is writes it.
uint64_t ballOf(uint64_t round) { return round * 2654435761u + 1; }

Status play(Communicator &communicator) {
  Result<Window> window = communicator.allocate(sizeof(uint64_t));
  if (!window.isOk())
    return window.status();
  Result<std::vector<RemoteWindow>> windows = communicator.exchange(*window);
  if (!windows.isOk())
    return windows.status();
  int me = communicator.rank(), peer = 1 - me;
  Channel channel = communicator.channel(peer, channelId);
  auto *received = static_cast<const uint64_t *>(window->data());
  for (uint64_t round = 0; round < numRounds; ++round) {
    if (round % 2 == static_cast<uint64_t>(me)) {
      uint64_t ball = ballOf(round);
      if (Status status = channel.put((*windows)[static_cast<size_t>(peer)], 0, &ball, sizeof(ball)); !status.isOk())
        return status;
      if (Status status = channel.signal(); !status.isOk())
        return status;
    } else {
      if (Status status = channel.wait(); !status.isOk())
        return status;
      if (*received != ballOf(round))
        return Status(StatusCode::SystemError, "round " + std::to_string(round) + " brought a wrong value");
    }
  }
  return communicator.barrier(); // a window must live until no peer uses it any more
}

int report(Communicator &communicator) {
  auto start = std::chrono::steady_clock::now();
  Status status =
      communicator.size() == 2 ? play(communicator) : Status(StatusCode::InvalidArgument, "needs two ranks");
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  if (!status.isOk())
    return std::fprintf(stderr, "rank %d: %s: %s\n", communicator.rank(), toString(status.code()),
                        status.message().c_str()),
           1;
  std::printf("rank %d: %llu rounds, all values right, %.2f us per round\n", communicator.rank(),
              static_cast<unsigned long long>(numRounds), took.count() / numRounds);
  return 0;
}

int playAsThreads() {
  Result<std::vector<Communicator>> communicators = Communicator::createThreads(2);
  if (!communicators.isOk())
    return std::fprintf(stderr, "%s\n", communicators.status().message().c_str()), 1;
  int codes[2] = {};
  std::thread other([&] { codes[1] = report((*communicators)[1]); });
  codes[0] = report((*communicators)[0]);
  other.join();
  return codes[0] | codes[1];
}

int playAsProcess() {
  Result<Communicator> communicator = Communicator::createFromEnvironment();
  if (!communicator.isOk())
    return std::fprintf(stderr, "%s\n", communicator.status().message().c_str()), 1;
  return report(*communicator);
}

} // namespace

int main() { return std::getenv("RANK") ? playAsProcess() : playAsThreads(); }
