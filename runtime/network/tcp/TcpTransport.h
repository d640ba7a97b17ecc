// TcpTransport: the Transport that needs nothing but TCP.
#pragma once

#include "network/ControlTransport.h"
#include "network/tcp/TcpProgress.h"

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime::tcp {

/// With `receiveMail`, every two ranks have one more connection, for mail.
struct TcpOptions : ControlOptions {
  uint16_t connectionsPerPeer = 1; // lane n uses connection n % connectionsPerPeer; the same on all ranks
};

/// How it works: README.md of this folder.
class TcpTransport final : public Transport, public ControlTransport {
public:
  /// Listens. InvalidArgument: an option is out of range. SystemError: see listenAtHost.
  static Result<std::unique_ptr<TcpTransport>> create(const TcpOptions &options);
  /// Says goodbye to all peers. A forked child says nothing.
  ~TcpTransport() override;

  Endpoint endpoint() const override { return write(address); }
  Status connect(std::span<const Endpoint> endpoints) override;
  /// The first `flush` to a peer of a later connection waits until that peer makes progress.
  Status connect(std::span<const Endpoint> endpoints, const std::vector<bool> &now, bool othersFollow) override;
  void know(std::shared_ptr<const EndpointTable> endpoints) override { work.know(std::move(endpoints)); }
  void ask(int peer) override { work.ask(peer); }
  Transport &data() override { return *this; }
  Status registerMemory(const Registration &registration) override;
  void release(uint64_t agreement) override;
  bool canRenew() const override { return true; }
  Status renew(uint64_t agreement, uint64_t next, std::span<const Region> regions) override;
  Status put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) override;
  Status signal(Path path, RemoteSignal signal) override;
  Status flush(uint32_t lane) override;
  PutCounts countPuts(Path path) const override;
  Status progress() override { return work.progress(); }
  Status idle(const Counter &counter, uint64_t target, Clock::time_point until) override {
    return work.idle(counter, target, until);
  }
  Status stateOf(int peer) const override;

  Status mail(int peer, std::span<const std::byte> text) override;
  void setPatience(int peer, bool isPatient) override;
  bool hasSentMails(int peer) const override;
  bool hasLeft(int peer) const override { return connections.hasLeft(peer); }
  bool hasFailedWith(int peer) const override { return !work.failures().of(peer).isOk(); }
  Status refusal() const override { return work.failures().refusal(); }
  Status troubleWith(int peer) const override { return work.troubleWith(peer); }
  bool isWhole(int peer) const override { return connections.isWhole(peer); }
  size_t numConnected() const override { return connections.numAttached(); }
  uint64_t numMails() const override { return mailsSent.load(std::memory_order_relaxed); }

private:
  explicit TcpTransport(const TcpOptions &given);

  const TcpOptions options; // without the key
  OptionalKey key;          // until `connect`
  const int creatorPid;
  Socket listener; // until `connect`
  HostAddress address;
  bool hasStarted = false; // `connect` was Ok; after a failure, only mails may be sent
  std::atomic<uint64_t> mailsSent = 0;
  ConnectionTable connections;
  TcpProgress work;
};

} // namespace kolo::runtime::tcp
