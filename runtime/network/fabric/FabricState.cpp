#include "network/fabric/FabricState.h"

#include "base/Error.h"

namespace kolo::runtime::fabric {
namespace {

/// So long after a failed write the end of the peer may still be noticed by mail, which is the truer cause.
constexpr std::chrono::milliseconds graceTime{300};

} // namespace

void FabricState::tellFailed(int number, const Status &why) const {
  ControlMessage message;
  message.kind = ControlKind::Failed;
  message.reason = why.message();
  tell(number, message);
}

void FabricState::refuse(FabricPeer &peer, const Status &why) {
  if (peer.refusal.isOk())
    peer.refusal = why;
  hasFailed.store(true, std::memory_order_release);
}

Status FabricState::failureOf(int number, const FabricPeer &peer) const {
  if (!peer.refusal.isOk())
    return peer.refusal;
  bool isOld = !peer.failure.isOk() && Clock::now() - peer.failedAt >= graceTime;
  return isOld && isThere(number) ? peer.failure : Status();
}

void FabricState::failHere(const Status &why) {
  ownFailure = why;
  hasFailed.store(true, std::memory_order_release);
}

/// One call serves all signals of an agreement.
void FabricState::raiseAll(const std::vector<DueSignal> &signals) {
  std::map<uint64_t, bool> isVisible; // by agreement
  for (const DueSignal &one : signals) {
    const std::function<Status()> *makeVisible = exposed.visibilityOf(one.signal.agreement);
    auto [found, isNew] = isVisible.try_emplace(one.signal.agreement, true);
    if (isNew && makeVisible)
      if (Status status = (*makeVisible)(); !status.isOk()) {
        found->second = false;
        failHere(status);
      }
    if (found->second)
      raise(one);
  }
}

/// The agreement may have ended meanwhile.
void FabricState::raise(const DueSignal &one) const {
  Cell *cell = ownCell(one.sender, one.lane, one.signal);
  if (cell && !cell->hasReached(one.signal.count) && one.signal.count < endOfCounts)
    cell->raise(one.signal.count);
}

Status FabricState::ofSelfTest(const Status &status) const {
  return rankError(status.code(), status.rank(), "self-test of provider {}: {}; KOLO_NETWORK=tcp needs none",
                   rules.name, status.message());
}

Cell *FabricState::ownCell(int sender, uint32_t lane, const RemoteSignal &signal) const {
  if (hasLeft)
    return nullptr;
  if (lane != testLane)
    return exposed.cell(sender, lane, signal);
  const FabricPeer &peer = peers.at(sender);
  return peer.meeting ? &peer.meeting->test.memory().cell : nullptr;
}

} // namespace kolo::runtime::fabric
