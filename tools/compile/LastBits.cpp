#include "tools/compile/LastBits.h"

#include "compiler/check/Verdict.h"

namespace kolo::tools {

bool mayDifferInLastBits(ProgramOp program, llvm::ArrayRef<int64_t> mesh) {
  if (!isReduction(program.getCollective().getKind()) || !givesAllTheSame(program.getCollective().getKind()))
    return false;
  constexpr int64_t budget = int64_t(1) << 20;
  CheckOptions options;
  setBudget(options, budget);
  options.wantSteps = false;
  const Verdict verdict = checkProgram(program, mesh, options);
  return !verdict.isProved() || !verdict.ranksAgreeBitwise.value_or(false);
}

} // namespace kolo::tools
