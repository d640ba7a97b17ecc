// Counts of mutants, per algorithm and in total, and how the table of them reads. Used by MutationTest.
#pragma once

#include "Mutants.h"

#include "compiler/check/Verdict.h"

#include <array>

namespace kolo::mutation {

/// A mutant counts once for every mesh, and for both levels of optimisation. Those that do the same as the program on a
/// mesh are `unchanged` there and count no further.
struct Counts {
  int64_t unchanged = 0;
  int64_t flagged = 0;         // refused by the checker
  int64_t harmless = 0;        // proved by the checker, and the judge finds no harm either
  int64_t missed = 0;          // proved by the checker, though harmful
  int64_t flaggedHarmless = 0; // of the flagged ones, those that the judge finds no harm in
  int64_t numJudged = 0;       // of the flagged ones, those that the judge looked at
  int64_t mutants() const { return flagged + harmless + missed; }
  Counts &operator+=(const Counts &other);
};

struct Tally {
  Counts all;
  std::array<Counts, numMutantKinds> byKind;
  std::array<int64_t, numProperties> byProperty{}; // of the flagged ones, what is said not to hold
  Tally &operator+=(const Tally &other);
};

/// The line that begins the table of algorithms, and one line of it.
std::string tableHead();
std::string tableRow(llvm::StringRef name, const Counts &counts);
/// By algorithm, then by kind of mutant, then by property.
std::string table(const std::vector<std::pair<std::string, Tally>> &byAlgorithm);

} // namespace kolo::mutation
