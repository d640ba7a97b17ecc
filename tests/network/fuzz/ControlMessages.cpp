// Parsers of what ranks of a fabric tell each other, for a fuzzer.
#include "fuzz/ControlMessages.h"
#include "fuzz/Require.h"

#include "network/NetworkChoice.h"

#ifdef KOLO_HAS_FABRIC
#include "network/fabric/ControlMessage.h"
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
void parseOneControlMessage(std::span<const std::byte> bytes) {
  Result<fabric::ControlMessage> message = fabric::parseControlMessage(bytes);
  if (!message.isOk())
    return;
  require(message->registered.regions.size() <= fabric::maxRegions &&
          message->address.size() <= fabric::maxAddressBytes && message->lastCounts.size() <= fabric::maxLastCounts);
  std::vector<std::byte> again = fabric::write(*message);
  require(again.size() == bytes.size() && fabric::parseControlMessage(again).isOk());
}

std::vector<std::vector<std::byte>> seedsOfControlMessages() {
  using namespace fabric;
  std::vector<std::vector<std::byte>> all;
  for (auto kind = static_cast<int>(ControlKind::Address); kind <= static_cast<int>(ControlKind::Failed); ++kind) {
    ControlMessage message;
    message.kind = static_cast<ControlKind>(kind);
    message.provider = "cxi";
    message.address.resize(28, std::byte(3));
    message.device.fabric = "cxi";
    message.agreement = 7;
    message.registered = {{{1, 2, 3}, {}}, {4, 5, 6}, 4, 12, true};
    message.question = {true, true, 3, {}, 0, {9, 4, 11}};
    message.lastCounts = {{2, {5, 6, 7}}};
    message.reason = "it did not arrive";
    all.push_back(write(message));
  }
  return all;
}
#else
void parseOneControlMessage(std::span<const std::byte>) {}
std::vector<std::vector<std::byte>> seedsOfControlMessages() { return {}; }
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
