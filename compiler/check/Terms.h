// How a value came to be: which contributions were combined in which order, and where it was rounded. Equal terms are
// equal bits. Used by Contents.
#pragma once

#include "codec/Codec.h"
#include "compiler/model/RankGroup.h"

#include <map>
#include <string>
#include <utility>

namespace kolo {

/// The codecs of a program's buffers.
struct BufferCodecs {
  BufferCodecs(const Code &code, bool isFollowed); // otherwise as if no buffer had one

  std::vector<codec::Codec> codecs = {dsl::none()}; // by number; 0: elements of the call's type
  std::vector<uint32_t> ofBuffer;                   // the number of each buffer's codec
  bool isAny() const { return codecs.size() > 1; }
};

/// What a value lost, in units that no translation of ranks changes.
struct Loss {
  int64_t numContributions = 0; // that were combined
  int64_t numEncodings = 0;     // that may round, on the longest path from an input
  bool isOfCallType = false;    // an element of the call's type holds it
  /// By the number of a codec: |error| <= the sum of factor * u * A, A being the largest magnitude that any
  /// contribution has in the element's block. Number 0: roundings to the call's type.
  std::vector<int64_t> factors;
  auto operator<=>(const Loss &) const = default;
};

class Terms {
public:
  /// What terms tell apart. Nothing: there is one term. Losses: values that lost alike are one term. Origins:
  /// combinations by the step that made them, whatever it combined; so equal terms are equal bits, and others may be.
  /// All: what it says above.
  enum class Detail { Nothing, Losses, Origins, All };
  using Id = uint32_t;

  Terms(const RankGroup &group, const BufferCodecs &codecs, Detail detail);

  Id input(int64_t rank);
  /// An element of a buffer: where a step combines, or where a stochastic codec draws.
  struct Origin {
    int64_t rank;
    uint32_t buffer;
    int64_t chunk;
  };
  /// The combination of two, in f32 or in the call's type, by the step that this rank takes at `time`. Operands have no
  /// order: every reduction commutes bitwise, NaNs and zeros included (ir/README.md, Reductions).
  Id combine(Id a, Id b, const Origin &origin, uint32_t time);
  /// The term, stored by the codec with this number. `op` stores it.
  Id store(Id term, uint32_t codec, const Origin &origin, mlir::Operation *op);
  /// The same term after an element of the group, or its inverse, has moved all ranks.
  Id move(int64_t element, Id term, bool isBack);

  const Loss &lossOf(Id term) const { return losses[nodes[term].loss]; }
  /// Of a term in full: equal for equal orders of combination and roundings, in every run of the checker.
  uint64_t fingerprint(Id term);
  /// "((0+1)+2)+3", by the numbers of ranks, the lower one first. Of many ranks: empty, unless they follow each other.
  std::string describeOrder(Id term);
  /// The last op that rounded a term otherwise than to the call's type; null if none did after the last combination.
  mlir::Operation *lastEncoding(Id term) const;
  int64_t numBytes() const { return int64_t(nodes.size()) * int64_t(4 * sizeof(Node)); } // maps included

private:
  static constexpr uint32_t inputKind = 0, combineKind = 1, firstStoreKind = 2, originKind = 1u << 31;
  struct Node {
    uint32_t kind; // a kind above; firstStoreKind + the number of a codec; originKind + the number of a buffer
    // input: a rank; combination: two terms, or a place and a time; store: a term and, if stochastic, a place; a place:
    // rank and chunk
    uint32_t a, b;
    uint32_t loss;
    mlir::Operation *op;
  };
  /// `makeLoss` gives the loss of a node that is new.
  Id intern(Node node, llvm::function_ref<uint32_t()> makeLoss);
  uint32_t internLoss(const Loss &loss);
  /// Of a combination, beneath roundings: the operand with the lowest rank, and the other one.
  std::pair<Id, Id> operandsOf(Id term);
  uint32_t lowestRank(Id term);
  Id place(const Origin &origin);
  bool tellsRanksApart() const { return detail == Detail::Origins || detail == Detail::All; }
  using Pair = std::pair<uint64_t, uint64_t>;

  const RankGroup &group;
  const BufferCodecs &codecs;
  Detail detail;
  std::vector<Node> nodes;
  std::vector<Loss> losses;
  std::map<Loss, uint32_t> lossNumbers;
  llvm::DenseMap<Pair, Id> numbers;         // by kind and `a`, and `b`
  llvm::DenseMap<Pair, Id> moved;           // by element and direction, and term
  llvm::DenseMap<uint32_t, Id> termsByLoss; // where nothing else counts
  llvm::DenseMap<Id, uint64_t> fingerprints;
  llvm::DenseMap<Id, uint32_t> lowestRanks;
};

} // namespace kolo
