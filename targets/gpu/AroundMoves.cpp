// The optimizer computes once what does not change, and keeps it: in a program of many moves, or around a move that
// takes many registers itself, that is more than a thread has. Here it is computed again instead.
//   Before:  %count = load (%invocation + 80) ; loop { call @kolo.copy(...) ; ... %count / 5 ... }
//   After:   loop { call @kolo.copy(...) ; %count = load (%invocation + 80) ; ... %count / 5 ... }
#include "targets/gpu/AroundMoves.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace llvm;

namespace kolo::gpu {

/// The call of a function that is not inlined.
static bool isLasting(const Instruction &instruction) {
  auto *call = dyn_cast<CallBase>(&instruction);
  const Function *function = call ? call->getCalledFunction() : nullptr;
  return function && !function->isIntrinsic() && !function->hasFnAttribute(Attribute::AlwaysInline);
}

void forEachLoop(Module &module, function_ref<void(Loop &)> visit) {
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    DominatorTree dominators(function);
    LoopInfo loops(dominators);
    for (Loop *loop : loops.getLoopsInPreorder())
      visit(*loop);
  }
}

void keepInLoopsAroundMoves(Module &module) {
  forEachLoop(module, [](Loop &loop) {
    if (any_of(loop.blocks(), [](const BasicBlock *block) { return any_of(*block, isLasting); }))
      addStringMetadataToLoop(&loop, "llvm.licm.disable", 1);
  });
}

namespace {

/// In one function.
class Recomputation {
public:
  explicit Recomputation(Function &changed) : function(changed) {}

  void run();

private:
  /// Of the invocation: all other memory is reached by addresses in it.
  bool isRead(const Value &value) const {
    auto *load = dyn_cast<LoadInst>(&value);
    return load && load->isSimple() && getUnderlyingObject(load->getPointerOperand()) == function.getArg(0);
  }
  bool isOperation(const Instruction &instruction) const;
  bool isCheap(const Instruction &instruction);
  static void computeNearUses(Instruction &instruction);

  /// A value of more operations than this, reads not counted, is kept.
  static constexpr int mostOperations = 8;

  Function &function;
  DenseMap<const Value *, int> numOperations; // of what is cheap
};

/// What gives the same wherever it is, and takes little time. Reads are of what the host has written, never poison.
bool Recomputation::isOperation(const Instruction &instruction) const {
  if (auto *freeze = dyn_cast<FreezeInst>(&instruction))
    return isRead(*freeze->getOperand(0));
  if (auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction))
    return intrinsic->doesNotAccessMemory() && !intrinsic->isConvergent();
  return isa<BinaryOperator, CmpInst, SelectInst, CastInst, GetElementPtrInst>(instruction);
}

/// What follows from the function's arguments alone. To be asked of operands first.
bool Recomputation::isCheap(const Instruction &instruction) {
  if (!isRead(instruction) && !isOperation(instruction))
    return false;
  int sum = isRead(instruction) ? 0 : 1;
  for (const Value *operand : instruction.operand_values()) {
    auto found = numOperations.find(operand);
    if (found == numOperations.end() && !isa<Constant, Argument>(operand))
      return false;
    sum += found == numOperations.end() ? 0 : found->second;
  }
  if (sum > mostOperations)
    return false;
  numOperations[&instruction] = sum;
  return true;
}

/// A phi takes the same value from a block that it names more than once.
void Recomputation::computeNearUses(Instruction &instruction) {
  DenseMap<BasicBlock *, Instruction *> atEnds;
  auto computeBefore = [&](Instruction *place) {
    Instruction *again = instruction.clone();
    again->insertBefore(place->getIterator());
    return again;
  };
  for (Use &use : make_early_inc_range(instruction.uses())) {
    auto *phi = dyn_cast<PHINode>(use.getUser());
    if (!phi) {
      use.set(computeBefore(cast<Instruction>(use.getUser())));
      continue;
    }
    Instruction *&atEnd = atEnds[phi->getIncomingBlock(use)];
    if (!atEnd)
      atEnd = computeBefore(phi->getIncomingBlock(use)->getTerminator());
    use.set(atEnd);
  }
  instruction.eraseFromParent();
}

void Recomputation::run() {
  SmallVector<Instruction *> cheap;
  for (BasicBlock *block : ReversePostOrderTraversal<Function *>(&function))
    for (Instruction &instruction : *block)
      if (isCheap(instruction))
        cheap.push_back(&instruction);
  for (Instruction *instruction : reverse(cheap))
    computeNearUses(*instruction);
}

} // namespace

PreservedAnalyses ComputeAgainAfterMoves::run(Module &module, ModuleAnalysisManager &) {
  for (Function &function : module)
    if (function.hasFnAttribute(invocationAttribute) && any_of(instructions(function), isLasting))
      Recomputation(function).run();
  return PreservedAnalyses::none();
}

} // namespace kolo::gpu
