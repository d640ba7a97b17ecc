#include "Connections.h"

#include "Process.h"
#include "RealGather.h"
#include "Rolls.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace kolo::nccl {

using runtime::AllGather;
using runtime::Result;
using runtime::Status;
using runtime::StatusCode;

namespace {

/// What a rank says to ranks of other hosts. Of one size in all versions of this library.
struct HostsNote {
  char magic[8] = {'K', 'O', 'L', 'O', 'N', 'C', 'C', 'L'};
  uint32_t version = 2; // of what ranks exchange here
  int32_t rank = 0;
  Note note;
  int32_t groupMs = 0; // KOLO_NCCL_GROUP_MS
  char later[12] = {};
};
static_assert(sizeof(HostsNote) == 64);

/// Why ranks with these notes are not carried; empty: they may be. The same on all ranks.
const char *compare(const std::vector<Note> &notes) {
  if (std::ranges::any_of(notes, [](const Note &each) { return each.refuses != Refusal::None; })) {
    auto isNonBlocking = [](const Note &each) { return each.refuses == Refusal::NonBlocking; };
    return std::ranges::any_of(notes, isNonBlocking) ? "non-blocking communicator" : "ranks that Kolo cannot compare";
  }
  if (std::ranges::any_of(notes, [&](const Note &each) { return each.plugins != notes.front().plugins; }))
    return "ranks have other plugins";
  return "";
}

bool hasPeersHere(const std::vector<Note> &notes, const Note &own) {
  return std::ranges::count_if(notes, [&](const Note &each) { return each.pid == own.pid && each.host == own.host; }) >
         1;
}

std::shared_ptr<LocalCarrier> localCarrier(const Key &key, int size) {
  static std::mutex mutex;
  static auto *carriers = new std::map<Key, std::weak_ptr<LocalCarrier>>; // programs call NCCL from destructors
  std::scoped_lock lock(mutex);
  std::weak_ptr<LocalCarrier> &known = (*carriers)[key];
  std::shared_ptr<LocalCarrier> carrier = known.lock();
  if (!carrier)
    known = carrier = std::make_shared<LocalCarrier>(size);
  std::erase_if(*carriers, [](const auto &entry) { return entry.second.expired(); });
  return carrier;
}

void sayForwarded(Member &member, const std::string &why) {
  member.whyNot = "ranks that Kolo cannot connect";
  if (member.rank == 0)
    print("calls on a communicator of " + std::to_string(member.size) + " ranks are forwarded: " + why);
}

void sayConnected(const Member &member, const HostCarrier &carrier) {
  if (member.rank == 0 && door()->logLevel() != runtime::LogLevel::Off)
    print("connected " + std::to_string(member.size) + " ranks on several hosts: data from others arrives in " +
          carrier.networkMemory());
}

/// Peers do not see stores to ordinary memory of AMD devices while a kernel runs, so there each rank is for itself.
void connectOnHost(Member &member, Board &board, const std::vector<Note> &notes) {
  bool isOneThread = std::ranges::all_of(notes, [&](const Note &each) { return each.thread == notes.front().thread; });
  if (isOneThread && real().kind == runtime::DeviceKind::Cuda) {
    member.carrier = localCarrier(member.key, member.size);
    member.carrier->attach(member.rank, member.device);
    return;
  }
  auto exchange = [&](const void *own, size_t sizeBytes, void *all) {
    return board.gather(member.rank, member.size, own, sizeBytes, all);
  };
  auto connected =
      HostCarrier::connect(exchange, member.rank, member.size, member.device, hasPeersHere(notes, ownNote(false)));
  if (connected.isOk())
    member.carrier = std::move(connected).value();
  else
    sayForwarded(member, connected.status().message());
}

/// A rank whose program calls the real library directly answers with data of its own.
Status parse(const std::vector<HostsNote> &all, std::vector<Note> &notes) {
  const HostsNote known;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const HostsNote &each = all[rank];
    if (std::memcmp(each.magic, known.magic, sizeof(known.magic)) != 0 || each.rank != static_cast<int32_t>(rank))
      return {StatusCode::Mismatch,
              "rank " + std::to_string(rank) + " runs without this library: all ranks need it, or none"};
    notes.push_back(each.note);
    if (each.version != known.version) // it finds the same of this rank
      notes.back().refuses = Refusal::Unknown;
  }
  return {};
}

/// Whether all ranks are connected: no rank goes on alone. `own`: this rank's answer.
Status confirm(const AllGather &exchange, Member &member, const Status &own) {
  struct Answer {
    int32_t isOk = 0;
    char why[252] = {};
  } mine{own.isOk(), {}};
  own.message().copy(mine.why, sizeof(mine.why) - 1);
  std::vector<Answer> all(static_cast<size_t>(member.size));
  if (Status status = exchange(&mine, sizeof(mine), all.data()); !status.isOk())
    return status;
  auto refused = std::ranges::find(all, 0, &Answer::isOk);
  if (refused == all.end())
    return {};
  const std::string why = refused->why, name = "rank " + std::to_string(refused - all.begin()) + ": ";
  sayForwarded(member, why.starts_with("rank ") ? why : name + why);
  return {};
}

/// Ranks that are not on rank 0's host.
std::vector<int> ranksElsewhere(const std::vector<HostsNote> &all) {
  std::vector<int> remote;
  for (const HostsNote &each : all)
    if (each.note.host != all.front().note.host)
      remote.push_back(each.rank);
  return remote;
}

