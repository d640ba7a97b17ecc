// What every chunk of every buffer holds on every rank, symbolically. Used by CheckChoreography.
#pragma once

#include "compiler/model/Unfold.h"

#include "llvm/ADT/BitVector.h"

#include <optional>
#include <string>

namespace kolo {

/// "input chunk 3 of ranks 0 1 4"; of many ranks, the first ones and how many more there are.
std::string describeInputs(int64_t chunk, llvm::ArrayRef<int64_t> ranks);

/// Nothing, or a combination of one chunk of the inputs of some ranks.
struct ChunkContent {
  int64_t inputChunk = -1;      // number of the chunk in the input buffer; -1: nothing was written
  llvm::BitVector contributors; // by rank number

  bool isDefined() const { return inputChunk >= 0; }
  bool operator==(const ChunkContent &other) const {
    return inputChunk == other.inputChunk && contributors == other.contributors;
  }
  /// Adds another content. Gives the reason if the two cannot be combined.
  std::optional<std::string> combine(const ChunkContent &other);
  std::string describe() const;
};

class ChunkState {
public:
  /// All buffers before the first statement: inputs hold themselves, everything else nothing. The evaluator must have
  /// executed the arithmetic that the grids depend on.
  ChunkState(ChoreographyOp choreography, const IndexEvaluator &evaluator, int64_t root);

  /// The chunks of a buffer on one rank that the constructor would make; UINT64_MAX: more than can be counted.
  static uint64_t countChunks(BufferOp buffer, const IndexEvaluator &evaluator);

  ChunkContent &at(int64_t rank, mlir::Value buffer, int64_t chunk);
  /// Numbers of the chunks in a box, in row-major order of the box.
  static llvm::SmallVector<int64_t> chunksOf(const GridBox &box);
  /// Whether two chunks that are moved one to the other have equal sizes. A slot has the size of every chunk of the
  /// blocks that it is for.
  bool haveEqualSize(mlir::Value bufferA, int64_t chunkA, mlir::Value bufferB, int64_t chunkB) const;
  /// Whether a content from a chunk or slot of the same cut is as long as this chunk. A slot takes every length.
  bool isAsLongAs(const ChunkContent &content, mlir::Value buffer, int64_t chunk) const;
  /// Whether the collective gives this rank such a buffer.
  bool mayWrite(int64_t rank, mlir::Value buffer) const;
  std::string describe(mlir::Value buffer, int64_t chunk) const;
  /// The number of chunks in a block of each buffer, if one of the two has slots; else empty.
  std::string describeCuts(mlir::Value bufferA, mlir::Value bufferB) const;
  /// What is wrong with the first output chunk that is not as the collective defines it.
  std::optional<std::string> findWrongResult();

private:
  struct Layout {
    BufferRole role;
    std::string name;
    llvm::SmallVector<int64_t, 3> grid;
    int64_t numChunks, chunksPerBlock; // of slots: number of slots, and chunks per block of what they hold
    bool isSlots;
  };
  int64_t numberInGroup(int64_t rank) const;
  llvm::BitVector groupOf(int64_t rank) const;
  /// The ranks of a group whose inputs the output of one of them combines.
  llvm::BitVector combinedBy(int64_t rank, const llvm::BitVector &group) const;
  bool exists(int64_t rank, BufferRole role) const;
  /// What the collective puts into an output chunk of a rank of this group.
  ChunkContent expected(int64_t rank, const llvm::BitVector &group, int64_t chunk) const;
  const Layout &layoutOf(mlir::Value buffer) const { return layouts[bufferNumbers.at(buffer)]; }

  CollectiveAttr collective;
  llvm::SmallVector<int64_t, 4> mesh;
  int64_t root, numRanks;
  llvm::DenseMap<mlir::Value, size_t> bufferNumbers;
  std::vector<Layout> layouts;
  std::vector<std::vector<std::vector<ChunkContent>>> contents; // [rank][buffer][chunk]
};

} // namespace kolo
