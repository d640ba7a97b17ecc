// A world of processes forked from one parent, who inherit the control segment.
#include "bootstrap/Processes.h"

#include "Error.h"

#include <unistd.h>

namespace kolo::runtime {

struct ForkedWorldState {
  std::shared_ptr<ControlMemory> shared;
};

ForkedWorld::ForkedWorld(std::shared_ptr<ForkedWorldState> created) : state(std::move(created)) {}

int ForkedWorld::size() const { return state->shared->control.numRanks(); }

Result<ForkedWorld> ForkedWorld::create(int numRanks) {
  return guarded([&]() -> Result<ForkedWorld> {
    Result<std::shared_ptr<ControlMemory>> shared = createControl(WorldKind::Processes, numRanks);
    if (!shared.isOk())
      return shared.status();
    auto created = std::make_shared<ForkedWorldState>();
    created->shared = *shared;
    return ForkedWorld(std::move(created));
  });
}

Result<std::unique_ptr<CommunicatorState>> joinProcesses(std::shared_ptr<ControlMemory> shared, int rank,
                                                         const Settings &settings) {
  RankBlock &block = shared->control.block(rank);
  Presence expected = Presence::Absent;
  if (!block.presence.compare_exchange_strong(expected, Presence::Joined))
    return rankError(StatusCode::Mismatch, rank, "rank {} has joined already", rank);
  block.pid.store(getpid());
  auto world = std::make_unique<World>(std::move(shared), WorldKind::Processes, rank, settings);
  auto state = std::make_unique<CommunicatorState>(std::move(world));
  if (Status status = state->join(); !status.isOk())
    return status;
  return state;
}

Result<Communicator> Communicator::createForked(const ForkedWorld &world, int rank,
                                                const CommunicatorOptions &options) {
  return guarded([&]() -> Result<Communicator> {
    Result<Settings> settings = readSettings(options);
    if (!settings.isOk())
      return settings.status();
    if (rank < 0 || rank >= world.size())
      return error(StatusCode::InvalidArgument, "rank {} in a world of {} ranks", rank, world.size());
    Result<std::unique_ptr<CommunicatorState>> joined = joinProcesses(world.state->shared, rank, *settings);
    if (!joined.isOk())
      return joined.status();
    return Communicator(std::move(joined).value());
  });
}

} // namespace kolo::runtime
