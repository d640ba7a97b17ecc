// RemoteBoard: how a rank on another host than rank 0 agrees on groups of sends and receives. It tells the GroupHub of
// rank 0 what it does, which does it on the GroupBoard there, and says what became of it.
#pragma once

#include "GroupWire.h"

#include "kolo/runtime/Hub.h"

#include <atomic>
#include <memory>

namespace kolo::nccl {

class RemoteBoard final : public GroupAgreement {
public:
  /// `numPeers`: the communicator's ranks. The hub is connected later, by `setHub`.
  explicit RemoteBoard(int numPeers) : size(numPeers) {}
  /// As runtime::HubHandler.
  bool take(std::span<const std::byte> message);
  void setHub(runtime::Hub connected) { hub = std::make_unique<runtime::Hub>(std::move(connected)); }

  void count(std::span<const PeerUse> peers) override;
  void count(int peer, PeerUse use) override;
  void enter(EnteredGroup group, std::chrono::milliseconds most) override;
  std::optional<GroupVerdict> look() override;
  void leave() override;
  bool hasLeft() const override { return isGone; }

private:
  void tell(const GroupMessage &message);

  const int size;
  uint64_t numEntered = 0;
  std::optional<GroupReply> reply; // of the last entry
  std::atomic<bool> isGone = false;
  std::unique_ptr<runtime::Hub> hub; // ends first: its last messages come here
};

} // namespace kolo::nccl
