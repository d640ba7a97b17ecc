#include "network/tcp/Greeting.h"

#include <algorithm>

namespace kolo::runtime::tcp {
namespace {

std::string_view labelOf(std::span<const std::byte> answered) { return answered.empty() ? openingLabel : answerLabel; }

} // namespace

GreetingBytes writeGreeting(const OptionalKey &key, const Hello &hello, const Nonce &nonce,
                            std::span<const std::byte> answered) {
  GreetingBytes bytes = {};
  HelloBytes text = write(hello);
  SecretProof proof = prove(key, labelOf(answered), {text, nonce, answered});
  std::ranges::copy(text, bytes.begin());
  std::ranges::copy(nonce, bytes.begin() + helloBytes);
  std::ranges::copy(proof, bytes.begin() + helloBytes + sizeof(Nonce));
  return bytes;
}

bool isGreetingRight(std::span<const std::byte> greeting, const OptionalKey &key, std::span<const std::byte> answered) {
  return !key || isRight(proofAt(greeting, helloBytes + sizeof(Nonce)), key, labelOf(answered),
                         {helloOf(greeting), nonceOf(greeting), answered});
}

std::span<const std::byte, helloBytes> helloOf(std::span<const std::byte> greeting) {
  return greeting.subspan<0, helloBytes>();
}

std::span<const std::byte> nonceOf(std::span<const std::byte> greeting) {
  return greeting.subspan(helloBytes, sizeof(Nonce));
}

SecretProof proveLast(const OptionalKey &key, std::span<const std::byte> hello, std::span<const std::byte> openersNonce,
                      std::span<const std::byte> answerersNonce) {
  return prove(key, confirmLabel, {hello, openersNonce, answerersNonce});
}

bool isLastRight(const SecretProof &proof, const OptionalKey &key, std::span<const std::byte> greeting,
                 std::span<const std::byte> answerersNonce) {
  return isRight(proof, key, confirmLabel, {helloOf(greeting), nonceOf(greeting), answerersNonce});
}

} // namespace kolo::runtime::tcp
