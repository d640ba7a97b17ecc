// How the lengths of blocks are given: by a law, or as a file says. Knows no IR: commands read it, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kolo {

/// How a vector is shared out among blocks.
struct BlockLaw {
  enum class Kind : uint8_t { Zipf, Random, OneHot, Numbers } kind = Kind::Zipf;
  double exponent = 1;         // of Zipf's law
  uint64_t seed = 0;           // of Random; and which blocks are long: the same for all ranks
  std::vector<double> numbers; // of the blocks; of an all-to-all by giver, then by taker
};

/// Reads "zipf:EXPONENT:SEED", "random:SEED" or "onehot:BLOCK"; else the name of a file that holds numbers, which
/// are not negative, between white space. Fails with the reason.
std::variant<BlockLaw, std::string> parseBlockLaw(std::string_view text);

} // namespace kolo
