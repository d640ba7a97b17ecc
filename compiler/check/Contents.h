// What chunks hold, symbolically: an input chunk, and the ranks whose contributions it combines. Used by the checker of
// channel programs.
#pragma once

#include "compiler/check/GroupMoves.h"
#include "compiler/check/RankSet.h"
#include "compiler/check/Terms.h"

namespace kolo {

/// What the collective asks of an output chunk: one input chunk of one rank, or of several ranks, combined.
struct WantedContent {
  int64_t inputChunk;
  int64_t rank; // below 0: those of `combinedRanks`
  bool isDivided;
  static constexpr int64_t wholeGroup = -1, firstOfGroup = -2;
};
WantedContent wantedContent(const Tracer &tracer, int64_t rank, int64_t outputChunk);
/// Those whose inputs the output of a rank combines: its group, or in a scan or exscan the first ranks of it.
RankSet combinedRanks(const Tracer &tracer, const RankRows &rows, int64_t rank);

/// Interns values that have few distinct contents, so that equal ones have equal numbers.
template <typename Key> class Numbering {
public:
  /// The number of a key, and whether it is new.
  std::pair<uint32_t, bool> add(const Key &key) {
    auto [entry, isNew] = numbers.try_emplace(key, uint32_t(numbers.size()));
    return {entry->second, isNew};
  }

private:
  llvm::DenseMap<Key, uint32_t> numbers;
};

/// Of calls, numbered from 0: "first", "second", "third".
std::string ordinal(int64_t call);

/// Numbers contents: equal contents have equal numbers. Contents also differ by what the terms tell apart.
class Contents {
public:
  /// Sets of ranks may take `maxBytes`. Beyond, `isFull` says so, and the contents mean nothing any more.
  Contents(const RankGroup &group, GroupMoves &moves, uint32_t inputBuffer, const BufferCodecs &codecs,
           Terms::Detail detail, int64_t maxBytes);
  bool isFull() const { return bytes() > maxBytes; }
  int64_t bytes() const { return numBytes + terms.numBytes(); }

  using Id = uint64_t; // the number of a node, and above it that of the input chunk
  static constexpr Id undefined = 0;

  Id input(int64_t call, int64_t rank, int64_t chunk);
  /// What the same ranks contributed in the same way, of another input chunk.
  static Id ofChunk(Id content, int64_t chunk) { return Id(chunk) << 32 | uint32_t(content); }
  /// A mistake when the two come from different input chunks or share a contribution. `op` combines them, at a step
  /// that Terms::combine asks for.
  Id combine(Id a, Id b, mlir::Operation *op, const Terms::Origin &origin, uint32_t time);
  Id divide(Id a, mlir::Operation *op);
  /// The content, stored by the codec with this number.
  Id store(Id a, uint32_t codec, const Terms::Origin &origin, mlir::Operation *op);
  /// The content of a slot, moved to the chunk with this number in its block. A mistake if it came from a chunk of
  /// another number, which may be longer.
  Id leaveSlot(Id a, int64_t numberInBlock, int64_t chunksPerBlock, mlir::Operation *op);
  /// The same content after an element of the group, or its inverse, has moved all ranks.
  Id move(int64_t element, Id content) {
    return isFull() || group.isRepresentative(element) ? content : translate(element, content, false);
  }
  Id moveBack(int64_t element, Id content) {
    return isFull() || group.isRepresentative(element) ? content : translate(element, content, true);
  }

  /// Whether these are the wanted contributions of this call, in whatever order.
  bool isWanted(Id content, const WantedContent &wanted, int64_t call, const RankSet &combined) const;
  std::string describe(Id content) const;
  std::string describe(const WantedContent &wanted, int64_t call, const RankSet &combined) const;
  /// Whether it is an input chunk, or some combined; which chunk of the input that is; and whether of this rank alone.
  bool isGiven(Id content) const { return nodes[uint32_t(content)].call >= 0; }
  static int64_t inputChunkOf(Id content) { return int64_t(content >> 32); }
  bool isOfRank(Id content, int64_t rank) const {
    return rankSets[nodes[uint32_t(content)].ranks].isSingle(moves.rows, rank);
  }
  /// The rank whose input alone it is of.
  std::optional<int64_t> rankOf(Id content) const {
    const RankSet &ranks = rankSets[nodes[uint32_t(content)].ranks];
    return ranks.count() == 1 ? std::optional(ranks.members(moves.rows).front()) : std::nullopt;
  }
  /// The op that made the content a mistake; null when it is none.
  mlir::Operation *mistakeOf(Id content) const;
  const Loss &lossOf(Id content) const { return terms.lossOf(nodes[uint32_t(content)].term); }
  Terms::Id termOf(Id content) const { return nodes[uint32_t(content)].term; }
  Terms &allTerms() { return terms; }
  /// See Terms.
  mlir::Operation *lastEncoding(Id content) const { return terms.lastEncoding(nodes[uint32_t(content)].term); }

private:
  static constexpr int8_t noCall = -1, mistakeCall = -2;
  struct Node {
    int8_t call; // noCall: undefined; mistakeCall: a mistake, `chunk` being its number
    bool isDivided = false;
    uint32_t chunk = 0, ranks = 0, term = 0;
  };
  struct Mistake {
    std::string text;
    mlir::Operation *op;
  };
  Id intern(const Node &node);
  Node nodeOf(Id content) const {
    Node node = nodes[uint32_t(content)];
    node.chunk = uint32_t(content >> 32);
    return node;
  }
  Id makeMistake(std::string text, mlir::Operation *op);
  uint32_t internRanks(RankSet ranks);
  Id translate(int64_t element, Id content, bool isBack);
  uint32_t translateRanks(int64_t element, uint32_t ranks, bool isBack);

  using Pair = std::pair<uint64_t, uint64_t>;
  const RankGroup &group;
  GroupMoves &moves;
  uint32_t inputBuffer;
  Terms terms;
  int64_t maxBytes, numBytes = 0;
  std::vector<Node> nodes; // for all chunks
  Numbering<Pair> nodeNumbers;
  std::vector<RankSet> rankSets;
  llvm::DenseMap<uint64_t, llvm::SmallVector<uint32_t, 1>> rankSetsByHash;
  std::vector<Mistake> mistakes;
  llvm::DenseMap<Pair, uint32_t> unions;                               // of two sets; UINT32_MAX: not disjoint
  llvm::DenseMap<Pair, uint32_t> movedNodes, movedSets;                // by element and direction, and what is moved
  std::pair<Pair, uint32_t> lastMoved = {{UINT64_MAX, UINT64_MAX}, 0}; // node: neighbours hold alike contents
};

} // namespace kolo
