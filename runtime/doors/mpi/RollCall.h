// RollCall: which ranks have the door. Ranks of one job may differ in it: a launcher may not forward LD_PRELOAD to
// other hosts, and a job may consist of several programs. A call that some ranks carry and others do not would hang, or
// match another call. So the door does nothing on a communicator before it knows that all of its ranks have the door.
#pragma once

#include "Handles.h"

#include "kolo/runtime/Status.h"

#include <memory>
#include <string>
#include <vector>

namespace kolo::mpi {

class LauncherStore;

/// Ranks are those of MPI_COMM_WORLD. All ranks that have the door learn the same.
class RollCall {
public:
  RollCall();
  ~RollCall();

  /// Tells the other ranks that this one has the door; before MPI_Init. `terms` is what all ranks that carry together
  /// must have alike, as for LauncherStore::put. Never blocks.
  void announce(const std::string &terms);

  /// Asks for all ranks, with one question to the launcher for each; after MPI_Init. SystemError: the launcher does not
  /// answer. Others may carry already, and this rank cannot know, so the job cannot go on.
  runtime::Status hear(int rank, int size);

  /// Whether `hear` has returned.
  bool isMade() const { return isHeard; }

  /// Whether any other rank can carry with this one.
  bool hasPeers() const;

  /// Why ranks of this communicator cannot carry together; null: they can. The same on all of its ranks that have the
  /// door. Never blocks.
  const char *whyNot(MPI_Comm communicator) const;

  /// Whether `rank` is the first one that has the door, and prints what concerns all ranks.
  bool isFirst(int rank) const;

  /// One line for the user if not all ranks can carry together. Empty: all can, or the first one says it.
  std::string notice() const;

private:
  std::string describeMissing() const;

  std::unique_ptr<LauncherStore> store;
  std::string ownTerms, noStore;
  int ownRank = 0;
  bool isHeard = false;
  std::vector<std::string> terms; // by rank; empty: it has no door
};

} // namespace kolo::mpi
