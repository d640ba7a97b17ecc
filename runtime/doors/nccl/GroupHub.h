// GroupHub: rank 0's thread that acts on the GroupBoard of its host for ranks on other hosts, which have no access to
// it: see RemoteBoard. The ranks on its host use the board themselves.
#pragma once

#include "GroupBoard.h"
#include "GroupWire.h"

#include "kolo/runtime/Hub.h"

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace kolo::nccl {

class GroupHub {
public:
  /// `remote`: the ranks on other hosts. `host`: the number of this one.
  GroupHub(const Key &ofCommunicator, uint64_t ownHost, int numRanks, std::span<const int> remote);
  /// Ends the thread, within 10 ms or so.
  ~GroupHub();
  GroupHub(const GroupHub &) = delete;
  GroupHub &operator=(const GroupHub &) = delete;

  /// As runtime::HubHandler.
  bool take(int sender, std::span<const std::byte> message);
  /// Starts the thread. SystemError.
  runtime::Status start(runtime::Hub connected);
  /// From now on, the others' groups are forwarded. Never blocks; for any thread.
  void close() { mustClose = true; }
  /// Blocks until all ranks that wait have been told what became of their groups, for at most 1 s. For any thread, when
  /// that is known: its process may end next.
  void awaitTold() const;

private:
  /// What is known of a rank on another host.
  struct Desk {
    std::unique_ptr<GroupBoard> board; // opened with the rank's first message
    uint64_t pending = 0;              // the entry whose outcome it waits for; 0: none
    bool isClosed = false;             // its groups are forwarded
  };
  void work();
  GroupBoard *boardOf(int rank, Desk &desk) const;
  void look(int rank, Desk &desk);
  void close(Desk &desk) const;

  const Key key;
  const uint64_t host;
  const int size;
  const pid_t pid;
  std::map<int, Desk> desks;       // by rank; of the thread alone
  std::atomic<int> numPending = 0; // desks that wait
  std::atomic<bool> mustClose = false, mustEnd = false;
  std::unique_ptr<runtime::Hub> hub; // ends before the desks: its last messages come here
  std::unique_ptr<std::thread> thread;
};

} // namespace kolo::nccl
