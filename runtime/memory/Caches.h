// The processor's caches, as far as they decide how to store.
#pragma once

#include <cstddef>

namespace kolo::runtime {

/// Bytes of the largest cache that processor 0 uses, as the kernel describes it; what is usual where it does not say.
size_t lastLevelCacheBytes();

} // namespace kolo::runtime
