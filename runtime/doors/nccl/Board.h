// Board: where the ranks of a new communicator on this host learn of each other. It is shared memory under a name that
// only who knows the communicator's unique id can compute. A rank takes only memory that its own user has made for this
// user alone.
//
// A rank pins a note before it calls the real library, which returns only when all ranks have called it. So after that
// return all notes of this host are there, and nobody waits for a rank on another host.
#pragma once

#include "Types.h"

#include "kolo/runtime/Status.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kolo::nccl {

/// What the ranks of a communicator know, and nobody else: it comes from the random numbers in the unique id.
using Key = std::array<uint64_t, 2>;
Key keyOf(const UniqueId &id);
/// Of a communicator that is made from another one.
Key childOf(const Key &parent, uint64_t how, int64_t number, int64_t color);
/// That no other communicator has. Nothing: the system gives no random numbers.
std::optional<Key> freshKey();

/// Why a rank will not be carried. Unknown: it has no board, or another version of this library.
enum class Refusal : int32_t { None, NonBlocking, Unknown };

/// What a rank says of itself.
struct Note {
  uint64_t host = 0; // runtime::hostNumber; 0: it is not known
  int32_t pid = 0, thread = 0;
  Refusal refuses = Refusal::None;
  uint64_t plugins = 0; // Door::identity
};

struct BoardMemory;

class Board {
public:
  static constexpr int mostRanks = 256;

  /// Opens or makes the board of the note's host, and pins the note. SystemError: there is no shared memory, or another
  /// user made it.
  static runtime::Result<std::shared_ptr<Board>> pin(const Key &key, const Note &own);
  Board(const Board &) = delete;
  Board &operator=(const Board &) = delete;
  ~Board();

  /// All notes; more than mostRanks: a few of them. After the real library has returned.
  std::vector<Note> notes() const;
  /// Removes the name. After the real library has returned.
  void hide();
  /// An all-gather between the ranks, as runtime::AllGather; all of them are on this host. At most 512 bytes.
  runtime::Status gather(int rank, int numRanks, const void *own, size_t sizeBytes, void *all);

private:
  Board(BoardMemory *mapped, std::string path) : memory(mapped), name(std::move(path)) {}
  BoardMemory *memory;
  std::string name;
  uint32_t round = 0;
};

} // namespace kolo::nccl
