// Ranks of several hosts as threads of this process, which stand-ins need whose NICs are all in one process.
#pragma once

#include "Ranks.h"

#include <barrier>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace kolo::test {

/// An all-gather of threads.
class Gathering {
public:
  explicit Gathering(int ranks) : pieces(static_cast<size_t>(ranks)), barrier(ranks) {}

  Status operator()(int rank, const void *own, size_t sizeBytes, void *all) {
    pieces[static_cast<size_t>(rank)] = own;
    barrier.arrive_and_wait();
    for (size_t peer = 0; peer < pieces.size(); ++peer)
      std::memcpy(static_cast<std::byte *>(all) + peer * sizeBytes, pieces[peer], sizeBytes);
    barrier.arrive_and_wait();
    return {};
  }

private:
  std::vector<const void *> pieces;
  std::barrier<> barrier;
};

/// As onHosts. A rank reads the name of its host before its first all-gather: the next one begins then.
inline std::string onHostsOfThreads(int numRanks, const HostOf &hostOf, const CommunicatorOptions &options,
                                    const RankBody &body) {
  setenv("KOLO_WAIT", "yield", 0);
  Gathering gathering(numRanks);
  std::vector<std::string> said(static_cast<size_t>(numRanks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < numRanks; ++rank) {
    std::atomic<bool> hasCome = false;
    setenv("KOLO_HOSTID", hostOf(rank).c_str(), 1);
    threads.emplace_back([&, rank, come = &hasCome]() mutable {
      auto gather = [&](const void *own, size_t sizeBytes, void *all) {
        if (std::atomic<bool> *first = std::exchange(come, nullptr))
          first->store(true);
        return gathering(rank, own, sizeBytes, all);
      };
      auto created = Communicator::create(rank, numRanks, gather, options);
      said[static_cast<size_t>(rank)] = created.isOk() ? body(*created) : created.status().message();
    });
    while (!hasCome)
      std::this_thread::yield();
  }
  std::string text;
  for (size_t rank = 0; rank < said.size(); ++rank) {
    threads[rank].join();
    if (!said[rank].empty())
      text += "rank " + std::to_string(rank) + ": " + said[rank] + "\n";
  }
  unsetenv("KOLO_HOSTID");
  return text;
}

} // namespace kolo::test
