// PTX that is wrong: every change of its synchronisation that may matter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::ptx {

struct Mutant {
  std::string kind;
  uint32_t line = 0; // that was changed, from 1 on
  std::string text;
};

/// The kinds are those of the README's table.
std::vector<Mutant> makeMutants(const std::string &text);
/// Data read by ld.global.nc: one mutant for each load.
std::vector<Mutant> makeNonCoherentMutants(const std::string &text);
/// A line without the barrier that it is: threads do not wait there.
std::string withoutBarrier(const std::string &line);

} // namespace kolo::ptx
