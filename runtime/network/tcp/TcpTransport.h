// TcpTransport: the Transport that needs nothing but TCP.
#pragma once

#include "bootstrap/Socket.h"
#include "network/Registrations.h"
#include "network/tcp/Connection.h"
#include "network/tcp/Wire.h"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kolo::runtime::tcp {

struct TcpOptions {
  int rank = 0;
  int numRanks = 1;
  int timeoutMs = 30'000;
  uint16_t connectionsPerPeer = 1;     // lane n uses connection n % connectionsPerPeer; the same on all ranks
  WorldNumber world = {};              // the same on all ranks
  OptionalKey key = {};                // likewise; set: every connection begins with a proof of it
  std::string listenAt;                // a numeric address of this host, by which peers reach it
  MailHandler receiveMail = {};        // not null: every two ranks have one more connection, for mail
  std::function<bool()> mustStop = {}; // not null: a flush that would block asks it; true: it returns Aborted
};

/// How it works: README.md of this folder.
class TcpTransport : public Transport {
public:
  /// Listens. InvalidArgument: an option is out of range. SystemError: see listenAtHost.
  static Result<std::unique_ptr<TcpTransport>> create(const TcpOptions &options);
  /// Says goodbye to all peers. A forked child says nothing.
  ~TcpTransport() override;

  Endpoint endpoint() const override { return write(address); }
  Status connect(std::span<const Endpoint> endpoints) override;
  Status registerMemory(const Registration &registration) override;
  void release(uint64_t agreement) override;
  Status put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) override;
  Status signal(Path path, RemoteSignal signal) override;
  Status flush(uint32_t lane) override;
  Status progress() override;
  Status idle(const Counter &counter, uint64_t target, Clock::time_point until) override;
  Status stateOf(int peer) const override;

  /// Sends a mail to a peer: see TcpOptions::receiveMail. Never blocks; what the kernel does not take at once follows
  /// in `progress`. Mails of one sender arrive in their order; they have no order with puts and signals.
  /// InvalidArgument, or the Status of stateOf(peer).
  Status mail(int peer, std::span<const std::byte> text);
  /// Whether the peer has said goodbye on the connection for mail: all its mails have come.
  bool hasSaidGoodbye(int peer) const;
  /// Whether it has said so on every connection: all that it sent to this rank has come.
  bool hasLeft(int peer) const;
  /// Whether a connection with the peer has failed.
  bool hasFailedWith(int peer) const;
  /// Whether this rank is connected to the peer.
  bool isConnected(int peer) const { return !connections.empty() && connections[indexOf({peer, 0})]; }

private:
  // One per thread that sleeps at the same time, or did.
  struct Sleeper {
    Socket wakeUp; // an eventfd: another thread may have received what this one waits for
    bool isThere = false;
  };

  explicit TcpTransport(const TcpOptions &given);

  Status checkPath(Path path) const;
  Status flushPath(Path path);
  uint16_t numConnections() const {
    return static_cast<uint16_t>(options.connectionsPerPeer + (options.receiveMail ? 1 : 0));
  }
  size_t indexOf(Path path) const {
    return static_cast<size_t>(path.peer) * numConnections() + path.lane % options.connectionsPerPeer;
  }
  Connection &connection(Path path) const { return *connections[indexOf(path)]; }
  void leave();
  Status work(Connection &connection, bool &hasRaised);
  Status look(const timespec *mostTime, int wakeUp);
  Result<Sleeper *> lieDown();
  void getUp(Sleeper &sleeper);
  void wakeOthers(int ownWakeUp = -1);
  Status fail(const Status &cause);
  Status firstFailure() const;

  const TcpOptions options; // without the key
  OptionalKey key;          // until all are connected
  const int creatorPid;
  Socket listener; // open until all are connected
  HostAddress address;
  std::vector<std::unique_ptr<Connection>> connections; // by peer and number; null: no connection is needed
  size_t numOpened = 0;                                 // that are not null
  Registrations registrations;

  std::mutex sleeping; // of the two below
  std::deque<Sleeper> sleepers;
  std::atomic<int> numIdle = 0;

  std::atomic<bool> hasFailed = false;
  mutable std::mutex failing;
  Status failure;                // the first one
  std::vector<Status> failureOf; // by rank, likewise
};

} // namespace kolo::runtime::tcp
