// The ways to make a Communicator: threads of one process, processes that one parent forked, which inherit the control
// segment, and ranks that meet: see bootstrap/.
#include "base/Error.h"
#include "bootstrap/ExchangeJoin.h"
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
      communicators.back().state->start(cores);
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

/// Joins the ranks that this one met.
static Result<std::unique_ptr<CommunicatorState>> joinMet(const Meeting &met, int rank, const Settings &settings) {
  Result<std::unique_ptr<CommunicatorState>> joined =
      CommunicatorState::joinRanks(met.control, met.kind, rank, settings, met.links);
  if (joined.isOk() && (met.kind == RankKind::Processes || rank == 0)) // threads share it
    met.control->memory.closeDescriptor();                             // all have mapped it
  return joined;
}

Result<Communicator> Communicator::createFromEnvironment(const CommunicatorOptions &options) {
  return guarded([&]() -> Result<Communicator> {
    Result<Settings> settings = readSettings(options);
    if (!settings.isOk())
      return settings.status();
    Result<RankEnvironment> environment = readRankEnvironment();
    if (!environment.isOk())
      return environment.status();
    Result<Meeting> met = meetByEnvironment(*environment, *settings);
    if (!met.isOk())
      return met.status();
    Result<std::unique_ptr<CommunicatorState>> joined = joinMet(*met, environment->rank, *settings);
    if (!joined.isOk())
      return joined.status();
    return Communicator(std::move(joined).value());
  });
}

Result<Communicator> Communicator::create(int rank, int size, const AllGather &exchange,
                                          const CommunicatorOptions &options) {
  return guarded([&]() -> Result<Communicator> {
    Result<Settings> settings = readSettings(options);
    Result<Meeting> met = meetByExchange(rank, size, exchange, settings);
    if (!met.isOk())
      return met.status();
    Result<std::unique_ptr<CommunicatorState>> joined = joinMet(*met, rank, *settings);
    if (!joined.isOk())
      return joined.status();
    return Communicator(std::move(joined).value());
  });
}

} // namespace kolo::runtime
