// HostLinks: one rank's connections to the ranks of other hosts.
//
// Every host has a control segment of its own, with a block for every rank of the world. The lowest rank of a host is
// its speaker. The speakers exchange what the ranks of their hosts announce, in rounds, and store it in the blocks. So
// all that reads blocks is the same in a world of one host and of several.
//
// A rank is connected from the start to its neighbours: a speaker to those with whom it has rounds, and each other rank
// to the speaker of the next host. Neighbours notice that a rank ends, and pass on the failure that ends the world. A
// rank connects to others when it first writes to them, or when it has waited for one for long.
#pragma once

#include "network/NetworkChoice.h"
#include "network/tcp/TcpMails.h"
#include "network/tcp/TcpTransport.h"
#include "peers/Control.h"
#include "peers/Mail.h"
#include "peers/Rounds.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

/// Which ranks are on which host.
struct HostMap {
  std::vector<int> hostOf;        // by rank
  std::vector<std::string> names; // by host, for messages

  int numHosts() const { return static_cast<int>(names.size()); }
  std::vector<int> ranksOf(int host) const;
};

class HostLinks {
public:
  ~HostLinks();
  /// Listens. Errors as TcpTransport::create and readNetworkOffer.
  static Result<std::unique_ptr<HostLinks>> create(const tcp::TcpOptions &place);

  Endpoint endpoint() const;
  /// Connects to the neighbours: see TcpTransport::connect. `endpoints`: by rank; of those of this host, only their
  /// choice of a network counts.
  Status connect(const HostMap &map, std::span<const Endpoint> endpoints, const Control &control);

  bool isRemote(int peer) const { return hostOf(peer) != hostOf(self); }
  int hostOf(int rank) const { return hosts.hostOf[static_cast<size_t>(rank)]; }
  const std::string &hostName(int rank) const { return hosts.names[static_cast<size_t>(hostOf(rank))]; }
  const HostMap &map() const { return hosts; }
  /// Whether a device writes what other hosts put. It may go on writing to pages that were freed, so it gets only
  /// memory of Kolo's own.
  bool writesByDevice() const { return fabric != nullptr; }
  Transport &data() { return fabric ? *fabric : static_cast<Transport &>(*transport); }

  /// Whether every rank is alone on its host, and TCP carries everything: then only this rank needs to know where its
  /// buffers are.
  bool areApart() const { return !fabric && hosts.hostOf.size() == hosts.names.size(); }
  /// See TcpTransport::renew. Requires areApart().
  Status renew(uint64_t agreement, uint64_t next, std::span<const Region> regions) {
    return transport->renew(agreement, next, regions);
  }

  /// The ranks of this host; the first one is its speaker.
  const std::vector<int> &ranksHere() const { return members[static_cast<size_t>(hostOf(self))]; }
  /// Of a rank of this host.
  int placeHere(int rank) const {
    return static_cast<int>(std::ranges::lower_bound(ranksHere(), rank) - ranksHere().begin());
  }
  int speaker() const { return speakerOf(hostOf(self)); }
  bool speaks() const { return speaker() == self; }

  // Of the speaker alone, in one exchange:
  int numRounds() const { return rounds.number(); }
  /// The speaker of the host that sends to this one in a round.
  int sourceOf(int round) const { return speakerOf(rounds.source(hostOf(self), round)); }
  /// The number of the last exchange of which its message is here.
  Counter &arrivedOf(int round) { return arrivals[static_cast<size_t>(round)].sequence; }
  /// What the hosts that it has heard of announce: see HostBlock.
  uint64_t planOf(int round, uint64_t sequence) const {
    return arrivals[static_cast<size_t>(round)].plan[sequence % 2];
  }
  const RepeatCounts &repeatsOf(int round, uint64_t sequence) const {
    return arrivals[static_cast<size_t>(round)].repeats[sequence % 2];
  }
  /// Sends what is known after the rounds before. What does not fit into the kernel's memory follows in `progress`.
  void sendRound(int round, uint64_t sequence, uint64_t plan, const RepeatCounts &repeats);
  /// Whether the kernel has all of this round.
  bool hasSent(int round) const;
  /// The speaker of the host to which this one sends in a round.
  int targetOf(int round) const { return speakerOf(rounds.target(hostOf(self), round)); }
  /// A rank that ended or left, so that a message of this exchange cannot come any more; -1: none.
  int lostBefore(uint64_t sequence);

  /// Tells the neighbours why the world ends, and they tell theirs.
  void tellAbort();
  /// Asks for connections with a peer, which show whether its process has ended.
  void ask(int peer) { transport->ask(peer); }
  /// Asks for all that writing to a peer needs.
  void connectTo(int peer);
  bool isConnected(int peer) const { return transport->isWhole(peer) && (!fabric || fabric->hasMet(peer)); }
  /// Messages to other hosts to agree on calls, so far.
  uint64_t numMails() const { return transport->numMails(); }
  /// Connections to ranks of other hosts.
  size_t numConnections() const { return transport->numConnected(); }

  /// Sends and receives what is possible now. Never blocks. Any thread.
  void progress();
  /// Sleeps as Transport::idle does, at most `mostUs` microseconds.
  void sleep(const Counter &counter, uint64_t target, int64_t mostUs);
  /// Whether the peer has left, and all that it sent to this rank has come.
  bool hasLeft(int peer) const;
  /// Whether this rank's own connections to the peer have ended without a goodbye.
  bool hasBroken(int peer) const;
  /// What a peer sent that may not be, or why a device and that of a peer that lives do not work together, or Ok.
  Status refusal() const;
  /// A Timeout of a wait for a peer, with what keeps this rank from connecting to that peer, if anything does.
  Status explain(const Status &timeout) const;

private:
  HostLinks() = default;
  Status openNetwork(std::span<const Endpoint> endpoints);
  int speakerOf(int host) const { return members[static_cast<size_t>(host)].front(); }
  Status meetRanks(std::span<const Endpoint> endpoints);
  Status tellFailure(const Status &found);
  Status take(int sender, std::span<const std::byte> bytes);
  Status takeRound(int sender, const Mail &mail);
  Status takeEntry(int sender, const Mail &mail, const MailEntry &entry);

  /// What has come in one round.
  struct Arrival {
    Counter sequence = {}; // of the last exchange whose message is here
    uint64_t plan[2] = {}; // by turn
    RepeatCounts repeats[2] = {};
  };

  int self = 0;
  HostMap hosts;
  Rounds rounds;
  Control blocks;
  tcp::TcpOptions options;
  NetworkOffer offer;
  std::unique_ptr<tcp::TcpTransport> transport;
  std::unique_ptr<TcpMails> mails;
  std::unique_ptr<Fabric> fabric;        // null: TCP carries everything
  std::vector<std::vector<int>> members; // by host: its ranks
  std::vector<int> neighbours;
  // Of a speaker:
  std::vector<int> wards;             // neighbours that do not speak
  std::deque<Arrival> arrivals;       // by round
  std::vector<uint64_t> sentBytes;    // by round: in the last exchange
  std::vector<uint64_t> lastSequence; // by rank: the last exchange of which there is an entry here
  uint64_t lostIn = 0;                // the exchange in which a ward was seen to be lost, and since when
  Clock::time_point lostSince;
  std::atomic<bool> hasToldAbort = false;
};

} // namespace kolo::runtime
