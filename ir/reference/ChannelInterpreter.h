// The state of all ranks and lanes of a channel program between two steps of the scheduler. Private to the interpreter.
#pragma once

#include "ir/BlockTables.h"
#include "ir/reference/Interpreter.h"
#include "ir/reference/Memory.h"
#include "ir/reference/Walker.h"

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <tuple>

namespace kolo::reference {

/// One worker of one rank, in one invocation after the other.
struct Lane {
  int64_t rank, number;
  std::optional<Scope> scope;
  std::optional<Walker> walker;       // empty between two invocations
  mlir::Operation *current = nullptr; // an op that is not complete: it waits, or has chunks left
  std::deque<PartPair> partsLeft;     // of `current`
  int64_t numPendingPuts = 0;         // over all peers
  int64_t numEntered = 0;             // invocations
};

/// Where a rank is in the sequence of invocations.
struct RankState {
  int64_t numStarted = 0, numLanesRunning = 0;
};

/// A put of one chunk, or a signal, on its way from a lane to a peer.
struct Pending {
  mlir::Operation *op;
  PartPair pieces;
  bool isSignal;
  int64_t invocation; // in which it was issued
};

/// A piece of a packets buffer on a rank, in one of its turns: buffer, rank, turn, chunk, part.
using PacketKey = std::tuple<mlir::Operation *, int64_t, int64_t, int64_t, int64_t>;

class ChannelInterpreter {
public:
  ChannelInterpreter(ProgramOp program, SimulatedCall &simulated, uint64_t seed, const ChannelOptions &options);
  /// Runs all invocations to their end, and delivers what is pending then.
  llvm::Error run();

private:
  /// Signals that arrived, and those of them that were waited for. Never reset.
  struct Semaphore {
    int64_t numArrived = 0, numWaited = 0;
  };

  // Scheduling (ChannelInterpreter.cpp).
  llvm::Error stepAny(bool &didStep);
  void redrawSpeeds();
  std::optional<int64_t> pickRunner();
  bool canRun(int64_t runner) const;
  llvm::Error stepRunner(int64_t runner);
  void startInvocation(int64_t rank);
  void endLane(Lane &lane);
  llvm::Error deliverAny();
  llvm::Error reportDeadlock() const;
  llvm::Error reportImbalance() const;

  // The ops (ChannelOps.cpp).
  llvm::Error stepLane(Lane &lane);
  llvm::Error begin(Lane &lane, mlir::Operation *op);
  llvm::Expected<int64_t> lengthOf(const Lane &lane, mlir::Operation *op, std::optional<Measure> measure,
                                   const ChunkPart &source, const ChunkPart &destination) const;
  llvm::Error beginMove(Lane &lane, MoveInterface move);
  llvm::Error beginDivide(Lane &lane, DivideOp divide);
  llvm::Error continueOp(Lane &lane);
  llvm::Error movePart(Lane &lane, mlir::Operation *op, const PartPair &pieces);
  llvm::Expected<int64_t> peerOf(const Lane &lane, mlir::Operation *op, mlir::Value rank) const;
  llvm::Error deliver(Lane &lane, int64_t peer, const Pending &pending);
  bool isBlocked(const Lane &lane) const;
  /// What a lane needs of packets to go on with: nothing if it does not read any now.
  std::optional<PacketKey> awaitedPackets(const Lane &lane) const;
  llvm::Error arrivePackets(const Lane &lane, int64_t peer, const Pending &pending);
  Semaphore &semaphore(int64_t number, int64_t from, int64_t to, int64_t lane);
  const Semaphore &semaphoreOfWait(const Lane &lane, WaitOp wait) const;
  std::vector<Pending> &queue(const Lane &lane, int64_t peer);

  ProgramOp program;
  SimulatedCall &simulated;
  const ChannelOptions &options;
  Memory memory;
  std::mt19937_64 random;
  int64_t numRanks;
  std::vector<std::unique_ptr<Lane>> lanes; // [rank * numLanes + number]
  std::vector<RankState> ranks;
  std::vector<Semaphore> semaphores;        // [((number * numRanks + from) * numRanks + to) * numLanes + lane]
  std::vector<std::vector<Pending>> queues; // [lane index * numRanks + peer], in the order of issue
  std::vector<size_t> busyQueues;           // those that are not empty
  std::map<PacketKey, int64_t> packets;     // the invocation that the packets there are of
  std::vector<double> speeds;               // of every runner: the lanes, then the applications of all ranks
  double deliveryShare = 0;                 // of the steps that deliver something pending
  std::vector<Bytes> finalOutputs;
};

} // namespace kolo::reference
