// SecretProof: how two processes show each other that they know the same secret. The secret itself is never sent.
#pragma once

#include "kolo/runtime/Status.h"

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

namespace kolo::runtime {

/// A random number that is used once.
using Nonce = std::array<std::byte, 32>;
/// HMAC-SHA-512-256; zeros where there is no key.
using SecretProof = std::array<std::byte, 32>;

/// Its bytes do not stay in memory after it ends.
class Key {
public:
  Key(const Key &) = default;
  Key &operator=(const Key &) = default;
  ~Key();
  /// Whether this build can use keys: it has libsodium.
  static bool isSupported();
  /// Requires isSupported().
  static Key ofSecret(std::string_view secret);
  /// A key of its own for one purpose. Who knows it cannot find this one.
  Key derive(std::string_view purpose, std::span<const std::byte> number) const;
  /// Of fields that have the same sizes in every message with this label.
  SecretProof prove(std::string_view label, std::initializer_list<std::span<const std::byte>> fields) const;

private:
  Key() = default;
  std::array<std::byte, 32> bytes = {};
};

using OptionalKey = std::optional<Key>;

/// Zeros without a key.
Nonce makeNonce(const OptionalKey &key);
SecretProof prove(const OptionalKey &key, std::string_view label,
                  std::initializer_list<std::span<const std::byte>> fields);
/// Compares in a time that does not depend on the bytes.
bool isRight(const SecretProof &given, const OptionalKey &key, std::string_view label,
             std::initializer_list<std::span<const std::byte>> fields);

/// Fills bytes from the kernel's random numbers. At most 256 bytes. Throws std::runtime_error: the system gives none.
void fillRandomly(std::span<std::byte> bytes);

} // namespace kolo::runtime
