// FabricState: what the parts of a FabricTransport share.
#pragma once

#include "network/Fabric.h"
#include "network/fabric/ExposedMemory.h"
#include "network/fabric/FabricPeer.h"

#include <atomic>
#include <map>
#include <memory>
#include <vector>

namespace kolo::runtime::fabric {

/// A signal of a peer whose cell this rank raises, once what came before is visible.
struct DueSignal {
  int sender = 0;
  uint32_t lane = 0;
  RemoteSignal signal;
};

/// All but the first four and `hasFailed` is used by one thread at a time.
struct FabricState {
  FabricState(const FabricOptions &given, const ProviderRules &providerRules, ControlTransport &mailPath)
      : options(given), rules(providerRules), mails(mailPath) {}

  const FabricOptions options;
  const ProviderRules rules;
  ControlTransport &mails;
  std::atomic<bool> hasFailed = false; // something with some peer: see failureOf
  std::unique_ptr<Nic> nic;            // null: it was closed
  std::map<int, FabricPeer> peers;     // by rank, without those that this rank has nothing to do with
  ExposedMemory exposed;
  std::vector<DueSignal> due, behindRead; // and those that wait for the read that is under way
  Status gpuLack;                         // not Ok: why no memory of GPUs is reached
  Status ownFailure;                      // of this rank's GPU
  bool hasLeft = false;                   // this rank waits for no signal any more: its cells may be gone

  bool isStopped() const { return options.mustStop && options.mustStop(); }
  /// Whether the peer is neither lost nor has left.
  bool isThere(int number) const { return mails.stateOf(number).isOk(); }
  /// Who is lost is noticed by those who wait for it.
  void tell(int number, const ControlMessage &message) const { (void)mails.mail(number, write(message)); }
  void tellFailed(int number, const Status &why) const;
  /// From now on the two ranks cannot use each other, whatever becomes of the peer.
  void refuse(FabricPeer &peer, const Status &why);
  /// Why the peer cannot be written to, although it is there.
  Status failureOf(int number, const FabricPeer &peer) const;
  /// Makes what came before these signals visible, and raises their cells.
  void raiseAll(const std::vector<DueSignal> &signals);
  void failHere(const Status &why);
  /// A failure of the self-test.
  Status ofSelfTest(const Status &status) const;
  /// The cell of this rank that a peer signals; null: there is none, or not any more.
  Cell *ownCell(int sender, uint32_t lane, const RemoteSignal &signal) const;
  void raise(const DueSignal &one) const;
  bool isCounted() const { return rules.order == SignalOrder::Counted; }
  /// Whether messages are sent and received.
  bool canTell() const { return isCounted() || gpuLack.isOk(); }
};

} // namespace kolo::runtime::fabric
