// SharedMemory: shared memory of a host, under a name that only who knows a communicator's unique id can compute. A
// rank takes only memory that its own user has made for this user alone.
#pragma once

#include "Types.h"

#include "kolo/runtime/Status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace kolo::nccl {

/// What the ranks of a communicator know, and nobody else: it comes from the random numbers in the unique id.
using Key = std::array<uint64_t, 2>;
Key keyOf(const UniqueId &id);

/// How keys come from others.
enum class Descent : uint64_t { Split = 1, Shrunk = 2, Groups = 3 };
/// Of a communicator that is made from another one, or of other memory of the same communicator.
Key childOf(const Key &parent, Descent how, int64_t number, int64_t color);
/// That no other communicator has. Nothing: the system gives no random numbers.
std::optional<Key> freshKey();

/// Owns a mapping. Movable, not copyable.
class SharedMemory {
public:
  /// Opens the memory, or makes it, of zeros. All ranks of a host ask for one size. SystemError: there is no shared
  /// memory, or another user made it; then the name is gone.
  static runtime::Result<SharedMemory> open(const Key &key, uint64_t host, size_t sizeBytes);
  SharedMemory(SharedMemory &&other) noexcept;
  SharedMemory &operator=(SharedMemory &&) = delete;
  ~SharedMemory();

  void *data() const { return mapped; }
  /// Removes the name: who asks for it later gets other memory.
  void hide();

private:
  SharedMemory(void *memory, size_t numBytes, std::string path)
      : mapped(memory), sizeBytes(numBytes), name(std::move(path)) {}
  void *mapped;
  size_t sizeBytes;
  std::string name;
};

} // namespace kolo::nccl
