// Members: what is known of every NCCL communicator that this process made, by its handle. Handles are those of the
// real library.
#pragma once

#include "Carrier.h"
#include "GroupHub.h"
#include "RemoteBoard.h"

#include "kolo/runtime/Roll.h"

#include <unistd.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace kolo::nccl {

struct Member;

/// Whether all ranks of a communicator have this library: see Rolls.h.
struct MemberRoll {
  enum class Kind : uint8_t { None, NotEntered, Own, Parents } kind = Kind::None;
  std::shared_ptr<runtime::RollEntry> entry = {}; // of an own one that was entered, and of a parent's
};

/// Why so many ranks cannot agree on groups of sends and receives; null: they can. `hasNoTime`: to wait for each other.
const char *whyNoGroups(int numRanks, bool hasNoTime);

/// A rank's way to the board on which ranks agree on groups of sends and receives. For any thread.
class GroupAccess {
public:
  /// Such groups are forwarded. `why`: for a log.
  void refuse(const char *why);
  /// Where ranks are on several hosts: this one acts for the others, or has another one act for it.
  void serve(std::unique_ptr<GroupHub> server, const Member &member);
  void use(std::unique_ptr<GroupAgreement> agreement);
  /// The first call opens the board of this host, if this rank has nothing else. Null: such groups are forwarded.
  GroupAgreement *board(const Member &member);
  /// Why they are; null: they may be carried.
  const char *whyNot();
  /// What became of a group is known: the ranks for which this one acts have been told of it. See GroupHub.
  void awaitTold();
  /// This rank takes part in no group any more.
  void leave();
  /// At the end of the process: where some rank has not come to the board yet, its name is still there.
  void hideAtEnd();

private:
  std::mutex mutex;
  std::unique_ptr<GroupAgreement> opened;
  std::unique_ptr<GroupHub> hub; // null: this rank acts for no other one
  const char *refusal = nullptr;
  bool isClosed = false;      // none is opened any more
  const pid_t pid = getpid(); // a child that was forked ends alone
};

/// One rank's end of an NCCL communicator.
struct Member {
  Comm comm = nullptr;
  int rank = 0, size = 1, device = 0;
  Key key = {};
  bool isNonBlocking = false;
  std::shared_ptr<Carrier> carrier; // null: its calls are forwarded
  const char *whyNot = nullptr;     // then
  int64_t numSplits = 0, numShrinks = 0;
  std::atomic<Code> failure = Code::Success; // that was said
  std::map<Window, void *> windows;          // the begin of each window that peers access directly
  bool areOnHosts = false;                   // ranks, on several
  MemberRoll roll;                           // of it, or of the communicator that it comes from
  GroupAccess groups;
  const char *saidOfGroups = nullptr; // why a group of sends and receives was forwarded, as it was said last

  /// Keeps a board, on which ranks of a non-blocking communicator may still pin notes: this one, or a child.
  void keep(std::shared_ptr<Board> board);
  /// Hides the boards that are kept: all ranks have come.
  void hideBoards();
  /// Has the carrier leave, and this rank take part in no group.
  runtime::Status leave(Leave how);

private:
  std::mutex mutex; // of `boards`: any thread may ask for errors
  std::vector<std::shared_ptr<Board>> boards;
};

/// Null: this library did not see it made.
std::shared_ptr<Member> findMember(Comm comm);
/// The same, without counting references in the common case. Valid until this thread asks again.
Member *lookUp(Comm comm);
/// Forgets it. Null as above.
std::shared_ptr<Member> removeMember(Comm comm);

/// A communicator that is being made.
struct Creation {
  Comm *made = nullptr;
  Key key = {};
  std::shared_ptr<Board> board; // null: the ranks cannot be compared
  bool isNonBlocking = false;
  int rank = 0;                                         // of its parent, where it has one
  bool isInBackground = false;                          // the real library writes `*made` later, at any time
  std::shared_ptr<Member> parent = {};                  // where it has one
  int size = 0;                                         // where it has none
  std::optional<runtime::RollAddress> rollAddress = {}; // that its unique id names
  MemberRoll roll = {};
};

/// Begins to make a communicator, before the real library is called. Not Success: the door cannot be opened.
Code begin(Creation &creation);
/// Ends that, after the real library has returned. `code`: what it answered. Blocks until all ranks have come here.
/// Ends several in an order that is the same on all ranks, but ranks of one communicator together. Returns `code`, or
/// the failure of ranks that could not compare themselves: their communicators are aborted, and not made.
Code finish(std::vector<Creation> creations, Code code);

/// A window that is being registered for collectives at one offset on all ranks.
struct Registration {
  std::shared_ptr<Member> member;
  void *memory = nullptr;
  size_t sizeBytes = 0;
  Window *made = nullptr;
};
/// Ends that, after the real library has returned. Peers then access the memory directly, where Kolo can do that for
/// all ranks. Blocks until all ranks have come here.
void finish(std::vector<Registration> registrations, Code code);

} // namespace kolo::nccl
