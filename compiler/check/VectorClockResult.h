// VectorClockResult: what a run by vector clocks found about a channel program.
#pragma once

#include "compiler/check/Verdict.h"

#include <optional>
#include <string>
#include <vector>

namespace kolo {

/// A step of one rank. A call has one step of the application, then those of its trace, then another one of the
/// application. The first writes the input and spoils the output; the last reads the output.
struct Moment {
  int32_t rank;
  uint32_t time;
};

/// Two accesses to one chunk, one of them a write, that no rule orders.
struct Conflict {
  Moment earlier, later; // in the order in which this run met them
  bool isEarlierWrite, isLaterWrite;
  bool isOrderedByPuts; // they would be ordered if signals followed puts, and flushes waited for them, on the transport
  int64_t owner;        // whose chunk it is
  uint32_t buffer;
  int64_t chunk;
};

/// A wait for a signal that is never sent, or for packets.
struct Blocked {
  Moment moment;
  std::optional<int64_t> numSignals; // that the peer sends; nothing: of packets
};

struct WrongOutput {
  int64_t rank, call, chunk;
  std::string held, wanted;
  mlir::Operation *op; // that wrote it; null if no op wrote the wanted content
};

/// An output chunk that two ranks of a group hold with other bits.
struct OtherBits {
  int64_t rank, other, chunk; // `rank` has lost less, or as much
  Moment write, otherWrite;   // the last ones of the two ranks
  mlir::Operation *encoding;  // whose result `other` has, and `rank` has not; null: they combined in another order
  bool isEncodedOnMost;       // more ranks have what `other` has
};

/// An output chunk that is summed in another order than the first one of its block.
struct OtherOrder {
  int64_t rank, chunk;
  Moment write; // the last one
};

/// Where a run ended that took more than the options allow.
struct EndedEarly {
  Moment moment;              // the first step that it did not take
  int64_t numSteps, numInAll; // that it took, and that there are, of all representatives
  double share;               // of what is allowed, that all steps would take if they went on as these did
};

/// What a run found. The first problem in this order counts.
struct VectorClockResult {
  std::optional<EndedEarly> ended;
  std::vector<Blocked> blocked;
  std::vector<Conflict> conflicts; // one per pair of ops
  std::optional<WrongOutput> wrongOutput;
  std::optional<bool> ranksAgreeBitwise; // nothing: not decided
  bool needsFullTerms = false;           // to decide that: the origins of outputs differ
  double share = 0;                      // of the limits of time and memory, that the run took
  std::optional<OtherBits> otherBits;    // if ranks do not agree
  SumOrder order;                        // as of Verdict
  std::optional<OtherOrder> otherOrder;  // if two chunks differ
  std::vector<OutputLoss> losses;        // as of Verdict
  std::string whyNoBlockTables;          // the first reason; empty: there is none
  int64_t numEncodings = 0;              // as of Verdict
};

} // namespace kolo
