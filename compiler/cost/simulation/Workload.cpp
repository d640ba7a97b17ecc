#include "compiler/cost/simulation/Workload.h"

#include <algorithm>

namespace kolo::cost {

using Kind = Instruction::Kind;

size_t numAtOnce(const RankProgram &program) {
  auto waitsForOthers = [](const Instruction &step) { return step.kind == Kind::Wait && step.statement != 0; };
  auto end = std::ranges::find_if(program.code, waitsForOthers);
  return size_t(std::ranges::count(program.code.begin(), end, Kind::Transfer, &Instruction::kind));
}

std::vector<int64_t> numExecutions(const Workload &workload) {
  std::vector<int64_t> most(workload.numStatements), executions;
  for (const RankProgram &program : workload.programs) {
    executions.assign(most.size(), 0);
    for (const Instruction &step : program.code)
      executions[step.statement] += step.kind == Kind::Transfer ? workload.numCalls : 0;
    for (size_t number = 0; number < most.size(); ++number)
      most[number] = std::max(most[number], executions[number]);
  }
  return most;
}

} // namespace kolo::cost
