// TcpTransport: the Transport that needs nothing but TCP.
#pragma once

#include "network/ControlTransport.h"
#include "network/Registrations.h"
#include "network/Socket.h"
#include "network/tcp/Connection.h"
#include "network/tcp/ConnectionSetup.h"
#include "network/tcp/Wire.h"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime::tcp {

/// With `receiveMail`, every two ranks have one more connection, for mail.
struct TcpOptions : ControlOptions {
  uint16_t connectionsPerPeer = 1; // lane n uses connection n % connectionsPerPeer; the same on all ranks
};

/// How it works: README.md of this folder.
class TcpTransport : public Transport, public ControlTransport {
public:
  /// Listens. InvalidArgument: an option is out of range. SystemError: see listenAtHost.
  static Result<std::unique_ptr<TcpTransport>> create(const TcpOptions &options);
  /// Says goodbye to all peers. A forked child says nothing.
  ~TcpTransport() override;

  Endpoint endpoint() const override { return write(address); }
  Status connect(std::span<const Endpoint> endpoints) override;
  /// The first `flush` to a peer of a later connection waits until that peer makes progress.
  Status connect(std::span<const Endpoint> endpoints, const std::vector<bool> &now) override;
  void ask(int peer) override;
  Transport &data() override { return *this; }
  Status registerMemory(const Registration &registration) override;
  void release(uint64_t agreement) override;
  bool canRenew() const override { return true; }
  Status renew(uint64_t agreement, uint64_t next, std::span<const Region> regions) override;
  Status put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) override;
  Status signal(Path path, RemoteSignal signal) override;
  Status flush(uint32_t lane) override;
  Status progress() override;
  Status idle(const Counter &counter, uint64_t target, Clock::time_point until) override;
  Status stateOf(int peer) const override;

  Status mail(int peer, std::span<const std::byte> text) override;
  void setPatience(int peer, bool isPatient) override;
  bool hasSentMails(int peer) const override;
  bool hasLeft(int peer) const override;
  bool hasFailedWith(int peer) const override;
  Status refusal() const override;
  /// See ConnectionSetup::troubleWith.
  Status troubleWith(int peer) const override { return setup ? setup->troubleWith(peer) : Status(); }
  /// Whether there are connections with the peer, or this rank has asked for them.
  bool isConnected(int peer) const { return find({peer, 0}) != nullptr; }
  bool isWhole(int peer) const override;
  size_t numConnected() const override { return numAttached.load(std::memory_order_relaxed); }
  uint64_t numMails() const override { return mailsSent.load(std::memory_order_relaxed); }

private:
  // One per thread that sleeps at the same time, or did.
  struct Sleeper {
    Socket wakeUp; // an eventfd: another thread may have received what this one waits for
    bool isThere = false;
  };

  explicit TcpTransport(const TcpOptions &given);

  Status checkPath(Path path);
  Status flushPath(Path path);
  Status timeout(int peer) const;
  uint16_t numConnections() const {
    return static_cast<uint16_t>(options.connectionsPerPeer + (options.receiveMail ? 1 : 0));
  }
  size_t indexOf(Path path) const {
    return static_cast<size_t>(path.peer) * numConnections() + path.lane % options.connectionsPerPeer;
  }
  Connection *at(size_t index) const { return places ? places[index].load(std::memory_order_acquire) : nullptr; }
  Connection *find(Path path) const { return at(indexOf(path)); }
  Connection &connection(Path path) const { return *find(path); }
  Connection *forMail(int peer) const {
    return at(static_cast<size_t>(peer) * numConnections() + options.connectionsPerPeer);
  }
  Connection *newestOne() const { return newest.load(std::memory_order_acquire); }
  void endReceiving(uint64_t agreement);
  void makePlaces(int peer);
  void attach(Established greeted);
  void greet();
  bool closeMissing(int peer);
  void leave();
  void drain(std::vector<Connection *> open, std::chrono::milliseconds patience);
  bool isStopped() const { return options.mustStop && options.mustStop(); }
  Status work(Connection &connection, bool &hasRaised);
  Status look(const timespec *mostTime, int wakeUp);
  Result<Sleeper *> lieDown();
  void getUp(Sleeper &sleeper);
  void wakeOthers(int ownWakeUp = -1);
  Status fail(const Status &cause);
  Status firstFailure() const;

  const TcpOptions options; // without the key
  OptionalKey key;          // until `connect`
  const int creatorPid;
  Socket listener; // until `connect`
  HostAddress address;
  bool hasStarted = false;                // `connect` was Ok; after a failure, only mails may be sent
  std::unique_ptr<ConnectionSetup> setup; // null: nobody comes later
  // By peer and number; null: nobody has asked for it. They live as long as this object.
  std::unique_ptr<std::atomic<Connection *>[]> places;
  std::atomic<Connection *> newest = nullptr; // the list of all
  std::atomic<size_t> numAttached = 0;
  std::atomic<uint64_t> mailsSent = 0;
  std::atomic<uint32_t> numLooks = 0;
  std::mutex greeting; // held by the thread that works for `setup`
  std::mutex making;   // of the list below
  std::deque<Connection> connections;
  Registrations registrations;

  std::mutex sleeping; // of the two below
  std::deque<Sleeper> sleepers;
  std::atomic<int> numIdle = 0;

  std::atomic<bool> hasFailed = false;
  mutable std::mutex failing;
  Status failure;                  // the first one
  std::map<int, Status> failureOf; // by rank, likewise
};

} // namespace kolo::runtime::tcp
