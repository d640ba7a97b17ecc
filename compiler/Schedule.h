// How a program is run, beside what it computes: what its user asks for, and what the compiler makes of it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace kolo {

enum class Synchronisation {
  Least,    // the least that the checker proves; a program without optimisation has handshakes all the same
  Handshake // every transfer waits for both of its sides: to compare with
};

/// Which side of a transfer moves the data, where the transfer overwrites its destination. Where it combines, the
/// receiver always reads.
enum class Transfers {
  Auto, // the receiver reads what only a root has; the sender writes everything else
  Push, // the sender writes
  Pull  // the receiver reads
};

/// How a rank knows that its peers have entered the collective too, and that it may write to them.
enum class Entry {
  Auto,     // Together where only the host runs the program, whose runtime has all ranks agree on a call; else Credits
  Together, // every rank first waits for all others
  Credits   // a rank waits for the peers that it writes to, where it must
};

/// How data goes from rank to rank.
enum class Protocol {
  Bulk,      // from buffer to buffer; signals say what has arrived
  Published, // every rank publishes its input as it enters, and reads what it needs of the others'
  LL,        // NCCL's LL: packets of 8 bytes, 4 of data and 4 that say which call they belong to
  LL128      // NCCL's LL128: packets of 128 bytes, 120 of them data
};

/// In which order the elements of an output are summed.
enum class Summation {
  Any,     // as the algorithm does
  OneOrder // in one that no size, number of lanes, protocol, memory or placement changes; other programs are refused
};

inline constexpr int64_t maxPipelineDepth = 64;

/// What the user asks for. Choices may be left open (`Auto`) and may exclude each other: `resolve` decides, or refuses.
struct Schedule {
  /// Slices of every chunk that follow each other through the phases of the program: 1 to maxPipelineDepth.
  int64_t pipelineDepth = 1;
  Synchronisation synchronisation = Synchronisation::Least;
  Transfers transfers = Transfers::Auto;
  Entry entry = Entry::Auto;
  Protocol protocol = Protocol::Bulk;
  Summation order = Summation::Any;
};

/// Who runs a program.
enum class Runners {
  Any,           // not known: the program may count on nothing that only some of them do
  Host,          // the host's CPU alone
  HostAndDevices // the host's CPU or a device, as the call's memory says
};

/// What a program is compiled for, beside its schedule.
struct Setting {
  Runners runners = Runners::Any;
  bool optimize = true; // false: required passes only
};

/// Why a schedule is refused.
struct ScheduleMistake {
  std::string message; // one line that names the flags at fault, without dashes
};

/// A schedule with every choice made. The compiler's passes and targets read this and derive nothing from it.
class ResolvedSchedule {
public:
  /// The default schedule in the default setting.
  ResolvedSchedule() = default;

  bool isOptimized() const { return optimizes; }
  int64_t pipelineDepth() const { return depth; }
  bool publishesInputs() const { return publishes; }
  bool usesPackets() const { return packets != Packets::None; }
  bool usesLL128() const { return packets == Packets::LL128; }
  /// `Auto` is final: each transfer decides by where its data is.
  Transfers transfers() const { return moves; }
  bool entersTogether() const { return together; }
  bool usesHandshakes() const { return handshakes; }
  bool sumsInOneOrder() const { return oneOrder; }

  bool operator==(const ResolvedSchedule &) const = default;

private:
  friend std::variant<ResolvedSchedule, ScheduleMistake> resolve(const Schedule &, const Setting &);
  enum class Packets : uint8_t { None, LL, LL128 };

  int64_t depth = 1;
  Transfers moves = Transfers::Auto;
  Packets packets = Packets::None;
  bool optimizes = true, publishes = false, together = false, handshakes = false, oneOrder = false;
};

/// Makes every choice that the schedule leaves open, or refuses a schedule whose choices exclude each other.
std::variant<ResolvedSchedule, ScheduleMistake> resolve(const Schedule &schedule, const Setting &setting);

} // namespace kolo
