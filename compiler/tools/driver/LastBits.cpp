#include "driver/LastBits.h"

#include "compiler/check/Verdict.h"

namespace kolo::tools {

bool mayDifferInLastBits(ProgramOp program, llvm::ArrayRef<int64_t> mesh) {
  if (!isReduction(program.getCollective().getKind()) || !givesAllTheSame(program.getCollective().getKind()))
    return false;
  constexpr int64_t budget = int64_t(1) << 20;
  CheckOptions options;
  setBudget(options, budget);
  options.wantSteps = false;
  return !checkProgram(program, mesh, options).ranksAgreeBitwise.value_or(true);
}

} // namespace kolo::tools
