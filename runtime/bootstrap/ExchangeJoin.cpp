// Ranks that the caller connects: all they have at first is the caller's own all-gather of a few bytes.
//
// In the first round every rank says who it is and what it refuses. Rank 0 has made the control segment by then, and
// says where it is. In the second round every rank says whether it reached the segment. So all ranks return one error.
//
// If they are on several hosts, every rank listens, and says in a second round where. The third and fourth round tell
// whether all have their host's control segment, and whether all are connected.
#include "bootstrap/ExchangeJoin.h"

#include "base/Error.h"
#include "base/Variable.h"
#include "bootstrap/MultiHostJoin.h"

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
  uint32_t version = 3; // of this struct
  int32_t rank = 0;
  int32_t size = 0;
  int32_t pid = 0;
  HostId host;
  char hostName[hostNameBytes] = {};
  StatusCode code = StatusCode::Ok; // not Ok: this rank refuses, and `message` says why
  char message[192] = {};
  // Of rank 0.
  int32_t controlFd = -1;
  uint64_t controlBytes = 0;
  uint64_t controlAddress = 0; // of a shared_ptr<ControlMemory>, for ranks that are threads
  WorldNumber world = {};      // if there are several hosts, with the address by which they reach rank 0
  char address[64] = {};
};
static_assert(std::is_trivially_copyable_v<Introduction> && sizeof(Introduction) <= 512);

/// What a rank of several hosts says in the second round.
struct ProvedArrival {
  ArrivalBytes arrival = {};
  uint32_t hasSecret = 0;
  SecretProof proof = {}; // of the world's number: equal secrets give equal proofs
};
static_assert(std::is_trivially_copyable_v<ProvedArrival>);

/// A rank is in the exchange when it connects, so no peer computes meanwhile.
constexpr int longestConnectMs = 30'000;

template <size_t N> void copyText(std::string_view text, char (&to)[N]) { text.copy(to, N - 1); }

Introduction introduce(int rank, int size, const Status &status) {
  Introduction own;
  std::memcpy(own.magic, introductionMagic, sizeof(own.magic));
  own.rank = rank;
  own.size = size;
  own.pid = getpid();
  Result<HostId> host = currentHost();
  if (host.isOk())
    own.host = *host;
  copyText(hostName(), own.hostName);
  const Status &refusal = status.isOk() ? host.status() : status;
  own.code = refusal.code();
  copyText(refusal.message(), own.message);
  return own;
}

/// One rank's way into a communicator.
class ExchangeJoin {
public:
  ExchangeJoin(int ownRank, int numRanks, const AllGather &allGather)
      : rank(ownRank), size(numRanks), gather(allGather), all(static_cast<size_t>(numRanks)) {}

  Result<Meeting> enter(const Result<Settings> &own);

private:
  bool areThreads() const {
    return std::all_of(all.begin(), all.end(), [&](const Introduction &each) {
      return each.pid == all.front().pid && each.host == all.front().host;
    });
  }
  bool areOnOneHost() const {
    return std::all_of(all.begin(), all.end(), [&](const Introduction &each) { return each.host == all.front().host; });
  }
  Status exchange(const Introduction &own);
  Status compare() const;
  Result<std::shared_ptr<ControlMemory>> openControl() const;
  Result<Meeting> meetHere(const std::shared_ptr<ControlMemory> &made);
  Result<Meeting> meetHosts(Settings settings);
  Result<Roster> gatherArrivals(MultiHostJoin &join, const HostMap &map, const Result<OptionalKey> &secret);

  int rank, size;
  const AllGather &gather;
  std::vector<Introduction> all; // by rank, of the last round
};

Status ExchangeJoin::exchange(const Introduction &own) {
  Status status = gather(&own, sizeof(own), all.data());
  return status.isOk() ? compare() : status;
}

/// The first refusal or difference, the same on all ranks.
Status ExchangeJoin::compare() const {
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
  return {};
}

Result<std::shared_ptr<ControlMemory>> ExchangeJoin::openControl() const {
  const Introduction &root = all.front();
  if (areThreads())
    return *reinterpret_cast<const std::shared_ptr<ControlMemory> *>(root.controlAddress);
  return runtime::openControl({root.pid, root.controlFd, root.controlBytes}, size, size);
}

/// All ranks are on this host. `made`: null but on rank 0.
Result<Meeting> ExchangeJoin::meetHere(const std::shared_ptr<ControlMemory> &made) {
  Result<std::shared_ptr<ControlMemory>> opened = made ? Result(made) : openControl();
  // Numbered before anybody waits for this rank, so that its peers notice when it ends.
  if (opened.isOk() && !areThreads())
    (*opened)->control.block(rank).pid.store(getpid());
  if (Status refused = exchange(introduce(rank, size, opened.status())); !refused.isOk())
    return refused;
  return Meeting{*opened, nullptr, areThreads() ? RankKind::Threads : RankKind::Processes};
}

