// Strangers: what a process may say to a rank's ports before it has proved anything, for a fuzzer.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kolo::test {

/// The first byte chooses what the others are said to: a rank that waits for a peer's connection, one that opens a
/// connection to a peer, or rank 0's rendezvous. Takes about 2 ms. Aborts if the rank does not end its wait in time, or
/// lets in what no rank says.
void meetStranger(std::span<const std::byte> input);

/// What ranks say there.
std::vector<std::vector<std::byte>> seedsOfStrangers();

} // namespace kolo::test
