// RendezvousAcceptor: the connections to rank 0's port. Finds the ranks among them, and drops all others.
#pragma once

#include "bootstrap/RendezvousWire.h"
#include "network/Acceptor.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kolo::runtime {

/// A connection that has proved that it belongs to the world, and said Hello.
struct AdmittedConnection {
  Socket socket;
  int rank = -1; // for the user of RendezvousAcceptor
};

/// Both sides prove that they have the same secret before rank 0 reads a Hello. Without a secret the proofs are zeros.
class RendezvousAcceptor : private Handshake {
public:
  static constexpr size_t minPending = 64;
  /// So many connections may wait before they have proved anything.
  static size_t maxPending(int ranks) { return std::max(minPending, 4 * static_cast<size_t>(ranks)); }
  /// So often the owner looks for a disagreement.
  static constexpr std::chrono::milliseconds disagreementInterval{100};

  /// False: it was answered, and its connection ends.
  using Visitor = std::function<bool(AdmittedConnection &, const Result<Hello> &)>;

  /// `patienceUntil`: a closed world waits so long for ranks in whose name only strangers came.
  RendezvousAcceptor(Socket listening, const OptionalKey &worldSecret, int ranks, Clock::time_point patienceUntil);

  /// Waits until something arrives, at most until `until`, and calls `visit` for everybody who says Hello. False when
  /// the time is over.
  bool listen(Clock::time_point until, const Visitor &visit);

  /// All that have said Hello.
  std::vector<AdmittedConnection> &admitted() { return inside; }
  const std::vector<AdmittedConnection> &admitted() const { return inside; }
  size_t numStrangers() const { return acceptor.numStrangers(); }
  /// See Acceptor.
  const char *whatIsLacking() const { return acceptor.whatIsLacking(); }
  /// Whether any rank cannot join, so that `disagreement` may tell.
  bool mayDisagree() const { return !claims.empty(); }
  /// Mismatch: who came in the name of the missing ranks cannot join, for the same reason on all of them; says why. Ok
  /// if a rank may still come.
  Status disagreement(const std::vector<int> &missing) const;
  /// For a message: what is known of the missing ranks, or "".
  std::string describe(const std::vector<int> &missing) const;

private:
  enum class Trouble : uint8_t { HasNoSecret, HasSecret, OtherSecret, OtherVersion };
  struct Claim {
    Trouble trouble = Trouble::OtherSecret;
    uint32_t version = 0;
  };

  Status checkBeginning(std::span<const std::byte> bytes) const override;
  Admission answer(IncomingConnection &connection) override;
  Admission confirm(IncomingConnection &connection) override;
  void noteEnd(const IncomingConnection &connection) override;
  size_t mostPending() const override { return maxPending(numRanks); }
  void note(size_t rank, Trouble trouble, uint32_t version = rendezvousVersion);

  const OptionalKey secret;
  const int numRanks;
  const Clock::time_point patientUntil;
  const Visitor *visitor = nullptr; // during `listen`
  std::vector<AdmittedConnection> inside;
  std::map<int, Claim> claims; // by rank
  Acceptor acceptor;
};

} // namespace kolo::runtime
