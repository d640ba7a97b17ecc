#include "network/SecretProof.h"

#include <fmt/format.h>

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#if KOLO_HAS_SODIUM
#include <sodium.h>
#else
#include <cstdlib>
#endif

namespace kolo::runtime {

Key::~Key() { explicit_bzero(bytes.data(), bytes.size()); }

#if KOLO_HAS_SODIUM

namespace {

const unsigned char *raw(const std::byte *bytes) { return reinterpret_cast<const unsigned char *>(bytes); }

static_assert(sizeof(SecretProof) == crypto_auth_hmacsha512256_BYTES);

} // namespace

bool Key::isSupported() { return sodium_init() >= 0; }

Key Key::ofSecret(std::string_view secret) {
  Key key;
  const auto *text = reinterpret_cast<const unsigned char *>(secret.data());
  crypto_generichash(reinterpret_cast<unsigned char *>(key.bytes.data()), key.bytes.size(), text, secret.size(),
                     nullptr, 0);
  return key;
}

Key Key::derive(std::string_view purpose, std::span<const std::byte> number) const {
  Key key;
  key.bytes = prove(purpose, {number});
  return key;
}

SecretProof Key::prove(std::string_view label, std::initializer_list<std::span<const std::byte>> fields) const {
  crypto_auth_hmacsha512256_state state;
  crypto_auth_hmacsha512256_init(&state, raw(bytes.data()), bytes.size());
  crypto_auth_hmacsha512256_update(&state, reinterpret_cast<const unsigned char *>(label.data()), label.size());
  const unsigned char endOfLabel = 0;
  crypto_auth_hmacsha512256_update(&state, &endOfLabel, 1);
  for (std::span<const std::byte> field : fields)
    crypto_auth_hmacsha512256_update(&state, raw(field.data()), field.size());
  SecretProof proof;
  crypto_auth_hmacsha512256_final(&state, reinterpret_cast<unsigned char *>(proof.data()));
  sodium_memzero(&state, sizeof(state));
  return proof;
}

namespace {

bool areEqual(const SecretProof &first, const SecretProof &second) {
  return sodium_memcmp(first.data(), second.data(), first.size()) == 0;
}

} // namespace

#else

bool Key::isSupported() { return false; }
Key Key::ofSecret(std::string_view) { std::abort(); }
Key Key::derive(std::string_view, std::span<const std::byte>) const { std::abort(); }
SecretProof Key::prove(std::string_view, std::initializer_list<std::span<const std::byte>>) const { std::abort(); }

namespace {

bool areEqual(const SecretProof &first, const SecretProof &second) {
  return first == second;
} // zeros: there are no keys

} // namespace

#endif

void fillRandomly(std::span<std::byte> bytes) {
  ssize_t got = 0;
  do
    got = getrandom(bytes.data(), bytes.size(), 0); // up to 256 are never cut
  while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(bytes.size()))
    return;
  int code = got < 0 ? errno : EIO; // an old kernel, or a sandbox
  std::ifstream device("/dev/urandom", std::ios::binary);
  if (!device.read(reinterpret_cast<char *>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
    throw std::runtime_error(
        fmt::format("no random numbers: getrandom: {}; and /dev/urandom cannot be read", strerrordesc_np(code)));
}

Nonce makeNonce(const OptionalKey &key) {
  Nonce nonce = {};
  if (key)
    fillRandomly(nonce);
  return nonce;
}

SecretProof prove(const OptionalKey &key, std::string_view label,
                  std::initializer_list<std::span<const std::byte>> fields) {
  return key ? key->prove(label, fields) : SecretProof();
}

bool isRight(const SecretProof &given, const OptionalKey &key, std::string_view label,
             std::initializer_list<std::span<const std::byte>> fields) {
  return areEqual(given, prove(key, label, fields));
}

} // namespace kolo::runtime
