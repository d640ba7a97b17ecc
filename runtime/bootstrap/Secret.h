// Secret: the key of a world whose ranks must prove that they belong to it.
#pragma once

#include "network/SecretProof.h"

namespace kolo::runtime {

/// The fewest bytes of a secret.
inline constexpr size_t minSecretBytes = 16;
inline constexpr size_t maxSecretBytes = 4096;

/// The key of KOLO_SECRET, or of the file that KOLO_SECRET_FILE names; none if neither is set. Line ends at the end of
/// the file do not count. InvalidArgument: both are set, the secret is too short or too long, others can read the file,
/// or this build has no libsodium. SystemError: the file cannot be read. No message holds a part of a secret.
Result<OptionalKey> readSecret();

} // namespace kolo::runtime
