// How long a put of 8 bytes and the signal after it take to a rank of another host: half of a turn there and back.
// RANK, WORLD_SIZE=2, MASTER_ADDR and MASTER_PORT as for createFromEnvironment; rank 0 prints the least and the median.
#include "kolo/runtime/Communicator.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int numTurns = 200, turnsOfOne = 100;

void require(const Status &status) {
  if (status.isOk())
    return;
  std::fprintf(stderr, "kolo-bench-one-way: %s\n", status.message().c_str());
  std::exit(1);
}

template <class T> T valueOf(Result<T> result) {
  require(result.status());
  return std::move(result).value();
}

} // namespace

int main() {
  Communicator communicator = valueOf(Communicator::createFromEnvironment());
  int peer = 1 - communicator.rank();
  Window window = valueOf(communicator.allocate(sizeof(uint64_t)));
  std::vector<RemoteWindow> windows = valueOf(communicator.exchange(window));
  Channel channel = communicator.channel(peer, 0);
  const auto *arrived = static_cast<const volatile uint64_t *>(window.data());
  std::vector<double> times;
  uint64_t value = 0;
  for (int turn = 0; turn < numTurns; ++turn) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < turnsOfOne; ++i) {
      ++value;
      if (communicator.rank() == 1)
        require(channel.wait());
      require(channel.put(windows[static_cast<size_t>(peer)], 0, &value, sizeof(value)));
      require(channel.signal());
      if (communicator.rank() == 0)
        require(channel.wait());
      if (*arrived != value) {
        std::fprintf(stderr, "kolo-bench-one-way: the signal came before the data\n");
        return 1;
      }
    }
    std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    times.push_back(taken.count() / (2 * turnsOfOne));
  }
  std::ranges::sort(times);
  if (communicator.rank() == 0)
    std::printf("least %.2f us, median %.2f us\n", times.front(), times[times.size() / 2]);
  return 0;
}
