// BlockLengths: whether a program may be called with block tables. Every move takes the length of a chunk from a block
// that has a table, or from a note beside the chunk: see measureOf. That must be the length of what the move moves.
// Used by ChunkAccesses.
//
// A note is right if all moves are that come before it: whoever writes a part of a chunk writes its note too, and reads
// the two together. So the accesses to notes are ordered as those to the parts are, and a note is of the block that the
// chunk holds.
#pragma once

#include "compiler/check/Contents.h"
#include "ir/BlockTables.h"

namespace kolo {

class BlockLengths {
public:
  /// Follows a program that takes block tables as far as its text says. `whyNot` gets the first reason against them.
  BlockLengths(const Tracer &tracer, const RankGroup &group, const Contents &contents, bool isFollowed,
               std::string &whyNot);

  bool isFollowed() const { return isActive && whyNot.empty(); }
  /// Of one chunk of a move: what the source holds, with ranks and chunks as they are numbered in the mesh.
  struct MovedChunk {
    int64_t sourceOwner, sourceChunk, destinationOwner, destinationChunk;
    Contents::Id content;
  };
  void follow(const Event &event, const MovedChunk &moved);
  /// A division of one chunk of `rank`, which holds this before.
  void followDivision(const Event &event, int64_t rank, int64_t chunk, Contents::Id content);

private:
  /// Blocks with equal keys are equally long in every call: the rank that gave the block, and its number in that rank's
  /// input. -1 where that does not matter.
  using Key = std::pair<int64_t, int64_t>;
  Key keyOf(BufferRole table, uint32_t buffer, int64_t owner, int64_t chunk) const;
  Key keyOf(Contents::Id content) const;
  Key measuredKey(const Event &event, const MovedChunk &moved, const Measure &measure) const;
  Key moveBack(int64_t owner, Key key) const;
  bool areInOneGroup(int64_t rank, int64_t other) const;
  static uint32_t bufferOf(const Event &event, const Measure &measure);
  bool liesLikeTable(uint32_t buffer, std::optional<BufferRole> table) const;
  int64_t chunksPerInputBlock() const;
  bool isOfKey(Contents::Id content, const Key &key) const;
  void follow(const Event &event, uint32_t buffer, int64_t owner, int64_t chunk, const Key &key);
  void refuse(const Event &event, llvm::StringRef why);

  const Tracer &tracer;
  const RankGroup &group;
  const Contents &contents;
  std::string &whyNot;
  const CollectiveKind kind;
  const bool isActive;
  // By op: what says how long the chunks of a move are, or those of a division. A move in a fuse has two such: its own,
  // and the fuse's. The side of the fuse's is that on which the move has the slice.
  std::vector<std::optional<Measure>> measures, fused;
  // Chunks of one block of the program's own lie behind each other by the length of that block. By buffer,
  // representative of the owner, and block, all as that representative sees them.
  llvm::DenseMap<std::pair<std::pair<uint32_t, int64_t>, int64_t>, Key> ownBlocks;
};

} // namespace kolo
