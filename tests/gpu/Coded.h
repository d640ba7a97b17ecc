// What programs with codecs must give on devices: what the same plugin gives on the host, which other tests compare
// with the reference interpreter.
#pragma once

#include "Oracle.h"

namespace kolo::test {

/// Inputs by rank, of f16, bf16 or f32: numbers with a sign, whose size changes every 32 elements. A few of those are
/// zeros, infinities or NaNs.
std::vector<Bytes> ordinaryInputs(const DeviceCall &call, uint64_t seed);

/// The outputs by rank of a plugin with one program. Throws.
std::vector<Bytes> hostOutputs(const runtime::Plugin &plugin, const DeviceCall &call, const std::vector<Bytes> &inputs);

} // namespace kolo::test
