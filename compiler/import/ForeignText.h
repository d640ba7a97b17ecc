// The text of a file that is imported, and its lines. Used by the readers.
#pragma once

#include "compiler/import/Schedule.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kolo::foreign {

/// RCCL reads 4,096 elements of XML per rank, so no schedule that is run comes near.
inline constexpr size_t mostBytes = size_t(64) << 20;

class ForeignText {
public:
  /// Refuses what cannot be read and what has more than `mostBytes`.
  static std::variant<ForeignText, Refusal> read(const std::string &path);
  explicit ForeignText(std::string text);

  const std::string &text() const { return characters; }
  /// Counted from 1.
  int32_t lineOf(size_t offset) const;

private:
  std::string characters;
  std::vector<size_t> lineEnds;
};

/// A whole number in decimal, or nothing.
std::optional<int64_t> parseInteger(std::string_view text);

/// At most 60 characters of what a message quotes, without control characters.
std::string quote(std::string_view text);

} // namespace kolo::foreign
