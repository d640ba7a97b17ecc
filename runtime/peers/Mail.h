// Mail: what ranks of different hosts say to each other, as bytes of fixed layout: little-endian, with a version.
#pragma once

#include "peers/Control.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

inline constexpr uint16_t mailVersion = 6;

/// Round: what ranks announce in one exchange. Abort: the failure that ends the world. Note: bytes that the layers
/// above know.
enum class MailKind : uint16_t { Round = 1, Abort = 2, Note = 3 };

/// What one rank announces: its record, or the input that it publishes.
struct MailEntry {
  int rank = 0;
  Record record; // of its locations, only the sizes
  std::span<const std::byte> published;
};

/// One mail. A round takes several if they would be too long.
struct Mail {
  MailKind kind = MailKind::Abort;
  uint64_t sequence = 0;               // Round: the number of the exchange
  uint64_t plan = 0;                   // Round: what the hosts that the sender has heard of announce: see HostBlock
  RepeatCounts repeats = {0, 0, 0, 0}; // Round: of their ranks
  int round = 0;
  bool isLast = true; // Round: no other mail of this round follows
  std::vector<MailEntry> entries;
  Status cause;                // Abort
  std::vector<std::byte> note; // Note: 1 to maxNoteBytes
};
inline constexpr size_t maxNoteBytes = 1024;

/// A mail of a round without entries, its head, and the bytes of one entry.
inline constexpr size_t roundHeadBytes = 64;
size_t mailEntryBytes(const MailEntry &entry, uint64_t plan);

std::vector<std::byte> write(const Mail &mail);
/// `published` points into the bytes. Mismatch: says what is wrong.
Result<Mail> parseMail(std::span<const std::byte> bytes);

} // namespace kolo::runtime
