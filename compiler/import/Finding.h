// What is wrong with a schedule. Used by the judge and by those who show it.
#pragma once

#include <cstdint>
#include <string>

namespace kolo::foreign {

/// Of those that the checker of programs proves, the ones that a schedule can break, in the order in which a finding
/// hides those of later ones.
enum class Property : uint8_t { Bounds, Deadlock, Race, Result, Balance, Invocations };

/// "V2".
const char *shortName(Property property);
/// "no data race".
const char *title(Property property);

struct Finding {
  Property property = Property::Result;
  std::string message;      // one line, without the places
  int32_t line = 0;         // of the first place
  int32_t otherLine = 0;    // of the second one; 0: there is none
  std::string otherMessage; // what is there
  bool isInPlace = false;   // the call
};

} // namespace kolo::foreign
