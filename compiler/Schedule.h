// How a program is run, beside what it computes: chosen on the command line or by a request, never by the algorithm.
#pragma once

#include <cstdint>

namespace kolo {

enum class Synchronisation {
  Least,    // what the checker proves that is needed; a program without optimisation has a handshake all the same
  Handshake // every transfer waits for both of its sides: to compare with
};

/// Who moves what overwrites its destination. What is combined is always read by who combines it.
enum class Transfers {
  Auto, // the many: what exists at a root only is pulled, everything else pushed
  Push, // the sender writes
  Pull  // the receiver reads
};

/// How a rank knows that others have come to the collective too, and may be written to.
enum class Entry {
  Auto, // Together where the host runs the ranks, since its runtime has them agree on every call anyway; else Credits
  Together, // every rank first waits for all others
  Credits   // a rank waits for those that it has to do with, where it must
};

/// How data goes from rank to rank.
enum class Protocol {
  Bulk,      // from buffer to buffer; signals say what has arrived
  Published, // every rank publishes its input as it enters, and reads what it needs of the others'
  LL,        // NCCL's LL: packets of 8 bytes, 4 of data and 4 that say which call they belong to
  LL128      // NCCL's LL128: packets of 128 bytes, 120 of them data
};

inline bool usesPackets(Protocol protocol) { return protocol == Protocol::LL || protocol == Protocol::LL128; }

struct Schedule {
  /// Slices of every chunk that follow each other through the phases of the program: 1 to maxPipelineDepth.
  int64_t pipelineDepth = 1;
  Synchronisation synchronisation = Synchronisation::Least;
  Transfers transfers = Transfers::Auto;
  Entry entry = Entry::Auto;
  Protocol protocol = Protocol::Bulk;
};
inline constexpr int64_t maxPipelineDepth = 64;

} // namespace kolo
