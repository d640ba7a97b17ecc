// The memory of all simulated ranks: the call's inputs and outputs, and the program's scratch.
#pragma once

#include "ir/reference/Layout.h"
#include "ir/reference/Scope.h"

#include <map>

namespace kolo::reference {

/// A slice as an op names it.
struct Slice {
  mlir::Value buffer;
  mlir::ValueRange offsets, sizes;
};

/// A number of a part, and how many parts there are. Both null: the whole chunk.
struct Part {
  mlir::Value part, parts;
};

struct Movement {
  Slice source, destination;
  Part part = {};
};

/// Elements of one chunk of a buffer, on no rank in particular, and which part of which chunk they are. In a call with
/// block tables, every block has the place of a longest one here.
struct ChunkPart {
  mlir::Value buffer;
  Range elements;
  int64_t chunk = 0, part = 0;
  int64_t blockLength = 0; // of the block that the chunk is of
};
struct PartPair {
  ChunkPart source, destination;
};

enum class Access { Read, Write, Combine };

/// In a call with block tables: the elements of the block that a chunk is of which an op moves.
using LengthOfMoved =
    llvm::function_ref<llvm::Expected<int64_t>(const ChunkPart &source, const ChunkPart &destination)>;
using LengthOfPiece = llvm::function_ref<llvm::Expected<int64_t>(const ChunkPart &piece)>;

class Memory {
public:
  /// Of the program that runs.
  Memory(SimulatedCall &simulated, mlir::Operation *program)
      : simulated(simulated), unit(findCoded(program) ? codec::granule : 16 / elementBytes(simulated.type)) {}

  /// Makes the buffer on all ranks, scratch poisoned. When it was made before, as by another rank, its layout must be
  /// the same. Errors: a negative extent, or a layout that does not hold what the collective says an input or output
  /// holds.
  llvm::Error add(BufferOp op, const Scope &scope);

  /// The pieces that an op touches, chunk by chunk, row-major. The buffer has no slots.
  llvm::Expected<std::vector<ChunkPart>> pieces(mlir::Operation *op, const Scope &scope, Slice slice, Part part,
                                                LengthOfPiece lengthOf) const;
  /// The same for the pairs of chunks that an op moves; of a slot, as much as the chunk that it is paired with. Errors:
  /// the slices differ in shape, or two chunks in size, or a slot is not one for such chunks.
  llvm::Expected<std::vector<PartPair>> pairs(mlir::Operation *op, const Scope &scope, const Movement &movement,
                                              LengthOfMoved lengthOf) const;

  /// Of a call with block tables: how long the block is of which this chunk on this rank holds a part. An error where
  /// nobody wrote any, or where another block was written over it.
  llvm::Expected<int64_t> lengthHeld(mlir::Operation *op, const Scope &scope, const ChunkPart &piece, int64_t rank,
                                     int64_t invocation) const;
  /// What a table of this rank says of the block that the chunk belongs to.
  int64_t lengthByTable(BufferRole table, const ChunkPart &piece, int64_t rank) const;

  /// Where a piece lies on a rank, in an invocation; valid until the next `add`. Errors: writing an input, touching
  /// a buffer that does not exist there, or a block of another length. `op` and `scope` are whom to blame.
  llvm::Expected<llvm::MutableArrayRef<std::byte>> at(mlir::Operation *op, const Scope &scope, const ChunkPart &piece,
                                                      int64_t rank, int64_t invocation, Access access);

  /// Moves the elements of a piece, given as `pieces.source`'s buffer stores them, to where `destination` is, or
  /// combines them with what is there. `sender` holds the source.
  void move(const PartPair &pieces, llvm::ArrayRef<std::byte> source, llvm::MutableArrayRef<std::byte> destination,
            bool isCombining, int64_t sender, int64_t invocation) const;

private:
  struct Buffer {
    BufferRole role;
    Layout layout;
    codec::Codec codec;
    std::vector<Bytes> scratch; // or published, or packets; by rank, then by turn
    // Likewise: how long the block is of which somebody wrote a part of a chunk; by chunk and part.
    std::vector<std::map<std::pair<int64_t, int64_t>, int64_t>> lengths = {};
  };
  /// In a call with block tables, reads, writes or compares how long a block is.
  llvm::Error touchLength(mlir::Operation *op, const Scope &scope, const ChunkPart &piece, int64_t rank,
                          int64_t invocation, Access access);
  void setLength(ChunkPart &piece, int64_t length) const;
  const Layout &layoutOf(mlir::Value buffer) const { return buffers.at(buffer.getDefiningOp()).layout; }
  llvm::Expected<std::vector<ChunkPart>> chunks(mlir::Operation *op, const Scope &scope, Slice slice) const;
  llvm::Error matchSizes(mlir::Operation *op, const Scope &scope, ChunkPart &source, ChunkPart &destination) const;
  /// The part's number and how many there are, 0 and 1 where none is named.
  llvm::Expected<std::pair<int64_t, int64_t>> numbersOf(mlir::Operation *op, const Scope &scope, Part part) const;
  Range cutPart(const ChunkPart &piece, std::pair<int64_t, int64_t> part) const;

  int64_t bytesOf(const Buffer &buffer, int64_t numElements) const;

  SimulatedCall &simulated;
  int64_t unit; // see Layout
  std::map<mlir::Operation *, Buffer> buffers;
};

} // namespace kolo::reference
