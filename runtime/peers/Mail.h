// Mail: what ranks of different hosts say to each other, as bytes of fixed layout: little-endian, with a version.
#pragma once

#include "peers/RecordSummary.h"

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

inline constexpr uint16_t mailVersion = 9;

/// Round: what ranks announce in one exchange. Abort: the failure that ends the world. Note: bytes that the layers
/// above know.
/// Roster: where ranks are, before the first exchange.
enum class MailKind : uint16_t { Round = 1, Abort = 2, Note = 3, Roster = 4 };

/// What one rank publishes.
struct MailEntry {
  int rank = 0;
  std::span<const std::byte> published;
};

/// Where a rank is. Without one, the name of a host: text that ends with a zero.
struct RosterLine {
  int host = 0;
  int rank = -1;
  Endpoint endpoint = {}; // or the name
};
inline constexpr size_t rosterLineBytes = 4 + 4 + sizeof(Endpoint), rosterHeadBytes = 20;

/// One mail. A round takes several if they would be too long. The first one has the summary.
struct Mail {
  MailKind kind = MailKind::Abort;
  uint64_t sequence = 0;               // Round: the number of the exchange
  uint64_t plan = 0;                   // Round: what the hosts that it is about announce: see HostBlock
  RepeatCounts repeats = {0, 0, 0, 0}; // Round: of their ranks
  int round = 0;                       // Round, Roster
  bool isLast = true;                  // Round, Roster: no other mail of this round follows
  uint32_t slotBytes = 0;              // Round: of each entry: see PublishedSize
  std::vector<MailEntry> entries;
  RecordSummary summary;         // Round, if `plan` is 0: of their records. Keeps records of this mail or of others
  std::deque<Record> records;    // what a parsed mail keeps. Of their locations, nothing
  std::vector<RosterLine> lines; // Roster: at least one
  Status cause;                  // Abort
  std::vector<std::byte> note;   // Note: 1 to maxNoteBytes
};
inline constexpr size_t maxNoteBytes = 1024;

/// A mail of a round without summary and entries, and what they add. A summary and one entry fit into one mail.
inline constexpr size_t roundHeadBytes = 64;
size_t mailSummaryBytes(const RecordSummary &summary);
size_t mailEntryBytes(const MailEntry &entry);

std::vector<std::byte> write(const Mail &mail);
/// `published` points into the bytes. The mail may be moved, and not copied. Mismatch: says what is wrong.
Result<Mail> parseMail(std::span<const std::byte> bytes);

} // namespace kolo::runtime
