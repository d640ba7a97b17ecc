// FabricTransport: the Transport by libfabric. README.md of this folder says how it works.
#pragma once

#include "network/Fabric.h"
#include "network/Registrations.h"
#include "network/fabric/PeerSetup.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace kolo::runtime::fabric {

class FabricTransport final : public Fabric {
public:
  /// Opens a device of the provider. InvalidArgument, SystemError, OutOfMemory.
  static Result<std::unique_ptr<FabricTransport>> create(const FabricOptions &options, ControlTransport &mails);
  /// The same with other rules, for tests.
  static Result<std::unique_ptr<FabricTransport>> create(const FabricOptions &options, const ProviderRules &rules,
                                                         ControlTransport &mails);
  ~FabricTransport() override;

  Endpoint endpoint() const override { return {}; }
  Status connect(std::span<const Endpoint> endpoints) override;
  Status registerMemory(const Registration &registration) override;
  Status tryMemory(const Region &region) override;
  void release(uint64_t agreement) override;
  Status put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) override;
  Status signal(Path path, RemoteSignal signal) override;
  Status flush(uint32_t lane) override;
  PutCounts countPuts(Path path) const override;
  Status progress() override;
  Status idle(const Counter &counter, uint64_t target, std::chrono::steady_clock::time_point until) override;
  Status stateOf(int peer) const override;
  Status take(int from, std::span<const std::byte> mail) override;
  void ask(int peer) override;
  bool hasMet(int peer) const override;
  Status troubleWith(int peer) const override;
  void leave() override;

private:
  FabricTransport(const FabricOptions &given, const ProviderRules &providerRules, ControlTransport &mailPath);

  Status checkPath(Path path) const;
  void push(Path path, const WriteRequest &request);
  bool isDone(Path path, uint64_t &numMoved, bool &wasDropped);
  Status flushPath(Path path);
  Status closedStatus() const;
  Status firstFailure() const;

  // With `mutex` held:
  bool hasStopped() const;
  void closeDevice();
  Status take(int from, FabricPeer &peer, const ControlMessage &message);

  const int creatorPid;
  Registrations registrations;
  std::vector<bool> mayMeet; // by rank; constant once `isConnected`

  mutable std::mutex mutex; // of the four below; never held while a mail arrives
  FabricState state;
  Sender sender;
  FabricLeave departure;
  PeerSetup setup;
  std::atomic<bool> isSomeoneLeaving = false;
  std::atomic<bool> isConnected = false;
  std::atomic<bool> isClosed = false; // the device, after a failure
};

} // namespace kolo::runtime::fabric
