// Random channel programs, right and wrong ones. Used by RunTest.cpp.
#pragma once

#include "tests/support/Algorithms.h"

#include <random>

namespace kolo::mutation {

struct RandomProgram {
  std::string text;
  test::Sizes mesh;
};

/// An all-gather of one dimension: moves to and from neighbours and all others, in loops and under conditions, with
/// signals and waits that mostly balance. Some are proved, many race, some deadlock.
RandomProgram randomProgram(std::mt19937 &random);

/// A broadcast of one dimension, in slices of several chunks: the root and the other ranks do different things. As
/// right and wrong as the others.
RandomProgram randomBroadcast(std::mt19937 &random);

} // namespace kolo::mutation
