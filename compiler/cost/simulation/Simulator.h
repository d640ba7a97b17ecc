// Runs the programs of ranks event by event: moves share links and memory max-min fairly, signals take a latency, lanes
// wait. Knows nothing of MLIR or of a machine's shape: see Network for that, and Simulation for programs.
//
// - A transfer that does not block lets its lane go on at once. A signal to a peer leaves once all earlier transfers of
//   the lane to that peer have ended, and arrives one latency later.
// - A transfer that blocks holds its lane until it has ended. A flush does so until all the lane's transfers have.
// - `Enter` is a meeting of all ranks, which takes a latency after the last one came.
#pragma once

#include "compiler/cost/simulation/FlowSharing.h"
#include "compiler/cost/simulation/Workload.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kolo::cost {

/// A leg, with its peer's rank.
struct PeerLeg {
  Leg::Kind kind;
  bool isPackets;
  uint32_t peer;
  double bytes;
};

/// A group of moves of ranks, and of resources with them, that change no route, bandwidth or latency.
struct NetworkSymmetry {
  uint32_t numAlike;                                           // moves, and ranks for which each one stands
  std::function<uint32_t(uint32_t move, uint32_t rank)> moved; // move 0: nowhere
  std::vector<uint32_t> rankOf, resourceOf;                    // by rank, and by resource: the one that stands for it
  std::vector<double> shareOf; // by resource: how many ranks put the same on it for each that stands in
};

/// Where things happen, and how long messages take.
class SimulatedNetwork {
public:
  virtual ~SimulatedNetwork() = default;
  /// Bytes per second of all resources; infinity: no limit.
  virtual std::span<const double> bandwidths() const = 0;
  /// What one byte of payload of a rank's transfer takes of the resources: every resource once, in a list that is empty
  /// before. The bytes go through the rank's lanes as the instruction says.
  virtual void addUses(uint32_t rank, const Instruction &transfer, std::span<const PeerLeg> legs,
                       std::vector<ResourceUse> &uses) const = 0;
  /// By resource: bytes that take as long as a message does beside its own. Empty: messages take no time.
  virtual std::span<const double> bytesPerMessage() const { return {}; }
  virtual double latency(uint32_t from, uint32_t to) const = 0;
  virtual double entryLatency() const = 0;
  /// Those that are worth a look.
  virtual std::vector<NetworkSymmetry> symmetries() const { return {}; }
};

/// What a rank did, for timelines.
struct Record {
  enum class Kind : uint8_t { Move, Put, Signal, Wait, Flush, Enter }; // Move: a transfer that blocks; Put: another
  Kind kind;
  uint32_t rank, statement;
  double begin, end;
  int64_t bytes = 0; // as Instruction's
};
/// From the transfer that a signal announces, or from the signal itself if it announces none, to the wait for it.
/// Numbers of records.
struct Arrow {
  uint32_t from, to;
};
struct Timeline {
  std::vector<Record> records; // in the order in which they ended
  std::vector<Arrow> arrows;
};

struct SimulatedStatement {
  double seconds = 0, latencySeconds = 0; // on the chain of events that ends last
  int64_t executions = 0;                 // its transfers, of the rank that has most
  std::vector<double> bytes;              // by resource; empty if it has no transfers
  std::vector<double> messages;           // by resource; empty if it has none, or they take no time
};

struct SimulationResult {
  double seconds = 0; // until the last rank returns from the last call
  std::vector<SimulatedStatement> statements;
  int64_t numTransfers = 0;
  /// Why it did not end: nobody can go on.
  struct Deadlock {
    uint32_t rank, statement; // where it waits
  };
  std::optional<Deadlock> deadlock;
  bool hasTooManyFlows = false; // more than Simulator's most at a time: given up
  bool hasTooManyRecords = false;
};

struct SimulatorLimits {
  size_t mostFlows = size_t(1) << 22; // at a time; a flow takes up to 1,000 bytes
  size_t mostRecords = 1'000'000;
};

/// Deterministic. `timeline`, if any, gets everything that took time. Without one, if a symmetry of the network is one
/// of the workload, the ranks that stand for the others are simulated alone; resources that others stand for have no
/// bytes.
SimulationResult simulate(const Workload &workload, const SimulatedNetwork &network, Timeline *timeline = nullptr,
                          const SimulatorLimits &limits = {});

} // namespace kolo::cost
