// Parsers of what ranks of a fabric tell each other, for a fuzzer.
#include "fuzz/Letters.h"
#include "fuzz/Require.h"

#include "network/NetworkChoice.h"

#ifdef KOLO_HAS_FABRIC
#include "network/fabric/Letter.h"
#endif

#include <algorithm>

namespace kolo::test {

using namespace kolo::runtime;

void parseOffer(std::span<const std::byte> bytes) {
  Endpoint endpoint = {};
  std::ranges::copy(bytes.first(std::min(bytes.size(), endpoint.size())), endpoint.begin());
  Result<NetworkOffer> taken = takeOffer(endpoint);
  if (!taken.isOk())
    return;
  Endpoint again = endpoint; // what is left of it
  addOffer(again, *taken);
  Result<NetworkOffer> offer = takeOffer(again);
  require(offer.isOk() && *offer == *taken && again == endpoint);
  std::vector<NetworkOffer> offers = {*taken, NetworkOffer()};
  (void)chooseNetwork(offers);
}

#ifdef KOLO_HAS_FABRIC
void parseOneLetter(std::span<const std::byte> bytes) {
  Result<fabric::Letter> letter = fabric::parseLetter(bytes);
  if (!letter.isOk())
    return;
  require(letter->registered.regions.size() <= fabric::maxRegions &&
          letter->address.size() <= fabric::maxAddressBytes && letter->lastCounts.size() <= fabric::maxLastCounts);
  std::vector<std::byte> again = fabric::write(*letter);
  require(again.size() == bytes.size() && fabric::parseLetter(again).isOk());
}

std::vector<std::vector<std::byte>> seedsOfLetters() {
  using namespace fabric;
  std::vector<std::vector<std::byte>> all;
  for (auto kind = static_cast<int>(LetterKind::Address); kind <= static_cast<int>(LetterKind::Failed); ++kind) {
    Letter letter;
    letter.kind = static_cast<LetterKind>(kind);
    letter.provider = "cxi";
    letter.address.resize(28, std::byte(3));
    letter.device.fabric = "cxi";
    letter.agreement = 7;
    letter.registered = {{{1, 2, 3}, {}}, {4, 5, 6}, 4, 12, true};
    letter.question = {true, true, 3, {}, 0, {9, 4, 11}};
    letter.lastCounts = {{2, {5, 6, 7}}};
    letter.reason = "it did not arrive";
    all.push_back(write(letter));
  }
  return all;
}
#else
void parseOneLetter(std::span<const std::byte>) {}
std::vector<std::vector<std::byte>> seedsOfLetters() { return {}; }
#endif

std::vector<std::byte> seedOfOffer() {
  Endpoint endpoint = {};
  NetworkOffer offer;
  offer.kind = NetworkOffer::Kind::Provider;
  offer.provider = "cxi";
  addOffer(endpoint, offer);
  return {endpoint.begin(), endpoint.end()};
}

} // namespace kolo::test
