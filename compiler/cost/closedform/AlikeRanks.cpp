#include "compiler/cost/closedform/AlikeRanks.h"

using namespace mlir;

namespace kolo::cost {

using Along = DimStep::Along;

/// Executes the statement's body as this rank; afterwards, what does not depend on the rank is known.
FailureOr<StatementMoves::AlikeRanks::Known> StatementMoves::AlikeRanks::execute(int64_t rank) {
  const DimStep &step = moves.steps[0];
  evaluator.set(of.body->getArgument(0), rank);
  if (of.body->getNumArguments() > 1) {
    int64_t ahead = step.along == Along::Others ? 1 : step.along == Along::Next ? step.amount : 0;
    evaluator.set(of.body->getArgument(1),
                  step.along == Along::At ? step.amount : ((rank + ahead) % size + size) % size);
  }
  bool isFailed = false;
  Known known{false, 0};
  known.moves = of.executeBody(evaluator, isFailed, known.chunks);
  if (isFailed)
    return failure();
  return known;
}

FailureOr<std::optional<StatementMoves::AlikeRanks::Known>> StatementMoves::AlikeRanks::lookAt(const Progression &ranks,
                                                                                               int64_t &cut) {
  if (ranks.count == 1) {
    FailureOr<Known> known = execute(ranks.first);
    if (failed(known))
      return failure();
    Known looked = *known;
    return std::optional<Known>(looked);
  }
  ranges.restart({ranks.first, ranks[ranks.count - 1], ranks.stride});
  auto moving = [&] { return of.condition ? ranges.of(of.condition) : IndexRanges::Range{1, 1, 0}; };
  auto isNever = [](IndexRanges::Range range) { return range.isOne() && range.least == 0; };
  for (const IndexEvaluator::Instruction *instruction : arithmetic) {
    ranges.execute(*instruction);
    if (instruction->op == decides && isNever(moving()))
      return std::optional(Known{false, 0});
  }
  cut = ranges.helpfulCut();
  if (isNever(moving()))
    return std::optional(Known{false, 0});
  Known known{true, 1};
  for (Value number : of.sizes) {
    IndexRanges::Range range = ranges.of(number);
    if (!range.isOne())
      return std::optional<Known>();
    known.chunks *= double(std::max<int64_t>(0, range.least));
  }
  return moving().isOne() ? std::optional(known) : std::nullopt;
}

/// False where these senders and receivers are no progressions.
bool StatementMoves::AlikeRanks::add(const Progression &ranks, double share) {
  const DimStep &step = moves.steps[0];
  int64_t ahead = ((step.amount % size) + size) % size;
  switch (step.along) {
  case Along::Keep:
    moves.alike.push_back({ranks, ranks, share});
    return true;
  case Along::At:
    moves.alike.push_back({ranks, {step.amount}, share});
    return true;
  case Along::Next: {
    int64_t numBefore = ranks.numBetween(0, size - ahead); // whose receivers lie after them
    if (numBefore > 0)
      moves.alike.push_back(
          {{ranks.first, ranks.stride, numBefore}, {ranks.first + ahead, ranks.stride, numBefore}, share});
    if (int64_t number = ranks.count - numBefore; number > 0)
      moves.alike.push_back(
          {{ranks[numBefore], ranks.stride, number}, {ranks[numBefore] + ahead - size, ranks.stride, number}, share});
    return true;
  }
  case Along::Others:
    if (ranks.count > 1 || !moves.alike.empty())
      return false;
    if (ranks.first > 0)
      moves.alike.push_back({ranks, {0, 1, ranks.first}, share});
    if (int64_t next = ranks.first + 1; next < size)
      moves.alike.push_back({ranks, {next, 1, size - next}, share});
    return true;
  default:
    return false;
  }
}

/// The halves, or the ranks by their remainders; in order of their first ranks.
static void cutInto(const Progression &ranks, int64_t cut, SmallVectorImpl<Progression> &pieces) {
  if (cut > 1 && cut <= ranks.count) {
    for (int64_t k = 0; k < cut; ++k)
      pieces.push_back({ranks[k], ranks.stride * cut, (ranks.count - k + cut - 1) / cut});
    return;
  }
  int64_t half = ranks.count / 2;
  pieces.push_back({ranks.first, ranks.stride, half});
  pieces.push_back({ranks[half], ranks.stride, ranks.count - half});
}

FailureOr<bool> StatementMoves::AlikeRanks::find(double chunkShare, int64_t &budget) {
  constexpr int mostLooks = 4096, costOfLook = 64; // as many looks at one rank
  bool isThere = moves.steps[0].along != Along::At || (moves.steps[0].amount >= 0 && moves.steps[0].amount < size);
  if (llvm::is_contained(of.ofReceiver, true) || !isThere || failed(execute(0)))
    return false;
  SmallVector<Progression> open = {{0, 1, size}}, pieces;
  std::vector<std::pair<Progression, double>> found;
  for (int numLooks = 0; !open.empty(); ++numLooks) {
    Progression ranks = open.pop_back_val();
    int64_t cut = 1;
    FailureOr<std::optional<Known>> known = lookAt(ranks, cut);
    if (failed(known))
      return failure();
    budget -= costOfLook;
    if (numLooks == mostLooks || budget < 0)
      return false;
    if (!*known) {
      pieces.clear();
      cutInto(ranks, cut, pieces);
      open.append(pieces.rbegin(), pieces.rend());
    } else if ((*known)->moves) {
      double share = (*known)->chunks * chunkShare;
      bool goesOn = !found.empty() && found.back().second == share && found.back().first.stride == ranks.stride &&
                    found.back().first[found.back().first.count] == ranks.first;
      if (goesOn)
        found.back().first.count += ranks.count;
      else
        found.emplace_back(ranks, share);
    }
  }
  for (const auto &[ranks, share] : found)
    if (!add(ranks, share)) {
      moves.alike.clear();
      return false;
    }
  return true;
}

} // namespace kolo::cost
