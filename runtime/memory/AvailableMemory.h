// How much memory may still be touched before the kernel starts killing processes.
#pragma once

#include <cstdint>

namespace kolo::runtime {

/// Bytes available to this process: the kernel's MemAvailable, or less where a control group sets a limit. What cannot
/// be read counts as unlimited. A snapshot: others allocate at the same time.
uint64_t availableMemoryBytes();

} // namespace kolo::runtime
