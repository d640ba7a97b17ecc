// What chunks hold, symbolically, as the checker's Contents, with a bit per rank.
#pragma once

#include "compiler/check/Contents.h"

#include "llvm/ADT/BitVector.h"

namespace kolo::oracle {

/// Numbers contents: equal contents have equal numbers. With `tracksOrder`, contents also differ when contributions
/// were combined in another order. The two operands of one reduction have no order, since reductions commute bitwise.
class DenseContents {
public:
  /// Sets of ranks may take `maxBytes`. Beyond, `isFull` says so, and the contents mean nothing any more.
  DenseContents(const RankGroup &group, uint32_t inputBuffer, bool tracksOrder, int64_t maxBytes);
  bool isFull() const { return numBytes > maxBytes; }

  using Id = uint32_t;
  static constexpr Id undefined = 0;

  Id input(int64_t call, int64_t rank, int64_t chunk);
  /// A mistake when the two come from different input chunks or share a contribution. `op` combines them.
  Id combine(Id a, Id b, mlir::Operation *op);
  Id divide(Id a, mlir::Operation *op);
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
  bool isWanted(Id content, const WantedContent &wanted, int64_t call, const llvm::BitVector &groupMembers) const;
  std::string describe(Id content) const;
  /// The op that made the content a mistake; null when it is none.
  mlir::Operation *mistakeOf(Id content) const;

private:
  static constexpr int8_t noCall = -1, mistakeCall = -2;
  struct Node {
    int8_t call; // noCall: undefined; mistakeCall: a mistake, `chunk` being its number
    bool isDivided = false;
    uint32_t chunk = 0, ranks = 0, order = 0;
  };
  struct Mistake {
    std::string text;
    mlir::Operation *op;
  };
  Id intern(const Node &node);
  Id makeMistake(std::string text, mlir::Operation *op);
  uint32_t internRanks(llvm::BitVector ranks);
  uint32_t internOrder(uint32_t a, uint32_t b);
  Id translate(int64_t element, Id content, bool isBack);
  uint32_t translateRanks(int64_t element, uint32_t ranks, bool isBack);
  uint32_t translateOrder(int64_t element, uint32_t order, bool isBack);
  int64_t moveRank(int64_t element, int64_t rank, bool isBack) const {
    return isBack ? group.moveBack(element, rank) : group.move(element, rank);
  }

  using Pair = std::pair<uint64_t, uint64_t>;
  const RankGroup &group;
  uint32_t inputBuffer;
  bool tracksOrder;
  int64_t maxBytes, numBytes = 0;
  std::vector<Node> nodes;
  Numbering<Pair> nodeNumbers;
  std::vector<llvm::BitVector> rankSets;
  llvm::DenseMap<uint64_t, llvm::SmallVector<uint32_t, 1>> rankSetsByHash;
  std::vector<std::pair<uint32_t, uint32_t>> orders; // two earlier orders, or UINT32_MAX and a rank
  Numbering<Pair> orderNumbers;
  std::vector<Mistake> mistakes;
  llvm::DenseMap<Pair, uint32_t> unions;                             // of two sets; UINT32_MAX: not disjoint
  llvm::DenseMap<Pair, uint32_t> movedNodes, movedSets, movedOrders; // by element and direction, and what is moved
};

} // namespace kolo::oracle
