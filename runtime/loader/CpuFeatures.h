// CpuFeatures: whether this host can execute code that was built for a named processor.
#pragma once

#include "kolo/runtime/Status.h"

#include <string_view>

namespace kolo::runtime {

/// `cpu`: x86-64, x86-64-v2, x86-64-v3, x86-64-v4 or generic-aarch64. UnsupportedCpu: an unknown name, another
/// architecture, or a missing feature, which the message names.
Status checkCpu(std::string_view cpu);

} // namespace kolo::runtime
