// Matches the conditions that loops over peers have after projection.
#include "compiler/model/LoopGuards.h"
#include "ir/Kolo.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace kolo {

bool cannotFail(Operation *op) {
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp>(op)) {
    Value divisor = op->getOperand(1);
    return divisor.getDefiningOp<DimSizeOp>() || matchPattern(divisor, m_NonZero());
  }
  return !isa<LookupOp, arith::ShLIOp, math::CountLeadingZerosOp>(op);
}

static bool isArithmetic(Operation &op) {
  return op.getNumRegions() == 0 && op.getNumResults() == 1 && op.getResult(0).getType().isIntOrIndex() &&
         isMemoryEffectFree(&op);
}

/// The branch that contains all ops of a loop but arithmetic that cannot fail. Null if there is none.
static scf::IfOp findOnlyBranch(scf::ForOp loop) {
  scf::IfOp only;
  for (Operation &op : loop.getBody()->without_terminator()) {
    auto branch = dyn_cast<scf::IfOp>(op);
    if (branch && !only && !branch.elseBlock())
      only = branch;
    else if (!isArithmetic(op) || !cannotFail(&op))
      return nullptr;
  }
  return only;
}

namespace {

struct Remainder {
  Value dividend, divisor;
};

} // namespace

/// Of a remainder that is never negative, as the language's `mod` becomes.
static std::optional<Remainder> matchFloorMod(Value value) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto remainder = select ? select.getFalseValue().getDefiningOp<arith::RemSIOp>() : nullptr;
  auto isNegative = select ? select.getCondition().getDefiningOp<arith::CmpIOp>() : nullptr;
  auto sum = select ? select.getTrueValue().getDefiningOp<arith::AddIOp>() : nullptr;
  if (!remainder || !isNegative || !sum || isNegative.getPredicate() != arith::CmpIPredicate::slt ||
      isNegative.getLhs() != remainder.getResult() || !matchPattern(isNegative.getRhs(), m_Zero()))
    return std::nullopt;
  Value mine = remainder.getResult(), divisor = remainder.getRhs();
  bool isSum = (sum.getLhs() == mine && sum.getRhs() == divisor) || (sum.getRhs() == mine && sum.getLhs() == divisor);
  return isSum ? std::optional(Remainder{remainder.getLhs(), divisor}) : std::nullopt;
}

/// Solves `value` == `wanted` for the loop's index, where no two iterations have the same value.
static std::optional<LoopGuard> solve(scf::ForOp loop, Value value, Value wanted,
                                      llvm::function_ref<bool(Value)> isInvariant) {
  Value index = loop.getInductionVar();
  LoopGuard guard;
  guard.wanted = wanted;
  if (value == index)
    return guard;
  APInt lower;
  std::optional<Remainder> remainder = matchFloorMod(value);
  bool isInRange = matchPattern(loop.getLowerBound(), m_ConstantInt(&lower)) && !lower.isNegative();
  if (!isInRange || !remainder || remainder->divisor != loop.getUpperBound())
    return std::nullopt;
  guard.size = remainder->divisor;
  if (auto sum = remainder->dividend.getDefiningOp<arith::AddIOp>())
    guard.base = sum.getLhs() == index ? sum.getRhs() : sum.getRhs() == index ? sum.getLhs() : Value();
  if (auto difference = remainder->dividend.getDefiningOp<arith::SubIOp>();
      difference && difference.getRhs() == index) {
    guard.base = difference.getLhs();
    guard.isSubtracted = true;
  }
  return guard.base && isInvariant(guard.base) ? std::optional(guard) : std::nullopt;
}

std::optional<LoopGuard> findGuard(scf::ForOp loop, llvm::function_ref<bool(Value)> isInvariant) {
  scf::IfOp branch = findOnlyBranch(loop);
  if (!branch || !matchPattern(loop.getStep(), m_One()))
    return std::nullopt;
  if (isInvariant(branch.getCondition())) {
    LoopGuard guard;
    guard.condition = branch.getCondition();
    return guard;
  }
  auto equal = branch.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!equal || equal.getPredicate() != arith::CmpIPredicate::eq)
    return std::nullopt;
  for (auto [value, wanted] : {std::pair(equal.getLhs(), equal.getRhs()), std::pair(equal.getRhs(), equal.getLhs())})
    if (isInvariant(wanted))
      return solve(loop, value, wanted, isInvariant);
  return std::nullopt;
}

} // namespace kolo
