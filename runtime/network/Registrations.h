// Registrations: what this rank lets its peers write, and the check of everything that arrives.
#pragma once

#include "network/Transport.h"

#include <atomic>
#include <map>
#include <mutex>
#include <span>
#include <tuple>

namespace kolo::runtime {

enum class Verdict : uint8_t {
  Accepted,
  Early,   // of an agreement that this rank has not registered yet: it must wait
  Refused, // nothing may be stored, and the connection must end
};

/// What the check of one put or signal found.
struct Check {
  Verdict verdict = Verdict::Accepted;
  std::byte *destination = nullptr; // of an accepted put
  Status refusal;                   // Mismatch with the sender's rank
};

/// All functions may be called by several threads at once.
class Registrations {
public:
  /// A sender may have so many signals counted before their agreement is registered.
  static constexpr size_t maxKept = 1024;

  explicit Registrations(int ranks) : numRanks(ranks), numKept(static_cast<size_t>(ranks), 0) {}

  /// Counts the signals that were kept for this agreement. InvalidArgument: nothing was registered. Mismatch: a peer
  /// sent a signal that does not fit; the agreement is registered.
  Status add(const Registration &registration);
  void remove(uint64_t agreement);
  /// Ends a registration without cells, and makes one of these regions for the same senders. What was early under the
  /// new number may be right now. Nothing grows with the number of ranks. InvalidArgument: nothing was changed.
  Status renew(uint64_t agreement, uint64_t next, std::span<const Region> regions);
  /// The number of registrations so far: what is early may be right after the next one.
  uint64_t generation() const { return numAdded.load(std::memory_order_acquire); }

  Check checkPut(int sender, const RemotePlace &place, uint64_t sizeBytes) const;
  Check checkSignal(int sender, uint32_t lane, const RemoteSignal &signal) const;
  /// Checks the signal and raises its cell. Keeps it if it is early, and calls it accepted. Early: no more can be kept.
  Check deliver(int sender, uint32_t lane, const RemoteSignal &signal);

private:
  using KeptKey = std::tuple<uint64_t, int, uint32_t, uint32_t>; // agreement, sender, lane, semaphore

  const Registration *find(uint64_t agreement) const;
  Check place(int sender, uint64_t agreement) const;
  Check judgeSignal(int sender, uint32_t lane, const RemoteSignal &signal) const;
  Cell &cell(int sender, uint32_t lane, const RemoteSignal &signal) const;
  Status countKept(uint64_t agreement);

  const int numRanks;
  mutable std::mutex mutex;
  std::map<uint64_t, Registration> byNumber;
  uint64_t newest = 0;
  std::atomic<uint64_t> numAdded = 0;
  std::map<KeptKey, uint64_t> kept; // counts of early signals
  std::vector<size_t> numKept;      // by sender
};

} // namespace kolo::runtime
