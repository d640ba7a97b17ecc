// A world of threads of one process.
#include "CommunicatorState.h"
#include "Error.h"
#include "kolo/runtime/Communicator.h"
#include "wait/Cores.h"

namespace kolo::runtime {

Result<std::vector<Communicator>> Communicator::createThreads(int numRanks, const CommunicatorOptions &options) {
  return guarded([&]() -> Result<std::vector<Communicator>> {
    Result<Settings> settings = readSettings(options);
    if (!settings.isOk())
      return settings.status();
    Result<std::shared_ptr<ControlMemory>> shared = createControl(RankKind::Threads, numRanks);
    if (!shared.isOk())
      return shared.status();
    std::vector<cpu_set_t> cores(static_cast<size_t>(numRanks), currentAffinity()); // inherited by the ranks
    std::vector<Communicator> communicators;
    for (int rank = 0; rank < numRanks; ++rank) {
      (*shared)->control.block(rank).presence.store(Presence::Joined);
      auto world = std::make_unique<Peers>(*shared, RankKind::Threads, rank, *settings);
      communicators.push_back(Communicator(std::make_unique<CommunicatorState>(std::move(world))));
      if (Status status = communicators.back().state->start(cores); !status.isOk())
        return status;
    }
    return communicators;
  });
}

} // namespace kolo::runtime
