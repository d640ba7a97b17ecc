// A world of processes forked from one parent, who inherit the control segment.
#include "bootstrap/Processes.h"

#include "Error.h"

#include <unistd.h>

namespace kolo::runtime {

struct ForkedRanksState {
  std::shared_ptr<ControlMemory> shared;
};

ForkedRanks::ForkedRanks(std::shared_ptr<ForkedRanksState> created) : state(std::move(created)) {}

int ForkedRanks::size() const { return state->shared->control.numRanks(); }

Result<ForkedRanks> ForkedRanks::create(int numRanks) {
  return guarded([&]() -> Result<ForkedRanks> {
    Result<std::shared_ptr<ControlMemory>> shared = createControl(RankKind::Processes, numRanks);
    if (!shared.isOk())
      return shared.status();
    auto created = std::make_shared<ForkedRanksState>();
    created->shared = *shared;
    return ForkedRanks(std::move(created));
  });
}

Result<std::unique_ptr<CommunicatorState>> joinProcesses(std::shared_ptr<ControlMemory> shared, int rank,
                                                         const Settings &settings) {
  RankBlock &block = shared->control.block(rank);
  Presence expected = Presence::Absent;
  if (!block.presence.compare_exchange_strong(expected, Presence::Joined))
    return rankError(StatusCode::Mismatch, rank, "rank {} has joined already", rank);
  block.pid.store(getpid());
  auto ownPeers = std::make_unique<Peers>(std::move(shared), RankKind::Processes, rank, settings);
  auto state = std::make_unique<CommunicatorState>(std::move(ownPeers));
  if (Status status = state->join(); !status.isOk())
    return status;
  return state;
}

Result<Communicator> Communicator::createForked(const ForkedRanks &forked, int rank,
                                                const CommunicatorOptions &options) {
  return guarded([&]() -> Result<Communicator> {
    Result<Settings> settings = readSettings(options);
    if (!settings.isOk())
      return settings.status();
    if (rank < 0 || rank >= forked.size())
      return error(StatusCode::InvalidArgument, "rank {} among {} forked ranks", rank, forked.size());
    Result<std::unique_ptr<CommunicatorState>> joined = joinProcesses(forked.state->shared, rank, *settings);
    if (!joined.isOk())
      return joined.status();
    return Communicator(std::move(joined).value());
  });
}

} // namespace kolo::runtime
