// Random choreographies that are right: used by the tests of proofs.
#pragma once

#include "tests/support/Algorithms.h"

namespace kolo::proof {

using test::Sizes;

struct RandomChoreography {
  dsl::Definition definition;
  Sizes mesh;       // of 2 to 16 ranks
  std::string what; // in words, for messages
};

/// The same for the same seed: random routes, trees, rings, pairings and orders, in loops and under conditions, some by
/// tables, with data that lands at its place or in a few slots that are used again.
RandomChoreography randomChoreography(uint64_t seed);

} // namespace kolo::proof
