// Roll: which ranks of a communicator run this library. For doors of libraries whose ranks have only collectives to
// talk to each other: a rank without the door would take a door's collective for one of the program's.
//
// One process keeps a roll, and all ranks find its address in the identifier with which they begin. Each rank enters
// before it calls the other library, which returns only when all ranks have called it. So afterwards the roll is
// complete, or some rank lacks this library.
#pragma once

#include "kolo/runtime/Export.h"
#include "kolo/runtime/Status.h"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace kolo::runtime {

/// Where a roll is kept, and its number, which no other roll has.
using RollAddress = std::array<std::byte, 48>;

struct RollKeeperState;

/// Keeps rolls, in a thread of its own that sleeps while no rank comes. Movable, not copyable.
class KOLO_RUNTIME_API RollKeeper {
public:
  /// Listens at this numeric address. If it is none of this host: where other hosts are likely to reach this one.
  /// InvalidArgument: KOLO_SECRET or its file. SystemError.
  static Result<RollKeeper> create(const std::string &address);
  RollKeeper(RollKeeper &&) noexcept;
  RollKeeper &operator=(RollKeeper &&) noexcept;
  /// Ends the thread. In a forked child there is none.
  ~RollKeeper();

  /// A new roll, without a rank. It ends when it is complete, or when all of its ranks have left. Any thread may call
  /// this. SystemError: the system gives no random numbers.
  Result<RollAddress> open();

private:
  explicit RollKeeper(std::unique_ptr<RollKeeperState> made);
  std::unique_ptr<RollKeeperState> state;
};

struct RollEntryState;

/// What a roll says.
struct RollAnswer {
  bool isComplete = false;
  /// Of one that is not: the lowest rank that has not come, and the lowest that has. -1: the keeper has ended.
  int missing = -1, present = -1;
};

/// A rank in a roll. Its functions are for any thread. Leaves when it is destroyed.
class KOLO_RUNTIME_API RollEntry {
public:
  /// Enters a rank. Blocks until the keeper has it, for so long at most. InvalidArgument: no address of a roll, or the
  /// rank is out of range. Mismatch: the keeper has another secret. SystemError, Timeout: it is not reached.
  static Result<std::shared_ptr<RollEntry>> enter(const RollAddress &address, int rank, int size, int mostMs);
  RollEntry(const RollEntry &) = delete;
  RollEntry &operator=(const RollEntry &) = delete;
  ~RollEntry();

  /// Asks the keeper once, when all ranks that have this library must have entered. Blocks for so long at most. All
  /// ranks get the same answer. SystemError, Timeout: this rank cannot know the answer, and others may know it.
  Result<RollAnswer> call(int mostMs);

private:
  explicit RollEntry(std::unique_ptr<RollEntryState> made);
  std::unique_ptr<RollEntryState> state;
};

} // namespace kolo::runtime
