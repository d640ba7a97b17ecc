// What a fuzzer's harness demands.
#pragma once

#include <cstdlib>

namespace kolo::test {

/// Ends the process where something is wrong, so that a fuzzer keeps the input.
inline void require(bool isRight) {
  if (!isRight)
    std::abort();
}

} // namespace kolo::test
