// Ranks that the caller connects: all they have at first is the caller's own all-gather of a few bytes.
//
// In the first round every rank says who it is and what it refuses. Rank 0 has made the control segment by then, and
// says where it is. In the second round every rank says whether it reached the segment. So all ranks return one error.
#include "CommunicatorState.h"
#include "Error.h"
#include "bootstrap/Rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace kolo::runtime {
namespace {

constexpr char introductionMagic[8] = {'K', 'O', 'L', 'O', 'M', 'E', 'E', 'T'};

/// What a rank says in one round.
struct Introduction {
  char magic[8] = {};
  uint32_t version = 2; // of this struct
  int32_t rank = 0;
  int32_t size = 0;
  int32_t pid = 0;
  HostId host;
  StatusCode code = StatusCode::Ok; // not Ok: this rank refuses, and `message` says why
  char message[192] = {};
  // Of rank 0.
  int32_t controlFd = -1;
  uint64_t controlBytes = 0;
  uint64_t controlAddress = 0; // of a shared_ptr<ControlMemory>, for ranks that are threads
};
static_assert(std::is_trivially_copyable_v<Introduction> && sizeof(Introduction) <= 512);

Introduction introduce(int rank, int size, const Status &status) {
  Introduction own;
  std::memcpy(own.magic, introductionMagic, sizeof(own.magic));
  own.rank = rank;
  own.size = size;
  own.pid = getpid();
  Result<HostId> host = currentHost();
  if (host.isOk())
    own.host = *host;
  const Status &refusal = status.isOk() ? host.status() : status;
  own.code = refusal.code();
  std::copy_n(refusal.message().data(), std::min(refusal.message().size(), sizeof(own.message) - 1), own.message);
  return own;
}

/// One rank's way into a communicator.
class Newcomer {
public:
  Newcomer(int ownRank, int numRanks, const AllGather &allGather)
      : rank(ownRank), size(numRanks), gather(allGather), all(static_cast<size_t>(numRanks)) {}

  Result<std::shared_ptr<ControlMemory>> enter(const Status &own);
  bool areThreads() const {
    return std::all_of(all.begin(), all.end(), [&](const Introduction &each) { return each.pid == all.front().pid; });
  }

private:
  Status exchange(const Introduction &own);
  Status compare() const;
  Result<std::shared_ptr<ControlMemory>> openControl() const;

  int rank, size;
  const AllGather &gather;
  std::vector<Introduction> all; // by rank, of the last round
};

Status Newcomer::exchange(const Introduction &own) {
  Status status = gather(&own, sizeof(own), all.data());
  return status.isOk() ? compare() : status;
}

/// The first refusal or difference, the same on all ranks.
Status Newcomer::compare() const {
  for (int peer = 0; peer < size; ++peer) {
    const Introduction &each = all[static_cast<size_t>(peer)];
    if (std::memcmp(each.magic, introductionMagic, sizeof(each.magic)) != 0 || each.version != Introduction().version)
      return rankError(StatusCode::Mismatch, peer, "rank {} runs another version of this runtime", peer);
    if (each.rank != peer || each.size != size)
      return rankError(StatusCode::Mismatch, peer, "the exchange gave rank {} of {} at the place of rank {} of {}",
                       each.rank, each.size, peer, size);
    if (each.code != StatusCode::Ok)
      return rankError(each.code, peer, "rank {}: {}", peer, each.message);
  }
  for (int peer = 1; peer < size; ++peer)
    if (all[static_cast<size_t>(peer)].host != all.front().host)
      return rankError(StatusCode::SystemError, peer,
                       "rank {} runs on another host, or in another container, than rank 0: only createFromEnvironment "
                       "joins several",
                       peer);
  return {};
}

Result<std::shared_ptr<ControlMemory>> Newcomer::openControl() const {
  const Introduction &root = all.front();
  if (areThreads())
    return *reinterpret_cast<const std::shared_ptr<ControlMemory> *>(root.controlAddress);
  return runtime::openControl({root.pid, root.controlFd, root.controlBytes}, size, size);
}

Result<std::shared_ptr<ControlMemory>> Newcomer::enter(const Status &own) {
  // Rank 0 does not know yet whether the ranks are threads, so it makes memory that serves both.
  Status status = own;
  std::shared_ptr<ControlMemory> made;
  if (rank == 0 && status.isOk()) {
    Result<std::shared_ptr<ControlMemory>> created = createControl(RankKind::Processes, size, size);
    if (created.isOk())
      made = *created;
    status = created.status();
  }
  Introduction introduction = introduce(rank, size, status);
  if (made) {
    introduction.controlFd = made->memory.fd();
    introduction.controlBytes = made->memory.sizeBytes();
    introduction.controlAddress = reinterpret_cast<uintptr_t>(&made);
  }
  if (Status refused = exchange(introduction); !refused.isOk())
    return refused;
  Result<std::shared_ptr<ControlMemory>> opened = made ? Result(made) : openControl();
  // Numbered before anybody waits for this rank, so that its peers notice when it ends.
  if (opened.isOk() && !areThreads())
    (*opened)->control.block(rank).pid.store(getpid());
  if (Status refused = exchange(introduce(rank, size, opened.status())); !refused.isOk())
    return refused;
  return opened;
}

Status checkPlace(int rank, int size) {
  if (size < 1 || size > maxRanks)
    return error(StatusCode::InvalidArgument, "a communicator has between 1 and {} ranks, not {}", maxRanks, size);
  if (rank < 0 || rank >= size)
    return error(StatusCode::InvalidArgument, "rank {} is not one of {} ranks", rank, size);
  return {};
}

} // namespace

Result<Communicator> Communicator::create(int rank, int size, const AllGather &exchange,
                                          const CommunicatorOptions &options) {
  return guarded([&]() -> Result<Communicator> {
    // Without a place a rank cannot take part in the exchange.
    if (Status status = checkPlace(rank, size); !status.isOk())
      return status;
    Result<Settings> settings = readSettings(options);
    Newcomer newcomer(rank, size, exchange);
    Result<std::shared_ptr<ControlMemory>> shared = newcomer.enter(settings.status());
    if (!shared.isOk())
      return shared.status();
    Result<std::unique_ptr<CommunicatorState>> joined = CommunicatorState::joinRanks(
        *shared, newcomer.areThreads() ? RankKind::Threads : RankKind::Processes, rank, *settings);
    if (!joined.isOk())
      return joined.status();
    return Communicator(std::move(joined).value());
  });
}

} // namespace kolo::runtime
