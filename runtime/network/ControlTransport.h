// ControlTransport: what ranks tell those of other hosts beside their data, and what they know of them. One interface
// for every way to carry it: network/tcp, and InProcess.
#pragma once

#include "network/SecretProof.h"
#include "network/Transport.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

/// A random number by which the connections of one world know each other.
using WorldNumber = std::array<std::byte, 16>;

/// Takes a mail of a peer. Not Ok: the connections with it end. Any thread that makes progress calls it.
using MailHandler = std::function<Status(int sender, std::span<const std::byte> mail)>;
/// The longest mail.
inline constexpr uint64_t maxMailBytes = 16 << 10;

struct ControlOptions {
  int rank = 0;
  int numRanks = 1;
  int timeoutMs = 30'000;
  int connectMs = 0;                   // not 0: instead of it, in `connect`
  WorldNumber world = {};              // the same on all ranks
  OptionalKey key = {};                // likewise; set: every connection begins with a proof of it
  std::string listenAt;                // a numeric address of this host, by which peers reach it
  MailHandler receiveMail = {};        // null: there are no mails
  std::function<bool()> mustStop = {}; // not null: a flush that would block asks it; true: it returns Aborted
  std::function<void()> progress = {}; // not null: `connect` calls it between looks
};

/// Where all ranks are, in memory that ranks may share.
class EndpointTable {
public:
  virtual ~EndpointTable() = default;
  virtual Endpoint endpointOf(int rank) const = 0;
};

/// One rank's end. `mail`, `progress`, `idle` and all that tells a state may be called by several threads at once; all
/// other functions by one thread alone.
class ControlTransport {
public:
  virtual ~ControlTransport() = default;

  virtual Endpoint endpoint() const = 0;
  /// Connects to the ranks of `now` alone, which do the same. With all others that have an endpoint this rank is
  /// connected when one of the two first sends something, or asks for it. Errors as Transport::connect; a later one is
  /// the Status of stateOf(peer).
  /// `othersFollow`: more endpoints follow in `know`. Who comes before that is a stranger, if this rank does not know
  /// it yet.
  virtual Status connect(std::span<const Endpoint> endpoints, const std::vector<bool> &now,
                         bool othersFollow = false) = 0;
  virtual void know(std::shared_ptr<const EndpointTable> endpoints) = 0;
  /// Asks for the connections with a rank: `stateOf` tells when its process has ended. Never blocks.
  virtual void ask(int peer) = 0;
  /// What carries puts and signals to the same peers, if nothing else does.
  virtual Transport &data() = 0;

  /// Sends a mail to a peer: see ControlOptions::receiveMail. Never blocks; what is not sent at once follows in
  /// `progress`. Mails of one sender arrive in their order; they have no order with puts and signals. InvalidArgument,
  /// or the Status of stateOf(peer).
  virtual Status mail(int peer, std::span<const std::byte> text) = 0;
  /// While a peer may be sent more mail than its kernel takes without it: it may stop reading for any time, and if its
  /// host is cut off meanwhile, only a wait's timeout tells.
  virtual void setPatience(int peer, bool isPatient) = 0;
  /// Whether all mails to this peer arrive even if this rank does nothing any more.
  virtual bool hasSentMails(int peer) const = 0;

  /// As the functions of Transport.
  virtual Status progress() = 0;
  virtual Status idle(const Counter &counter, uint64_t target, std::chrono::steady_clock::time_point until) = 0;
  virtual Status stateOf(int peer) const = 0;
  /// Whether the peer has left, and all that it sent to this rank has come.
  virtual bool hasLeft(int peer) const = 0;
  /// Whether a connection with the peer has failed: it ended without having left, or what it sent was refused.
  virtual bool hasFailedWith(int peer) const = 0;
  /// What any peer sent that may not be, or Ok.
  virtual Status refusal() const = 0;
  /// What keeps this rank from connecting to the peer, though it tries on, or Ok.
  virtual Status troubleWith(int peer) const = 0;
  /// Whether all connections with the peer are there, or were.
  virtual bool isWhole(int peer) const = 0;

  /// Connections that there are or were, and mails that were sent so far.
  virtual size_t numConnected() const = 0;
  virtual uint64_t numMails() const = 0;
};

} // namespace kolo::runtime
