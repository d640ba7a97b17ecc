// Greeting: the handshake of data connections as bytes. Each end sends a greeting: a Hello, a nonce and a proof. Then
// the opener sends a proof of both nonces.
#pragma once

#include "network/Handshake.h"
#include "network/tcp/Wire.h"

#include <string_view>

namespace kolo::runtime::tcp {

/// `answered`: the nonce of the opener's greeting, which this one answers; empty: this one opens.
GreetingBytes writeGreeting(const OptionalKey &key, const Hello &hello, const Nonce &nonce,
                            std::span<const std::byte> answered = {});
/// Whether its sender knows the key. True without a key.
bool isGreetingRight(std::span<const std::byte> greeting, const OptionalKey &key,
                     std::span<const std::byte> answered = {});
std::span<const std::byte, helloBytes> helloOf(std::span<const std::byte> greeting);
std::span<const std::byte> nonceOf(std::span<const std::byte> greeting);
/// The opener's last proof, of its Hello and both nonces.
SecretProof proveLast(const OptionalKey &key, std::span<const std::byte> hello, std::span<const std::byte> openersNonce,
                      std::span<const std::byte> answerersNonce);
bool isLastRight(const SecretProof &proof, const OptionalKey &key, std::span<const std::byte> greeting,
                 std::span<const std::byte> answerersNonce);

} // namespace kolo::runtime::tcp
