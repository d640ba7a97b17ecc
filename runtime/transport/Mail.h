// Mail: what ranks of different hosts say to each other, as bytes of fixed layout: little-endian, with a version.
#pragma once

#include "transport/Control.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

inline constexpr uint16_t mailVersion = 1;

enum class MailKind : uint16_t { Join = 1, Plan = 2, Record = 3, Abort = 4 };

/// One mail. A kind uses the fields that its name says, and `sequence` if it announces something.
struct Mail {
  MailKind kind = MailKind::Abort;
  uint64_t sequence = 0;                // Plan, Record: the number of the exchange
  uint64_t plan = 0;                    // Plan
  std::span<const std::byte> published; // Plan: the input that the rank publishes
  Record record;                        // Record: of its locations, only the sizes
  JoinInfo join;                        // Join: lanes and ordinaryMemory
  Status cause;                         // Abort
};

std::vector<std::byte> write(const Mail &mail);
/// `published` points into the bytes. Mismatch: says what is wrong.
Result<Mail> parseMail(std::span<const std::byte> bytes);

} // namespace kolo::runtime
