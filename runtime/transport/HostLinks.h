// HostLinks: one rank's connections to the ranks of other hosts.
//
// Every host has a control segment of its own, with a block for every rank of the world. What a rank announces, it
// sends to one rank of each other host, its representative there, which stores it in the rank's block. So all that
// reads blocks is the same in a world of one host and of several.
#pragma once

#include "network/NetworkChoice.h"
#include "network/fabric/TcpMails.h"
#include "network/tcp/TcpTransport.h"
#include "transport/Control.h"
#include "transport/Mail.h"

#include <algorithm>
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
  /// Connects to all ranks of other hosts: see Transport::connect. `endpoints`: by rank; of those of this host, only
  /// their choice of a network counts.
  Status connect(const HostMap &map, std::span<const Endpoint> endpoints, const Control &control);

  bool isRemote(int peer) const { return hostOf(peer) != hostOf(self); }
  /// Whether what this peer announces comes to this rank, and not to another one of this host.
  bool isRepresented(int peer) const { return std::ranges::find(represented, peer) != represented.end(); }
  int hostOf(int rank) const { return hosts.hostOf[static_cast<size_t>(rank)]; }
  const std::string &hostName(int rank) const { return hosts.names[static_cast<size_t>(hostOf(rank))]; }
  const HostMap &map() const { return hosts; }
  /// Whether a device writes what other hosts put. It may go on writing to pages that were freed, so it gets only
  /// memory of Kolo's own.
  bool writesByDevice() const { return fabric != nullptr; }
  Transport &data() { return fabric ? *fabric : static_cast<Transport &>(*transport); }

  /// Tell this rank's representatives. What does not fit into the kernel's memory follows in `progress`.
  void tellJoin(const JoinInfo &info);
  void tellPlan(uint64_t sequence, uint64_t plan, std::span<const std::byte> published);
  void tellRecord(uint64_t sequence, const Record &record);
  /// Tells every rank of other hosts.
  void tellAbort(const Status &cause);

  /// Sends and receives what is possible now. Never blocks. Any thread.
  void progress();
  /// Sleeps as Transport::idle does, at most `mostUs` microseconds.
  void sleep(const Counter &counter, uint64_t target, int64_t mostUs);
  /// Whether the peer has left, and all that it sent to this rank has come.
  bool hasLeft(int peer) const;
  /// Whether this rank's own connections to the peer have ended without a goodbye.
  bool hasBroken(int peer) const;
  /// What a peer sent that may not be, or why a device cannot write to a peer that lives, or Ok.
  Status refusal() const;

private:
  HostLinks() = default;
  Status openNetwork(std::span<const Endpoint> endpoints);
  void tell(std::span<const int> ranks, const Mail &mail);
  void noteLost();
  Status take(int sender, std::span<const std::byte> bytes);
  Status takeAnnouncement(int sender, const Mail &mail);

  int self = 0;
  HostMap hosts;
  Control blocks;
  tcp::TcpOptions options;
  NetworkOffer offer;
  std::unique_ptr<tcp::TcpTransport> transport;
  std::unique_ptr<TcpMails> mails;
  std::unique_ptr<Fabric> fabric;     // null: TCP carries everything
  std::vector<int> remote;            // all ranks of other hosts
  std::vector<int> representatives;   // one of each other host
  std::vector<int> represented;       // the ranks that tell this one, whose blocks this rank writes
  std::vector<uint64_t> lastSequence; // by rank: of announcements stored here
};

} // namespace kolo::runtime
