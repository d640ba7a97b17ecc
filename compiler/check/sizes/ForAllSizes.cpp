// See ForAllSizes.h.
#include "compiler/check/sizes/ForAllSizes.h"
#include "compiler/check/sizes/SizeRun.h"

#include "compiler/model/Code.h"

using namespace mlir;

namespace kolo {

/// Small sizes are checked themselves. A loop over n places needs some of them for its first and last iterations.
static constexpr int64_t leastSize = 16;

/// Of a program with as many slices as it has, or few that stand for more.
static std::optional<std::string> whyNotFrom(ProgramOp program, ArrayRef<int64_t> mesh, size_t dim,
                                             const CheckOptions &options, const SlicePipeline *few) {
  std::variant<Code, CodeMistake> made = Code::create(program);
  if (auto *mistake = std::get_if<CodeMistake>(&made))
    return mistake->message;
  for (bool isInPlace : {false, true}) {
    if (isInPlace && program.getInPlace() != InPlace::Direct)
      continue;
    sizes::Setting setting{mesh, dim, leastSize, isInPlace, options.transport, few};
    if (std::optional<std::string> reason = sizes::SizeRun(program, setting).run())
      return reason;
  }
  return std::nullopt;
}

AllSizes proveForAllSizes(ProgramOp program, ArrayRef<int64_t> mesh, size_t dim, const CheckOptions &options) {
  if (hasRoot(program.getCollective().getKind()))
    return {dim, std::nullopt, "ranks are alike only as seen from the root"};
  if (findCoded(program))
    return {dim, std::nullopt, "what codecs do to bits (V11) is followed on meshes themselves"};
  OwningOpRef<ProgramOp> copy(program.clone());
  std::optional<SlicePipeline> pipeline = SlicePipeline::find(*copy);
  bool hasFew = pipeline && pipeline->numSlices() > pipeline->fewSlices();
  if (hasFew)
    pipeline->setNumSlices(pipeline->fewSlices());
  if (std::optional<std::string> reason = whyNotFrom(*copy, mesh, dim, options, hasFew ? &*pipeline : nullptr))
    return {dim, std::nullopt, *reason};
  AllSizes result{dim, leastSize, {}};
  CheckOptions ofOne = options;
  ofOne.provesAllSizes = false;
  SmallVector<int64_t> small(mesh);
  for (small[dim] = leastSize - 1; small[dim] >= 1; --small[dim]) {
    if (!checkProgram(program, small, ofOne).isProved())
      break;
    result.from = small[dim];
  }
  return result;
}

} // namespace kolo
