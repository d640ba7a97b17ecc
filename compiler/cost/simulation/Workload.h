// What is simulated: the steps of all ranks. Used by Simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace kolo::cost {

/// A part of a transfer: what it reads or writes.
struct Leg {
  enum class Kind : uint8_t { ReadOwn, WriteOwn, ReadPeer, WritePeer };
  Kind kind;
  bool isPackets = false; // bytes of packets, in the memory that is read or written
  uint32_t channel = 0;   // of the peer
  double bytes = 1;       // for each byte of the transfer's payload
  bool operator==(const Leg &) const = default;
};

/// A step of a rank.
struct Instruction {
  enum class Kind : uint8_t { Transfer, Signal, Wait, Flush, Enter };
  Kind kind;
  bool blocks = false;    // of a transfer
  bool reduces = false;   // of a transfer
  float laneLoad = 0;     // of a transfer: how often its bytes go through the lanes
  uint32_t statement = 0; // number in Workload::numStatements; 0: the entry
  uint32_t first = 0;     // of a transfer: leg. Of a signal: channel. Of a wait: slot
  uint32_t number = 0; // of a transfer: legs. Of a signal: slot at the peer. Of a wait: signals to this slot in a call
  int64_t bytes = 0;   // of a transfer: payload, in elements as the call has them
  bool operator==(const Instruction &) const = default;
};

struct RankProgram {
  std::vector<Instruction> code;
  std::vector<Leg> legs;
  uint32_t numChannels = 0;            // peers that this rank signals, or exchanges data with
  std::vector<uint32_t> signalsToSlot; // by slot: in one call
  bool operator==(const RankProgram &) const = default;
};

/// What is simulated. Programs may be shared: ranks then differ in their peers only.
struct Workload {
  std::vector<RankProgram> programs;
  std::vector<uint32_t> programOf; // by rank
  std::function<uint32_t(uint32_t rank, uint32_t channel)> peerOf;
  uint32_t numStatements = 0;
  int64_t numCalls = 1; // that follow each other at once
};

/// Transfers of the program that wait for the entry alone: they may all be under way at a time.
size_t numAtOnce(const RankProgram &program);

/// By statement: its transfers in all calls, of the rank that has most.
std::vector<int64_t> numExecutions(const Workload &workload);

} // namespace kolo::cost
