// Copy: copies out of the cache, to memory that will be read soon or not so soon.
#pragma once

#include <cstddef>

namespace kolo::runtime {

/// Into the cache.
void copyCached(std::byte *dst, const std::byte *src, size_t sizeBytes);
/// Past the cache, where the processor can. All is visible to other threads that this one synchronises with after it.
void copyStreamed(std::byte *dst, const std::byte *src, size_t sizeBytes);

} // namespace kolo::runtime
