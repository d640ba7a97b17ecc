// Board: where the ranks of a new communicator on this host learn of each other.
//
// A rank pins a note before it calls the real library, which returns only when all ranks have called it. So after that
// return all notes of this host are there, and nobody waits for a rank on another host.
#pragma once

#include "SharedMemory.h"

#include "kolo/runtime/Status.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace kolo::nccl {

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

  /// Opens or makes the board of the note's host, and pins the note. Errors as for SharedMemory::open.
  static runtime::Result<std::shared_ptr<Board>> pin(const Key &key, const Note &own);
  Board(const Board &) = delete;
  Board &operator=(const Board &) = delete;

  /// All notes; more than mostRanks: a few of them. After the real library has returned.
  std::vector<Note> notes() const;
  /// Removes the name. After the real library has returned.
  void hide() { memory.hide(); }
  /// An all-gather between the ranks, as runtime::AllGather; all of them are on this host. At most 512 bytes.
  runtime::Status gather(int rank, int numRanks, const void *own, size_t sizeBytes, void *all);

private:
  explicit Board(SharedMemory opened) : memory(std::move(opened)) {}
  BoardMemory &content() const { return *static_cast<BoardMemory *>(memory.data()); }

  SharedMemory memory;
  uint32_t round = 0;
};

} // namespace kolo::nccl
