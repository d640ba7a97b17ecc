// Which host, as far as shared memory is concerned, this process runs on.
#pragma once

#include <cstdint>

namespace kolo::runtime {

/// Equal for two processes exactly when they can see each other by process number: same boot of the same kernel, same
/// process namespace. A host name says neither.
struct HostId {
  char boot[40] = {};
  uint64_t pidNamespace = 0;
  bool operator==(const HostId &) const = default;
};

/// Parts that cannot be read stay empty.
HostId currentHost();

} // namespace kolo::runtime
