// ExpertExchange: tokens to the experts of a mixture of experts, which are spread over all ranks, and their answers
// back. Only the ranks that hold the tokens know how many go where.
#pragma once

#include "kolo/runtime/Communicator.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kolo::runtime {

/// How the tokens for a rank's experts lie in its memory, in rows.
enum class ExpertLayout : uint8_t {
  Slots,   // [expert of the rank][rank of the token][capacity]: where a row lies depends on no other rank
  Compact, // [expert of the rank], those of one expert behind those of the one before, in the order of the ranks
};

/// What becomes of a token that is beyond the capacity of an expert for its rank: those with the highest numbers are.
enum class Overflow : uint8_t {
  Refuse, // `route` fails on all ranks
  Drop,   // it does not go to that expert, and counts as zeros in `combine`
};

struct ExpertOptions {
  // With one dimension, tokens go directly. With two, they are nodes and the ranks of a node. A token then goes once to
  // each node, to the rank of the same number there, and from that to its experts in the node.
  Mesh mesh;
  int64_t numExperts = 0;         // of all ranks; a multiple of their number. Rank r has experts r k to (r + 1) k - 1
  int64_t rowElements = 0;        // of a token
  DataType type = DataType::BF16; // of its elements: F32, F16 or BF16
  int64_t capacity = 0;           // tokens that one rank may send to one expert
  ExpertLayout layout = ExpertLayout::Slots;
  Overflow overflow = Overflow::Refuse;
  // Whether `dispatch` takes programs with codecs, where the plugin has one for a dimension. It must have one. Scales
  // are of elements that follow each other in the tokens for one rank, so rowElements is best a multiple of their
  // block.
  bool allowsLoss = false;
};

/// Which tokens this rank's experts get. Valid until the next `route`.
struct Routed {
  int64_t numRows = 0;                // of the memory for them; with slots, also of slots that are empty
  std::span<const int64_t> counts;    // [expert of this rank][rank]: tokens
  std::span<const int64_t> firstRows; // likewise: row of the first one; the others follow it
  int64_t numDropped = 0;             // (token, expert) pairs of this rank that are beyond a capacity
  int64_t numToNodes = 0;             // rows that `dispatch` sends from this rank to other nodes; 0 without nodes
};

class ExpertExchangeState;

/// One rank's end. All ranks call the same functions in the same order, with equal options. Movable; one thread uses
/// it, and its communicator, at a time. All memory is the caller's, who keeps it during a call.
class KOLO_RUNTIME_API ExpertExchange {
public:
  /// `plugins` have the programs: an all-to-all over each dimension of the mesh; see Proof::takesRows. They, and
  /// the communicator, must outlive this object. Involves no other rank.
  /// InvalidArgument: an option is wrong, or a program is missing.
  static Result<ExpertExchange> create(Communicator &communicator, const std::vector<const Plugin *> &plugins,
                                       const ExpertOptions &options);

  ExpertExchange(ExpertExchange &&) noexcept;
  ExpertExchange &operator=(ExpertExchange &&) noexcept;
  ~ExpertExchange();

  /// Tells the ranks how many tokens come. `experts` has `perToken` numbers, on every rank as many, for each token,
  /// none twice; -1 stands for none. Collective, blocking. As for Communicator::run, and:
  ///   InvalidArgument  on all ranks: on some rank a number is out of range or twice there, or, with Overflow::Refuse,
  ///                    tokens are beyond a capacity
  Status route(std::span<const int32_t> experts, int64_t perToken);
  /// Of the last successful `route`.
  Routed routed() const;

  /// Brings the tokens that were routed last to `rows`, which has Routed::numRows rows; it may be called again, with
  /// other tokens. Writes no slot that is empty. `tokens` has the tokens of this rank. They do not overlap. Collective,
  /// blocking. As for Communicator::run.
  Status dispatch(const void *tokens, void *rows);
  /// Brings back the experts' answers, which lie in `rows` as `dispatch` left the tokens. Each token of `output`
  /// becomes the sum of its answers times its `weights`, which lie as `experts` did. The sum is made in f32, in the
  /// order of the token's experts, and rounded once. With nodes, the sum of a node is rounded, too; then the sums of
  /// nodes are added in the order of the nodes. Collective, blocking. As for Communicator::run, and InvalidArgument:
  /// `weights` is not as long as `experts` was.
  Status combine(const void *rows, std::span<const float> weights, void *output);

private:
  explicit ExpertExchange(std::unique_ptr<ExpertExchangeState> state);
  std::unique_ptr<ExpertExchangeState> state;
};

} // namespace kolo::runtime
