// Parsers of what ranks of a fabric tell each other, for a fuzzer.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kolo::test {

/// Abort if a parser takes what no writer makes.
void parseOffer(std::span<const std::byte> bytes);
/// Does nothing in a build without libfabric's headers.
void parseOneControlMessage(std::span<const std::byte> bytes);

std::vector<std::byte> seedOfOffer();
std::vector<std::vector<std::byte>> seedsOfControlMessages();

} // namespace kolo::test