/// Tells where this rank listens, and hears the same of all. The first refusal or difference, the same on all ranks.
Result<Roster> ExchangeJoin::gatherArrivals(MultiHostJoin &join, const HostMap &map,
                                            const Result<OptionalKey> &secret) {
  const WorldNumber world = all.front().world;
  Result<std::string> address =
      rank == 0 ? Result<std::string>(all.front().address) : addressTowards(all.front().address);
  bool isInterfaceGiven = variable("KOLO_NETWORK_INTERFACE") != nullptr;
  Arrival arrival;
  arrival.refusal = isInterfaceGiven ? Status() : address.status();
  if (!secret.isOk())
    arrival.refusal = secret.status();
  if (arrival.refusal.isOk())
    arrival = join.listen(address.isOk() ? *address : "");
  ProvedArrival own;
  own.arrival = write(arrival);
  own.hasSecret = secret.isOk() && secret->has_value();
  own.proof = prove(secret.isOk() ? *secret : OptionalKey(), secretLabel, {world});
  std::vector<ProvedArrival> places(static_cast<size_t>(size));
  if (Status status = gather(&own, sizeof(own), places.data()); !status.isOk())
    return status;
  Roster roster;
  roster.map = map;
  for (int peer = 0; peer < size; ++peer) {
    const ProvedArrival &place = places[static_cast<size_t>(peer)], &first = places.front();
    Result<Arrival> parsed = parseArrival(place.arrival);
    if (!parsed.isOk())
      return rankError(StatusCode::Mismatch, peer, "rank {}: {}", peer, parsed.status().message());
    if (!parsed->refusal.isOk())
      return rankError(parsed->refusal.code(), peer, "rank {}: {}", peer, parsed->refusal.message());
    if (place.hasSecret != first.hasSecret)
      return rankError(StatusCode::Mismatch, peer, "ranks disagree on KOLO_SECRET: rank 0 has {}, rank {} has {}",
                       first.hasSecret ? "one" : "none", peer, place.hasSecret ? "one" : "none");
    if (place.proof != first.proof)
      return rankError(StatusCode::Mismatch, peer, "ranks disagree on KOLO_SECRET: rank {} has another one than rank 0",
                       peer);
    roster.arrivals.push_back(*parsed);
  }
  return roster;
}

/// Ranks are on several hosts.
Result<Meeting> ExchangeJoin::meetHosts(Settings settings) {
  std::vector<HostId> hosts;
  std::vector<std::string> names;
  for (const Introduction &each : all) {
    hosts.push_back(each.host);
    names.emplace_back(each.hostName, strnlen(each.hostName, sizeof(each.hostName)));
  }
  const HostMap map = mapHosts(hosts, names);
  const std::vector<int> here = map.ranksOf(map.hostOf[static_cast<size_t>(rank)]);
  settings.connectMs = std::min(settings.timeoutMs, longestConnectMs);
  const Result<OptionalKey> secret = readSecret();
  MultiHostJoin join({rank, size, here.front(), static_cast<int>(here.size())},
                     {all.front().world, secret.isOk() ? *secret : OptionalKey()}, settings);
  Result<Roster> roster = gatherArrivals(join, map, secret);
  if (!roster.isOk())
    return roster.status();
  if (Status refused = exchange(introduce(rank, size, join.open(*roster))); !refused.isOk())
    return refused;
  Result<Meeting> met = join.connect(*roster);
  if (Status refused = exchange(introduce(rank, size, met.status())); !refused.isOk())
    return refused;
  return met;
}

Result<Meeting> ExchangeJoin::enter(const Result<Settings> &own) {
  // Rank 0 does not know yet whether the ranks are threads, so it makes memory that serves both.
  Status status = own.status();
  std::shared_ptr<ControlMemory> made;
  if (rank == 0 && status.isOk() && size <= maxRanksOfHost) {
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
  if (rank == 0 && status.isOk()) {
    introduction.world = randomWorld();
    copyText(likelyAddress(), introduction.address);
  }
  if (Status refused = exchange(introduction); !refused.isOk())
    return refused;
  if (!areOnOneHost())
    return meetHosts(*own);
  if (size > maxRanksOfHost)
    return error(StatusCode::InvalidArgument, "a communicator has at most {} ranks on one host, not {}", maxRanksOfHost,
                 size);
  return meetHere(made);
}

Status checkPlace(int rank, int size) {
  if (size < 1 || size > maxRanks)
    return error(StatusCode::InvalidArgument, "a communicator has between 1 and {} ranks, not {}", maxRanks, size);
  if (rank < 0 || rank >= size)
    return error(StatusCode::InvalidArgument, "rank {} is not one of {} ranks", rank, size);
  return {};
}

} // namespace

Result<Meeting> meetByExchange(int rank, int size, const AllGather &exchange, const Result<Settings> &settings) {
  // Without a place a rank cannot take part in the exchange.
  if (Status status = checkPlace(rank, size); !status.isOk())
    return status;
  return ExchangeJoin(rank, size, exchange).enter(settings);
}

} // namespace kolo::runtime
