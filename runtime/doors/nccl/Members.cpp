#include "Members.h"

#include "Connections.h"
#include "Process.h"
#include "Rolls.h"

#include <algorithm>
#include <cstdlib>
#include <shared_mutex>
#include <thread>

namespace kolo::nccl {

using runtime::LogLevel;
using runtime::Result;

namespace {

struct Registry {
  std::shared_mutex mutex;
  std::map<Comm, std::shared_ptr<Member>> members;
  std::atomic<uint64_t> numRemoved = 0; // a handle may be used again
};

// Not destroyed: programs call NCCL from destructors.
Registry &registry() {
  static auto *only = new Registry;
  return *only;
}

struct Last {
  Comm comm = nullptr;
  std::shared_ptr<Member> member;
  uint64_t numRemoved = 0;
};
thread_local Last last;

[[gnu::destructor]] void hideAtEnd() {
  std::unique_lock lock(registry().mutex, std::try_to_lock);
  for (auto entry = registry().members.begin(); lock && entry != registry().members.end(); ++entry)
    entry->second->groups.hideAtEnd();
}

bool askForRanks(Member &member) {
  const RealFunctions &functions = real().functions;
  return forward(functions.CommCount, "ncclCommCount", member.comm, &member.size) == Code::Success &&
         forward(functions.CommUserRank, "ncclCommUserRank", member.comm, &member.rank) == Code::Success &&
         forward(functions.CommCuDevice, "ncclCommCuDevice", member.comm, &member.device) == Code::Success;
}

/// Not Success: the real library has aborted the communicator.
Code add(const Creation &creation) {
  Comm comm = creation.made && !creation.isInBackground ? *creation.made : nullptr;
  if (!comm)
    return Code::Success;
  auto member = std::make_shared<Member>();
  member->comm = comm;
  member->key = creation.key;
  member->rank = creation.rank;
  member->isNonBlocking = creation.isNonBlocking;
  member->roll = creation.parent ? MemberRoll{MemberRoll::Kind::Parents, creation.parent->roll.entry} : creation.roll;
  if (creation.isNonBlocking && creation.board)
    member->keep(creation.board);
  if (creation.isNonBlocking) // it may still be in the making, so the real library is asked nothing
    member->whyNot = "non-blocking communicator";
  else if (!askForRanks(*member))
    member->whyNot = "communicator of unknown ranks";
  else if (member->size == 1)
    member->whyNot = "one rank";
  else if (runtime::Status status = connect(*member, creation.board.get()); !status.isOk()) {
    *creation.made = nullptr;
    return fail(codeOf(status), "rank " + std::to_string(member->rank) + ": " + status.message());
  }
  if (member->rank == 0)
    wantStatistics();
  if (member->rank == 0 && door()->logLevel() != LogLevel::Off)
    print((member->isNonBlocking ? "communicator: " : "communicator of " + std::to_string(member->size) + " ranks: ") +
          (!member->carrier ? std::string("forwarded: ") + member->whyNot
           : member->groups.whyNot()
               ? std::string("carried where a plugin has a program; groups of sends and receives are forwarded: ") +
                     member->groups.whyNot()
               : "carried where a plugin has a program"));
  std::unique_lock lock(registry().mutex);
  registry().members[comm] = std::move(member);
  ++registry().numRemoved; // of an older communicator with this handle
  return Code::Success;
}

} // namespace

std::shared_ptr<Member> findMember(Comm comm) { return lookUp(comm) ? last.member : nullptr; }

Member *lookUp(Comm comm) {
  uint64_t numRemoved = registry().numRemoved.load(std::memory_order_acquire);
  if (last.comm == comm && last.numRemoved == numRemoved) [[likely]]
    return last.member.get();
  std::shared_lock lock(registry().mutex);
  auto found = registry().members.find(comm);
  last = {comm, found == registry().members.end() ? nullptr : found->second, numRemoved};
  return last.member.get();
}

std::shared_ptr<Member> removeMember(Comm comm) {
  std::unique_lock lock(registry().mutex);
  auto found = registry().members.find(comm);
  if (found == registry().members.end())
    return nullptr;
  std::shared_ptr<Member> member = std::move(found->second);
  registry().members.erase(found);
  ++registry().numRemoved;
  member->hideBoards();
  return member;
}

void Member::keep(std::shared_ptr<Board> board) {
  std::scoped_lock lock(mutex);
  boards.push_back(std::move(board));
}

void Member::hideBoards() {
  std::scoped_lock lock(mutex);
  for (const std::shared_ptr<Board> &board : boards)
    board->hide();
  boards.clear();
}

const char *whyNoGroups(int numRanks, bool hasNoTime) {
  return numRanks > GroupBoard::mostRanks ? "too many ranks" : hasNoTime ? "KOLO_NCCL_GROUP_MS=0" : nullptr;
}

const char *GroupAccess::whyNot() {
  std::scoped_lock lock(mutex);
  return refusal;
}

void GroupAccess::refuse(const char *why) {
  std::scoped_lock lock(mutex);
  refusal = why;
  isClosed = true;
}

/// Opens the board, too, so that its name is gone at the end of the process.
void GroupAccess::serve(std::unique_ptr<GroupHub> server, const Member &member) {
  {
    std::scoped_lock lock(mutex);
    hub = std::move(server);
  }
  (void)board(member);
}

void GroupAccess::use(std::unique_ptr<GroupAgreement> agreement) {
  std::scoped_lock lock(mutex);
  opened = std::move(agreement);
}

GroupAgreement *GroupAccess::board(const Member &member) {
  std::scoped_lock lock(mutex);
  if (opened || isClosed)
    return opened.get();
  if (const char *why = whyNoGroups(member.size, groupMs() == 0)) {
    refusal = why;
    isClosed = true;
    return nullptr;
  }
  Result<std::unique_ptr<GroupBoard>> made =
      GroupBoard::open(member.key, ownNote(false).host, member.rank, member.size);
  isClosed = !made.isOk();
  refusal = isClosed ? "no shared memory" : nullptr;
  if (made.isOk())
    opened = std::move(made).value();
  else
    print("groups of sends and receives of rank " + std::to_string(member.rank) +
          " are forwarded: " + made.status().message());
  return opened.get();
}

void GroupAccess::awaitTold() {
  const GroupHub *server = nullptr;
  {
    std::scoped_lock lock(mutex);
    server = hub.get();
  }
  if (server)
    server->awaitTold();
}

void GroupAccess::leave() {
  std::scoped_lock lock(mutex);
  isClosed = true;
  refusal = "communicator that was aborted";
  if (opened)
    opened->leave();
  if (hub)
    hub->close();
}

void GroupAccess::hideAtEnd() {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (lock && opened && pid == getpid())
    opened->hide();
}

runtime::Status Member::leave(Leave how) {
  groups.leave();
  return carrier->leave(rank, how);
}

/// A rank that cannot enter is one that is missing, for all others, too. So is one that is asked nothing when the real
/// library has returned.
static void enterRoll(Creation &creation) {
  if (!creation.rollAddress || creation.isNonBlocking || creation.size < 2 || creation.rank < 0 ||
      creation.rank >= creation.size)
    return;
  Result<std::shared_ptr<runtime::RollEntry>> entered =
      runtime::RollEntry::enter(*creation.rollAddress, creation.rank, creation.size, rollMs());
  creation.roll.kind = entered.isOk() ? MemberRoll::Kind::Own : MemberRoll::Kind::NotEntered;
  if (entered.isOk())
    creation.roll.entry = std::move(entered).value();
  else
    print("calls on a new communicator of ranks on several hosts are forwarded: rank " + std::to_string(creation.rank) +
          " does not reach " + entered.status().message());
}

Code begin(Creation &creation) {
  if (!real().failure.empty())
    return answerMissing<Code>("ncclCommInitRank");
  if (!door())
    return fail(Code::InvalidUsage, doorFailure().message());
  if (!groupMs())
    return fail(Code::InvalidUsage, std::string("KOLO_NCCL_GROUP_MS='") + secure_getenv("KOLO_NCCL_GROUP_MS") +
                                        "' is not a number of milliseconds from 0 to 3600000");
  Result<std::shared_ptr<Board>> board = Board::pin(creation.key, ownNote(creation.isNonBlocking));
  if (board.isOk())
    creation.board = std::move(board).value();
  else
    print("calls on a new communicator are forwarded: " + board.status().message());
  enterRoll(creation);
  return Code::Success;
}

Code finish(std::vector<Creation> creations, Code code) {
  const bool isBegun = code == Code::Success || code == Code::InProgress;
  std::ranges::sort(creations, {}, &Creation::key);
  for (Creation &creation : creations) {
    creation.isNonBlocking |= code == Code::InProgress; // as a file with NCCL's settings may have it
    if (creation.board && (!creation.isNonBlocking || !isBegun))
      creation.board->hide();
    else if (creation.board && creation.isInBackground)
      creation.parent->keep(creation.board);
  }
  if (!isBegun)
    return code;
  std::vector<Code> codes(creations.size());
  for (size_t begin = 0, end = 0; begin < creations.size(); begin = end) {
    while (end < creations.size() && creations[end].key == creations[begin].key)
      ++end;
    std::vector<std::jthread> others; // each waits for its peers
    for (size_t number = begin + 1; number < end; ++number)
      others.emplace_back([&, number] { codes[number] = add(creations[number]); });
    codes[begin] = add(creations[begin]);
  }
  auto failed = std::ranges::find_if(codes, [](Code each) { return each != Code::Success; });
  return failed == codes.end() ? code : *failed;
}

namespace {

/// The addresses of a window's memory at all ranks, as NCCL has mapped them; none where it has not, or does not tell.
std::vector<void *> addressesOf(const Member &member, void *memory, Window window) {
  auto *addressAt = real().functions.GetPeerDevicePointer;
  std::vector<void *> addresses;
  for (int peer = 0; window && addressAt && peer < member.size; ++peer) {
    void *address = memory;
    Inside inside;
    if (peer != member.rank && (addressAt(window, 0, peer, &address) != Code::Success || !address))
      return {};
    addresses.push_back(address);
  }
  return addresses;
}

/// Where NCCL has refused on this rank, it comes to its peers nevertheless, and has them refuse, too.
void finish(const Registration &registration, bool isDone) {
  Member &member = *registration.member;
  Window window = isDone && registration.made ? *registration.made : nullptr;
  void *memory = window ? registration.memory : nullptr;
  runtime::Status status =
      member.carrier->ofOneRank()->addWindow(memory, registration.sizeBytes, addressesOf(member, memory, window));
  if (status.isOk())
    member.windows[window] = memory;
  else if (member.rank == 0 && door()->logLevel() != LogLevel::Off)
    print("calls copy the buffers in a window of " + std::to_string(registration.sizeBytes) +
          " bytes: " + (window ? status.message() : real().title() + " made no window"));
}

} // namespace

void finish(std::vector<Registration> registrations, Code code) {
  std::map<Member *, std::vector<Registration>> byMember;
  for (Registration &each : registrations)
    byMember[each.member.get()].push_back(std::move(each));
  std::vector<std::jthread> threads; // each waits for its peers
  for (const auto &[member, own] : byMember)
    threads.emplace_back([&own, code] {
      for (const Registration &each : own)
        finish(each, code == Code::Success);
    });
}

} // namespace kolo::nccl
