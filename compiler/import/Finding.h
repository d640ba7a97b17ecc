// What is wrong with a schedule. Used by the judge and by those who show it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::foreign {

/// Of those that the checker of programs proves, the ones that a schedule can break, in the order in which a finding
/// hides those of later ones.
enum class Property : uint8_t { Bounds, Deadlock, Race, Result, Balance, Invocations };

/// "V2".
const char *shortName(Property property);
/// "no data race".
const char *title(Property property);

/// What a thread or an application does on the way to a finding.
struct FindingStep {
  int32_t rank = 0, call = 0; // call 0: the first of the back-to-back calls
  int32_t line = 0;           // 0: an application does it
  std::string text;
};

struct Finding {
  Property property = Property::Result;
  std::string message = {};        // one line, without the places
  int32_t line = 0;                // of the first place
  int32_t otherLine = 0;           // of the second one; 0: there is none
  std::string otherMessage = {};   // what is there
  bool isInPlace = false;          // the call
  std::vector<int32_t> ranks = {}; // that take part
  std::string chunk = {};          // "chunk 3 of the output of rank 2"; may be empty
  std::vector<FindingStep> steps = {};
};

} // namespace kolo::foreign
