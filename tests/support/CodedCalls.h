// What compiled programs with codecs are compared on. Used by the tests of several folders.
#pragma once

#include "codec/Codec.h"
#include "ir/reference/Oracle.h"

#include <kolo/dsl/Registry.h>

namespace kolo::test {

/// An all-reduce in two shots with this codec on the wire.
dsl::Definition twoShot(const std::string &name, const codec::Codec &wire);

/// All presets, and others with what no preset has.
std::vector<codec::Codec> allCodecs();

/// Of f32, bf16 or f16.
void storeElement(reference::ElementType type, float value, std::byte *at);

/// Normal numbers, whose size changes from block to block; some blocks have zeros only, denormals, huge numbers,
/// infinities or NaNs.
void fillOrdinary(reference::SimulatedCall &call, uint64_t seed);

} // namespace kolo::test
