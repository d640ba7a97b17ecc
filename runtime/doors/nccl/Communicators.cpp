// The functions that make, end and watch communicators.
#include "Group.h"
#include "Own.h"
#include "Process.h"
#include "Rolls.h"

#include <cstdlib>
#include <optional>

namespace kolo::nccl {
namespace {

constexpr uint32_t configMagic = 0xcafebeef;

/// What NCCL_COMM_BLOCKING says, read as NCCL reads it: other values than 0 and 1 say nothing.
std::optional<bool> isNonBlockingByVariable() {
  const char *text = std::getenv("NCCL_COMM_BLOCKING");
  char *end = nullptr;
  const long long value = text ? std::strtoll(text, &end, 0) : -1;
  return end == text || (value != 0 && value != 1) ? std::nullopt : std::optional(value == 0);
}

/// NCCL's variable goes before the program's configuration.
bool isNonBlocking(const Config *config) {
  if (std::optional<bool> said = isNonBlockingByVariable())
    return *said;
  return config && config->magic == configMagic && config->blocking == 0;
}

/// The real library makes the child of a non-blocking communicator in the background, whatever the child's kind is.
Creation creationOf(const std::shared_ptr<Member> &parent, const Key &key, Comm *made, const Config *config) {
  bool isInBackground = parent->isNonBlocking;
  return {made, key, nullptr, isInBackground || isNonBlocking(config), parent->rank, isInBackground, parent};
}

/// A new communicator of ranks that have its unique id.
Creation creationOf(Comm *made, const UniqueId &id, bool isNonBlocking, int rank, int size) {
  return {made, keyOf(id), nullptr, isNonBlocking, rank, false, nullptr, size, rollOf(id), {}};
}

/// Forgets a communicator. Its own part ends before that of the real library, whose handle it knows. Returns the
/// failure of calls that were carried.
Code leave(Comm comm, Leave how) {
  std::shared_ptr<Member> member = removeMember(comm);
  if (!member || !member->carrier)
    return Code::Success;
  return settle(*member, member->leave(how));
}

} // namespace

namespace own {

/// With NCCL_COMM_ID every rank makes the same id, and so no process is known to all.
Code GetUniqueId(UniqueId *id) {
  Code code = forward(real().functions.GetUniqueId, "ncclGetUniqueId", id);
  if (code == Code::Success && id && !std::getenv("NCCL_COMM_ID"))
    addRoll(*id);
  return code;
}

Code CommInitRank(Comm *made, int numRanks, UniqueId id, int rank) {
  Creation creation = creationOf(made, id, isNonBlocking(nullptr), rank, numRanks);
  return create(std::move(creation),
                [&] { return forward(real().functions.CommInitRank, "ncclCommInitRank", made, numRanks, id, rank); });
}

Code CommInitRankConfig(Comm *made, int numRanks, UniqueId id, int rank, Config *config) {
  Creation creation = creationOf(made, id, isNonBlocking(config), rank, numRanks);
  return create(std::move(creation), [&] {
    return forward(real().functions.CommInitRankConfig, "ncclCommInitRankConfig", made, numRanks, id, rank, config);
  });
}

Code CommInitRankScalable(Comm *made, int numRanks, int rank, int numIds, UniqueId *ids, Config *config) {
  auto call = [&] {
    return forward(real().functions.CommInitRankScalable, "ncclCommInitRankScalable", made, numRanks, rank, numIds, ids,
                   config);
  };
  if (!ids || numIds < 1)
    return call();
  return create(creationOf(made, ids[0], isNonBlocking(config), rank, numRanks), call);
}

Code CommInitAll(Comm *made, int numDevices, const int *devices) {
  std::vector<Creation> creations;
  auto call = [&] { return forward(real().functions.CommInitAll, "ncclCommInitAll", made, numDevices, devices); };
  const std::optional<Key> key = freshKey();
  if (!key)
    return call();
  for (int rank = 0; made && rank < numDevices; ++rank)
    creations.push_back({made + rank, *key, nullptr, isNonBlocking(nullptr), rank});
  return create(std::move(creations), call);
}

Code CommSplit(Comm comm, int color, int key, Comm *made, Config *config) {
  auto call = [&] { return forward(real().functions.CommSplit, "ncclCommSplit", comm, color, key, made, config); };
  std::shared_ptr<Member> parent = findMember(comm);
  if (!parent)
    return call();
  Key childKey = childOf(parent->key, Descent::Split, parent->numSplits++, color);
  return color < 0 ? call() : create(creationOf(parent, childKey, made, config), call);
}

Code CommShrink(Comm comm, int *excluded, int numExcluded, Comm *made, Config *config, int flags) {
  auto call = [&] {
    return forward(real().functions.CommShrink, "ncclCommShrink", comm, excluded, numExcluded, made, config, flags);
  };
  std::shared_ptr<Member> parent = findMember(comm);
  if (!parent)
    return call();
  constexpr int abortsParent = 1;
  if ((flags & abortsParent) != 0 && parent->carrier)
    (void)parent->leave(Leave::Aborted);
  return create(creationOf(parent, childOf(parent->key, Descent::Shrunk, parent->numShrinks++, 0), made, config), call);
}

/// Returns when the carried calls are done; the real library waits for its own.
Code CommFinalize(Comm comm) {
  std::shared_ptr<Member> member = findMember(comm);
  Code own = member && member->carrier ? flush(member) : Code::Success;
  if (member && findMember(comm) != member) { // the handle is that of no communicator, or of another one
    std::string what = "rank " + std::to_string(member->rank) + ": another thread has ended this communicator";
    return own == Code::Success ? fail(Code::RemoteError, what) : own;
  }
  Code code = forward(real().functions.CommFinalize, "ncclCommFinalize", comm);
  return own == Code::Success ? code : own;
}

Code CommDestroy(Comm comm) {
  Code own = leave(comm, Leave::Destroyed);
  Code code = forward(real().functions.CommDestroy, "ncclCommDestroy", comm);
  return own == Code::Success ? code : own;
}

Code CommAbort(Comm comm) {
  (void)leave(comm, Leave::Aborted);
  return forward(real().functions.CommAbort, "ncclCommAbort", comm);
}

/// What runs is ended; the communicator may still be split and shrunk.
Code CommRevoke(Comm comm, int flags) {
  if (std::shared_ptr<Member> member = findMember(comm); member && member->carrier)
    (void)member->leave(Leave::Aborted);
  return forward(real().functions.CommRevoke, "ncclCommRevoke", comm, flags);
}

Code CommGetAsyncError(Comm comm, Code *code) {
  Code answer = forward(real().functions.CommGetAsyncError, "ncclCommGetAsyncError", comm, code);
  std::shared_ptr<Member> member = findMember(comm);
  if (answer != Code::Success || !code || *code != Code::Success || !member)
    return answer;
  if (member->isNonBlocking)
    member->hideBoards();
  if (!member->carrier)
    return answer;
  Code earlier = member->failure;
  *code = earlier == Code::Success ? settle(*member, member->carrier->failure()) : earlier;
  return answer;
}

Code CommWindowRegister(Comm comm, void *memory, size_t sizeBytes, Window *window, int flags) {
  constexpr int isSymmetric = 1; // buffers of a call are at one offset on all ranks
  Code code =
      forward(real().functions.CommWindowRegister, "ncclCommWindowRegister", comm, memory, sizeBytes, window, flags);
  std::shared_ptr<Member> member = findMember(comm);
  if (!member || !member->carrier || !member->carrier->ofOneRank() || (flags & isSymmetric) == 0)
    return code;
  const bool isBegun = code == Code::Success || code == Code::InProgress;
  Registration registration{std::move(member), memory, sizeBytes, isBegun ? window : nullptr};
  if (isInGroup())
    queue(std::move(registration));
  else
    finish(std::vector<Registration>{std::move(registration)}, code);
  return code;
}

Code CommWindowDeregister(Comm comm, Window window) {
  if (std::shared_ptr<Member> member = findMember(comm))
    if (auto known = member->windows.find(window); known != member->windows.end()) {
      member->carrier->ofOneRank()->removeWindow(known->second);
      member->windows.erase(known);
    }
  return forward(real().functions.CommWindowDeregister, "ncclCommWindowDeregister", comm, window);
}

const char *GetLastError(Comm comm) {
  if (!ownError().empty())
    return ownError().c_str();
  return forward(real().functions.GetLastError, "ncclGetLastError", comm);
}

} // namespace own
} // namespace kolo::nccl
