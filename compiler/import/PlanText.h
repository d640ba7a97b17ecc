// JSON with the lines of its objects. Private to the reader of plans.
#pragma once

#include "compiler/import/ForeignText.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace kolo::foreign {

/// A value of JSON. What a plan needs: objects, arrays, text, whole numbers and truth values; anything else is Other.
struct PlanNode {
  enum class Kind : uint8_t { Object, Array, Text, Number, Truth, Other };
  Kind kind = Kind::Other;
  int32_t line = 0;
  std::string text;
  int64_t number = 0;             // of Truth: 0 or 1
  std::string name;               // of a member of an object
  std::vector<PlanNode> elements; // of an array, or members

  /// Null if the object has no such member.
  const PlanNode *find(const char *wanted) const;
};

/// Refuses what is no JSON, names that stand twice in one object, more than 32 levels, and more than 4 million values.
std::variant<PlanNode, Refusal> readPlanText(const ForeignText &source);

} // namespace kolo::foreign