/// Connects rank 0 with ranks on other hosts, by which they agree on groups of sends and receives. Not Ok: the real
/// library has failed.
Status connectGroups(Member &member, const std::vector<HostsNote> &all, const AllGather &exchange) {
  const char *why = whyNoGroups(member.size, std::ranges::count(all, 0, &HostsNote::groupMs) != 0);
  if (why || !haveTableProgram()) {
    member.groups.refuse(why ? why : "no program");
    return {};
  }
  const std::vector<int> remote = ranksElsewhere(all);
  Status failure;
  auto gather = [&](const void *own, size_t sizeBytes, void *of) { return failure = exchange(own, sizeBytes, of); };
  auto server = std::make_unique<GroupHub>(member.key, all.front().note.host, member.size, remote);
  auto board = std::make_unique<RemoteBoard>(member.size);
  const bool isRemote = std::ranges::binary_search(remote, member.rank);
  auto take = [server = server.get(), board = board.get(), isRemote](int sender, std::span<const std::byte> message) {
    return isRemote ? board->take(message) : server->take(sender, message);
  };
  Result<runtime::Hub> hub =
      runtime::Hub::create(member.rank, member.size, remote, gather, take, {.timeoutMs = timeoutMs()});
  if (!failure.isOk())
    return failure;
  if (!hub.isOk()) {
    member.groups.refuse("ranks that Kolo cannot connect");
    if (member.rank == 0)
      print("groups of sends and receives between " + std::to_string(member.size) +
            " ranks are forwarded: " + hub.status().message());
  } else if (isRemote) {
    board->setHub(std::move(hub).value());
    member.groups.use(std::move(board));
  } else if (member.rank == 0) {
    Status started = server->start(std::move(hub).value());
    if (!started.isOk())
      print(started.message());
    else
      member.groups.serve(std::move(server), member);
  }
  return {};
}

/// Prints on one rank. One that has not entered the roll has said so.
void sayWhoIsMissing(const Member &member, const runtime::RollAnswer &said) {
  const MemberRoll::Kind kind = member.roll.kind;
  if (kind == MemberRoll::Kind::NotEntered ||
      member.rank != (kind == MemberRoll::Kind::Own ? std::max(said.present, 0) : 0))
    return;
  std::string who = "the process that made its unique id has ended";
  if (kind == MemberRoll::Kind::None)
    who = "its unique id names no process at which ranks meet";
  else if (kind == MemberRoll::Kind::Parents)
    who = "not all ranks of its parent are known to have this library";
  else if (said.missing >= 0)
    who = "rank " + std::to_string(said.missing) +
          " runs without this library, has a non-blocking communicator, or does not reach the process that made the "
          "unique id";
  print("calls on a communicator of " + std::to_string(member.size) + " ranks are forwarded: " + who);
}

/// False: on all ranks that have it. Not Ok: this rank cannot know what the others know.
Result<bool> haveAllThisLibrary(Member &member) {
  const Result<runtime::RollAnswer> said =
      member.roll.entry ? member.roll.entry->call(rollMs()) : Result(runtime::RollAnswer());
  if (!said.isOk() || said->isComplete)
    return said.isOk() ? Result(true) : Result<bool>(said.status());
  member.whyNot = "ranks without this library";
  sayWhoIsMissing(member, *said);
  return false;
}

/// A rank that compares itself by the real library alone. Not Ok: some rank has not.
Status connectHosts(Member &member, const Note &own, const AllGather &exchange) {
  HostsNote mine;
  mine.rank = member.rank;
  mine.note = own;
  mine.groupMs = groupMs().value_or(0);
  std::vector<HostsNote> all(static_cast<size_t>(member.size));
  std::vector<Note> notes;
  Status status = exchange(&mine, sizeof(mine), all.data());
  if (status.isOk())
    status = parse(all, notes);
  if (!status.isOk())
    return status;
  member.areOnHosts = true;
  member.whyNot = compare(notes);
  if (!*member.whyNot && !door()->hasNetworkPrograms())
    member.whyNot = "ranks on several hosts";
  if (*member.whyNot)
    return {};
  auto connected = HostCarrier::connect(exchange, member.rank, member.size, member.device, hasPeersHere(notes, own));
  member.whyNot = nullptr;
  status = confirm(exchange, member, connected.status());
  if (status.isOk() && !member.whyNot) {
    sayConnected(member, **connected);
    status = connectGroups(member, all, exchange);
  }
  if (status.isOk() && !member.whyNot)
    member.carrier = std::move(connected).value();
  else if (connected.isOk())
    (void)(*connected)->leave(member.rank, Leave::Aborted);
  return status;
}

} // namespace

Note ownNote(bool isNonBlocking) {
  const Result<uint64_t> host = runtime::hostNumber();
  return {host.isOk() ? *host : 0, getpid(), gettid(), isNonBlocking ? Refusal::NonBlocking : Refusal::None,
          door()->identity()};
}

Status connect(Member &member, Board *board) {
  const std::vector<Note> notes = board ? board->notes() : std::vector<Note>();
  if (notes.size() == static_cast<size_t>(member.size)) { // all ranks see this, or none does
    member.whyNot = compare(notes);
    if (!*member.whyNot)
      connectOnHost(member, *board, notes);
    return {};
  }
  const Result<bool> areAll = haveAllThisLibrary(member);
  if (areAll.isOk() && !*areAll)
    return {};
  if (!areAll.isOk()) {
    (void)forward(real().functions.CommAbort, "ncclCommAbort", member.comm);
    return areAll.status();
  }
  Note own = ownNote(false);
  if (!board)
    own.refuses = Refusal::Unknown;
  Result<RealGather> made = RealGather::create(member.comm, member.rank, member.size, member.device);
  Status status = made.status();
  if (made.isOk())
    status = connectHosts(
        member, own, [&](const void *mine, size_t sizeBytes, void *all) { return made->gather(mine, sizeBytes, all); });
  if (!status.isOk())
    (void)forward(real().functions.CommAbort, "ncclCommAbort", member.comm);
  return status;
}

} // namespace kolo::nccl
