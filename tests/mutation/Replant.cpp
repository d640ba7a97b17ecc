// Copies an op with what it needs to another place.
#include "Replant.h"

#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace kolo::mutation {

bool Replant::isVisible(Operation *definition) const {
  Block *block = builder.getInsertionBlock();
  Block::iterator point = builder.getInsertionPoint();
  while (block && block != definition->getBlock()) {
    point = block->getParentOp()->getIterator();
    block = block->getParentOp()->getBlock();
  }
  return block && (point == block->end() || definition->isBeforeInBlock(&*point));
}

Value Replant::at(Value value) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *definition = value.getDefiningOp();
  if (!definition) // the index of a loop around both places
    return value;
  assert(definition->getNumRegions() == 0 && "index arithmetic has no regions");
  bool isSame = isVisible(definition);
  for (Value operand : definition->getOperands())
    isSame &= at(operand) == operand;
  if (isSame)
    mapping.map(value, value);
  else
    builder.clone(*definition, mapping);
  return mapping.lookup(value);
}

void Replant::plant(Operation *nest, ArrayRef<Operation *> leaves) {
  OpBuilder::InsertionGuard guard(builder);
  if (nest == leaves.front())
    return plantLeaves(leaves);
  if (auto branch = dyn_cast<scf::IfOp>(nest))
    return plantBranch(branch, leaves);
  auto loop = cast<scf::ForOp>(nest);
  loop == lastOf ? plantLast(loop, leaves) : plantLoop(loop, leaves);
}

void Replant::plantLoop(scf::ForOp loop, ArrayRef<Operation *> leaves) {
  auto copy = scf::ForOp::create(builder, loop.getLoc(), at(loop.getLowerBound()), at(loop.getUpperBound()),
                                 at(loop.getStep()));
  mapping.map(loop.getInductionVar(), copy.getInductionVar());
  builder.setInsertionPointToStart(copy.getBody());
  plant(loop.getBody()->findAncestorOpInBlock(*leaves.front()), leaves);
}

void Replant::plantLast(scf::ForOp loop, ArrayRef<Operation *> leaves) {
  Location loc = loop.getLoc();
  Value first = at(loop.getLowerBound()), end = at(loop.getUpperBound()), step = at(loop.getStep());
  auto isEntered = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, first, end);
  auto branch = scf::IfOp::create(builder, loc, isEntered, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value length = createSub(builder, loc, createSub(builder, loc, end, first), createConstant(builder, loc, 1));
  Value numSteps = arith::FloorDivSIOp::create(builder, loc, length, step);
  mapping.map(loop.getInductionVar(), createAdd(builder, loc, first, createMul(builder, loc, numSteps, step)));
  plant(loop.getBody()->findAncestorOpInBlock(*leaves.front()), leaves);
}

void Replant::plantBranch(scf::IfOp branch, ArrayRef<Operation *> leaves) {
  Location loc = branch.getLoc();
  Value condition = at(branch.getCondition());
  bool isThen = branch.getThenRegion().isAncestor(leaves.front()->getParentRegion());
  if (!isThen)
    condition = arith::XOrIOp::create(builder, loc, condition, arith::ConstantIntOp::create(builder, loc, 1, 1));
  auto copy = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  builder.setInsertionPointToStart(copy.thenBlock());
  Block *block = isThen ? branch.thenBlock() : branch.elseBlock();
  plant(block->findAncestorOpInBlock(*leaves.front()), leaves);
}

void Replant::plantLeaves(ArrayRef<Operation *> leaves) {
  for (Operation *leaf : leaves) {
    for (Value operand : leaf->getOperands())
      at(operand);
    builder.clone(*leaf, mapping);
  }
}

} // namespace kolo::mutation
