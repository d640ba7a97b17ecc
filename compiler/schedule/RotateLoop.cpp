#include "compiler/schedule/RotateLoop.h"
#include "ir/IndexArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace kolo {

enum class Side { Before, From };

/// A copy of the body for one value of the index, with the arithmetic of both sides and the other ops of one side.
static void cloneSide(OpBuilder &builder, scf::ForOp loop, Operation *first, Value index, Side side) {
  IRMapping mapping;
  mapping.map(loop.getInductionVar(), index);
  bool isBefore = true;
  for (Operation &op : loop.getBody()->without_terminator()) {
    isBefore &= &op != first;
    bool isArithmetic = op.getNumRegions() == 0 && isMemoryEffectFree(&op);
    if (isArithmetic || isBefore == (side == Side::Before))
      builder.clone(op, mapping);
  }
}

/// Offsets wrap, so that adding or taking away the extent changes nothing.
static void unwrap(Operation *op, Value buffer, OperandRange offsets) {
  for (auto [dim, extent] : llvm::enumerate(buffer.getDefiningOp<BufferOp>().getGrid())) {
    Operation *made = offsets[dim].getDefiningOp();
    if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(made) && made->getOperand(1) == extent)
      op->setOperand(offsets.getBeginOperandIndex() + unsigned(dim), made->getOperand(0));
  }
}

static void unwrapMoves(Operation *around) {
  around->walk([](MoveInterface move) {
    unwrap(move, move.getSource(), move.getSourceOffsets());
    unwrap(move, move.getDestination(), move.getDestinationOffsets());
  });
}

static scf::ForOp createLoop(OpBuilder &builder, scf::ForOp like, Value begin, Value end) {
  auto made = scf::ForOp::create(builder, like.getLoc(), begin, end, like.getStep());
  builder.setInsertionPointToStart(made.getBody());
  return made;
}

/// Index arithmetic only: no other op changes.
static void cleanUp(Operation *program) {
  MLIRContext *context = program->getContext();
  RewritePatternSet patterns(context);
  for (RegisteredOperationName op : context->getRegisteredOperations())
    if (op.getDialectNamespace() == arith::ArithDialect::getDialectNamespace())
      op.getCanonicalizationPatterns(patterns, context);
  (void)applyPatternsGreedily(program, std::move(patterns));
  IRRewriter rewriter(context);
  DominanceInfo dominance;
  eliminateCommonSubExpressions(rewriter, dominance, program);
}

scf::ForOp rotateLoop(scf::ForOp loop, Operation *first) {
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  Value begin = loop.getLowerBound(), end = loop.getUpperBound(), one = loop.getStep();
  Value last = arith::SubIOp::create(builder, loc, end, one);
  Value second = createAdd(builder, loc, begin, one);
  Value endOfFirst = arith::MinSIOp::create(builder, loc, second, end);
  Value beginOfLast = arith::MaxSIOp::create(builder, loc, last, begin);
  createLoop(builder, loop, begin, endOfFirst);
  cloneSide(builder, loop, first, begin, Side::Before);
  builder.setInsertionPoint(loop);
  scf::ForOp middle = createLoop(builder, loop, begin, last);
  cloneSide(builder, loop, first, middle.getInductionVar(), Side::From);
  Value next = createAdd(builder, loc, middle.getInductionVar(), one);
  cloneSide(builder, loop, first, next, Side::Before);
  builder.setInsertionPoint(loop);
  scf::ForOp behind = createLoop(builder, loop, beginOfLast, end);
  cloneSide(builder, loop, first, last, Side::From);
  loop.erase();
  cleanUp(middle->getParentOfType<ProgramOp>());
  unwrapMoves(behind);
  return middle;
}

} // namespace kolo
