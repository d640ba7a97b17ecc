// See compiler/check/ForAllSizes.h.
#include "compiler/check/ForAllSizes.h"
#include "compiler/check/sizes/SizeRun.h"

#include "compiler/model/Code.h"
#include "ir/Members.h"

using namespace mlir;

namespace kolo {

/// Small sizes are checked themselves. A loop over n places needs some of them for its first and last iterations.
static constexpr int64_t leastSize = 16;

/// Why a program is not proved from `leastSize` on, V11 included if `followsBits`; nothing if it is. It has as many
/// slices as it has, or few that stand for more.
static std::optional<std::string> whyNotProved(ProgramOp program, ArrayRef<int64_t> mesh, size_t dim, int64_t period,
                                               bool followsBits, const CheckOptions &options,
                                               const SlicePipeline *few) {
  std::variant<Code, CodeMistake> made = Code::create(program);
  if (auto *mistake = std::get_if<CodeMistake>(&made))
    return mistake->message;
  for (bool isInPlace : {false, true})
    for (int64_t rest = 0; rest < period; ++rest) {
      if (isInPlace && program.getInPlace() != InPlace::Direct)
        continue;
      sizes::Setting setting{mesh, dim, leastSize, period, rest, isInPlace, followsBits, options.transport, few};
      if (std::optional<std::string> reason = sizes::SizeRun(program, setting).run())
        return reason;
    }
  return std::nullopt;
}

AllSizes proveForAllSizes(ProgramOp program, ArrayRef<int64_t> mesh, size_t dim, const CheckOptions &options) {
  if (hasRoot(program.getCollective().getKind()))
    return {dim, std::nullopt, "ranks are alike only as seen from the root"};
  if (isPrefixReduction(program.getCollective().getKind()))
    return {dim, std::nullopt, "neighbours combine different numbers of inputs"};
  if (findCoded(program))
    return {dim, std::nullopt, "what codecs do to values is followed on meshes themselves"};
  OwningOpRef<ProgramOp> copy(program.clone());
  std::optional<SlicePipeline> pipeline = SlicePipeline::find(*copy);
  bool hasFew = pipeline && pipeline->numSlices() > pipeline->fewSlices();
  if (hasFew)
    pipeline->setNumSlices(pipeline->fewSlices());
  // Where nothing is combined, outputs are inputs of one rank, bit by bit.
  const CollectiveKind kind = program.getCollective().getKind();
  const bool asksForBits = isReduction(kind) && givesAllTheSame(kind);
  std::optional<std::string> reason;
  AllSizes result{dim, std::nullopt, {}};
  // What takes turns, as iterations do with two slots, is alike in every other iteration.
  for (int64_t period : {1, 2})
    for (bool followsBits : {true, false}) {
      if (result.from || (followsBits && !asksForBits))
        continue;
      std::optional<std::string> whyNot =
          whyNotProved(*copy, mesh, dim, period, followsBits, options, hasFew ? &*pipeline : nullptr);
      if (!whyNot) {
        result.from = leastSize;
        result.ranksAgreeBitwise = followsBits || !asksForBits;
      } else if (!followsBits && !reason) {
        reason = whyNot;
      }
    }
  if (!result.from) {
    result.whyNot = *reason;
    return result;
  }
  CheckOptions ofOne = options;
  ofOne.sizes = CheckOptions::Sizes::One;
  SmallVector<int64_t> small(mesh);
  const bool wantsSmall = options.sizes != CheckOptions::Sizes::AllOfFirst;
  for (small[dim] = leastSize - 1; wantsSmall && small[dim] >= 1; --small[dim]) {
    Verdict verdict = checkProgram(program, small, ofOne);
    if (!verdict.isProved())
      break;
    result.from = small[dim];
    result.ranksAgreeBitwise &= verdict.ranksAgreeBitwise.value_or(false);
  }
  return result;
}

} // namespace kolo
