// Calls with block tables, whose blocks have counts of their own: by what a rank knows how long the chunks of a move
// are. Used by the checker and by targets, which must agree.
#pragma once

#include "ir/Kolo.h"

#include <optional>
#include <string>

namespace kolo {

/// Whether a call of this collective may have block tables: its input or its output has a block for each rank.
constexpr bool mayHaveBlockTables(CollectiveKind kind) {
  return hasBlockPerMember(kind, BufferRole::Input) || hasBlockPerMember(kind, BufferRole::Output);
}

enum class MoveSide : uint8_t { Source, Destination };

/// Where a rank reads how long the chunks of a move are. It looks in the table of its own input or output, at the block
/// to which a chunk of this side belongs. Without a table, it reads the length that is noted beside the chunk of this
/// side, the source: see notesPerLane.
struct Measure {
  MoveSide side;
  std::optional<BufferRole> table;
};

/// How many notes of each chunk every lane has, in memory of the program's own. Whoever writes a part of a chunk there
/// also writes, to the note of that part, how many elements the chunk's block has. So a rank can forward blocks that no
/// table of its own tells of. Nothing: such memory has no notes. Tables say the lengths of all chunks that are read
/// from it, or its moves do not all cut chunks into equally many parts by lanes.
std::optional<int64_t> notesPerLane(BufferOp buffer);

/// A rank has the tables of its own input and output. The ranks of an all-gather have the same table for their outputs,
/// and those of a reduce-scatter for their inputs. So it holds for a peer's, too, and for memory of the program's own
/// that has as many blocks. The checker makes sure that such memory holds blocks of the same numbers. Where neither
/// side has a table, the lengths noted beside the source's chunks count. Nothing: there are none.
std::optional<Measure> measureOf(CollectiveKind kind, MoveInterface move);
/// Likewise for a fuse or a division, of its buffer. A fuse that overwrites its slice has no use for older notes.
std::optional<Measure> measureOf(CollectiveKind kind, FuseOp fuse);
std::optional<Measure> measureOf(CollectiveKind kind, DivideOp divide);

/// Why a program takes no block tables on any mesh: then it has no code for them.
struct TableObstacle {
  mlir::Location loc;
  std::string text;
};
std::optional<TableObstacle> findTableObstacle(ProgramOp program);

/// Whether lists may choose the rows of the blocks of a call with block tables; else the program has no code for that.
/// Each rank knows its own lists, and where its own rows land. So a rank moves its input itself, and nothing reads an
/// output.
bool takesRowLists(ProgramOp program);

/// The attribute that says on which of the proved meshes a program takes block tables: an array with an entry for each
/// of `proved`. It is a unit, or the reason why not, as text.
inline constexpr llvm::StringLiteral blockTablesAttrName = "block_tables";

} // namespace kolo
