// Parsers: all that reads bytes from a network, for a fuzzer.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kolo::test {

inline constexpr unsigned numParsers = 9;

/// The first byte chooses the parser, the others are for it. Aborts if a parser takes what no writer makes, or stores
/// bytes where it must not.
void parseAny(std::span<const std::byte> input);

/// What the writers make, for all parsers.
std::vector<std::vector<std::byte>> seeds();

} // namespace kolo::test
