// Guests: the connections to rank 0's port. Finds the ranks among them, and drops all others.
#pragma once

#include "bootstrap/RendezvousWire.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kolo::runtime {

/// A connection to rank 0's port.
struct Guest {
  Socket socket;
  Nonce nonce = {}; // of rank 0
  std::vector<std::byte> received;
  bool hasOpened = false;
  int claimedRank = -1;
  Clock::time_point until; // when it is dropped
  bool isAdmitted = false; // it has proved that it belongs to the world, and said Hello
  int rank = -1;           // for the user of Guests
};

/// Both sides prove that they have the same secret before rank 0 reads a Hello. Without a secret the proofs are zeros.
/// A stranger costs a descriptor and less than 400 bytes. It is dropped when it says something that no rank says, after
/// 5 s, or when too many others have not proved anything either.
class Guests {
public:
  static constexpr std::chrono::milliseconds maxSilence{5000};
  static constexpr size_t minWaiting = 64;
  /// So many connections may wait before they have proved anything.
  static size_t maxWaiting(int ranks) { return std::max(minWaiting, 4 * static_cast<size_t>(ranks)); }
  /// So long the listener rests when no descriptor is left, and so often the owner looks for a disagreement.
  static constexpr std::chrono::milliseconds rest{100};

  /// False: it was answered, and its connection ends.
  using Visitor = std::function<bool(Guest &, const Result<Hello> &)>;

  /// `patienceUntil`: a closed world waits so long for ranks in whose name only strangers came.
  Guests(Socket listening, const OptionalKey &worldSecret, int ranks, Clock::time_point patienceUntil)
      : listener(std::move(listening)), secret(worldSecret), numRanks(ranks), patientUntil(patienceUntil) {}

  /// Waits until something arrives, at most until `until`, and calls `visit` for everybody who says Hello. False when
  /// the time is over.
  bool listen(Clock::time_point until, const Visitor &visit);

  /// All that have said Hello.
  std::vector<Guest> &admitted() { return inside; }
  const std::vector<Guest> &admitted() const { return inside; }
  size_t numStrangers() const { return strangers; }
  /// What this process lacks to accept connections, since the last one was not accepted; else null.
  const char *whatIsLacking() const { return lack; }
  /// Mismatch: who came in the name of the missing ranks cannot join, for the same reason on all of them; says why. Ok
  /// if a rank may still come.
  Status disagreement(const std::vector<int> &missing) const;
  /// For a message: what is known of the missing ranks, or "".
  std::string describe(const std::vector<int> &missing) const;

private:
  enum class Fate : uint8_t { Waits, Admitted, Refused, Stranger };
  enum class Trouble : uint8_t { HasNoSecret, HasSecret, OtherSecret, OtherVersion };
  struct Claim {
    Trouble trouble = Trouble::OtherSecret;
    uint32_t version = 0;
  };

  void acceptAll(const Visitor &visit);
  bool dropOldest();
  void makeRoom();
  bool receive(Guest &guest, size_t sizeBytes, bool &hasEnded);
  Fate hear(Guest &guest, const Visitor &visit);
  Fate answer(Guest &guest);
  Fate admit(Guest &guest, const Visitor &visit);
  void note(int rank, Trouble trouble, uint32_t version = rendezvousVersion);

  Socket listener;
  const OptionalKey secret;
  const int numRanks;
  const Clock::time_point patientUntil;
  Clock::time_point acceptAgain = Clock::time_point::min();
  std::vector<Guest> waiting; // in the order in which they came
  std::vector<Guest> inside;
  std::map<int, Claim> claims; // by rank
  size_t strangers = 0;
  const char *lack = nullptr;
};

} // namespace kolo::runtime
