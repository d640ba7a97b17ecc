// Ranks that one parent makes: threads of its process, or forked processes, which inherit the control segment.
#include "base/Error.h"
#include "call/CommunicatorState.h"
#include "kolo/runtime/Communicator.h"
#include "wait/Cores.h"

namespace kolo::runtime {

Result<std::vector<Communicator>> Communicator::createThreads(int numRanks, const CommunicatorOptions &options) {
  return guarded([&]() -> Result<std::vector<Communicator>> {
    Result<Settings> settings = readSettings(options);
    if (!settings.isOk())
      return settings.status();
    Result<std::shared_ptr<ControlMemory>> shared = createControl(RankKind::Threads, numRanks, numRanks);
    if (!shared.isOk())
      return shared.status();
    std::vector<cpu_set_t> cores(static_cast<size_t>(numRanks), currentAffinity()); // the ranks inherit it
    std::vector<Communicator> communicators;
    for (int rank = 0; rank < numRanks; ++rank) {
      (*shared)->control.block(rank).presence.store(Presence::Joined);
      auto peers = std::make_unique<Peers>(*shared, RankKind::Threads, rank, *settings);
      communicators.push_back(Communicator(std::make_unique<CommunicatorState>(std::move(peers))));
      if (Status status = communicators.back().state->start(cores); !status.isOk())
        return status;
    }
    return communicators;
  });
}

struct ForkedRanksState {
  std::shared_ptr<ControlMemory> shared;
};

ForkedRanks::ForkedRanks(std::shared_ptr<ForkedRanksState> created) : state(std::move(created)) {}

int ForkedRanks::size() const { return state->shared->control.numRanks(); }

Result<ForkedRanks> ForkedRanks::create(int numRanks) {
  return guarded([&]() -> Result<ForkedRanks> {
    Result<std::shared_ptr<ControlMemory>> shared = createControl(RankKind::Processes, numRanks, numRanks);
    if (!shared.isOk())
      return shared.status();
    auto created = std::make_shared<ForkedRanksState>();
    created->shared = *shared;
    return ForkedRanks(std::move(created));
  });
}

Result<Communicator> Communicator::createForked(const ForkedRanks &forked, int rank,
                                                const CommunicatorOptions &options) {
  return guarded([&]() -> Result<Communicator> {
    Result<Settings> settings = readSettings(options);
    if (!settings.isOk())
      return settings.status();
    if (rank < 0 || rank >= forked.size())
      return error(StatusCode::InvalidArgument, "rank {} among {} forked ranks", rank, forked.size());
    Result<std::unique_ptr<CommunicatorState>> joined =
        CommunicatorState::joinRanks(forked.state->shared, RankKind::Processes, rank, *settings);
    if (!joined.isOk())
      return joined.status();
    return Communicator(std::move(joined).value());
  });
}

} // namespace kolo::runtime
