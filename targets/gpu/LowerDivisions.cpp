// LowerDivisions: makes divisions of indices calls of one function.
//   Before:  %q = arith.divui %a, %b : index
//   After:   %q = llvm.call @kolo.quotient(%a, %b)
//
// Devices have no instruction that divides integers: each of a program's dozens of divisions would become more than a
// hundred instructions. Divisions by constants stay. Runs once rounding divisions are expanded.
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kolo::gpu {
#define GEN_PASS_DEF_LOWERDIVISIONS
#include "targets/gpu/Passes.h.inc"

namespace {

struct LowerDivisions : impl::LowerDivisionsBase<LowerDivisions> {
  void runOnOperation() override {
    SmallVector<Operation *> divisions;
    getOperation().walk([&](Operation *op) {
      bool isDivision = isa<arith::DivUIOp, arith::RemUIOp, arith::DivSIOp, arith::RemSIOp>(op);
      if (isDivision && op->getOperand(0).getType().isIndex() && !matchPattern(op->getOperand(1), m_Constant()))
        divisions.push_back(op);
    });
    for (Operation *division : divisions)
      replace(division);
  }

private:
  void replace(Operation *op) {
    OpBuilder builder(op);
    Location loc = op->getLoc();
    Value a = toInteger(builder, loc, op->getOperand(0)), b = toInteger(builder, loc, op->getOperand(1));
    function = quotientFunction;
    for (Operation *around = op->getParentOp(); around; around = around->getParentOp())
      if (around->hasAttr(byThreadAttribute))
        function = quotientByThreadFunction;
    bool isSigned = isa<arith::DivSIOp, arith::RemSIOp>(op);
    Value quotient = isSigned ? divideSigned(builder, loc, a, b) : call(builder, loc, function, {a, b});
    Value result = quotient;
    if (isa<arith::RemUIOp, arith::RemSIOp>(op))
      result = arith::SubIOp::create(builder, loc, a, arith::MulIOp::create(builder, loc, quotient, b));
    op->getResult(0).replaceAllUsesWith(toIndex(builder, loc, result));
    op->erase();
  }

  /// Towards zero: with the signs apart. x xor s, less s, is the negative of x where s is -1, and x where s is 0.
  Value divideSigned(OpBuilder &builder, Location loc, Value a, Value b) {
    Value places = constantI64(builder, loc, 63);
    auto signOf = [&](Value x) -> Value { return arith::ShRSIOp::create(builder, loc, x, places); };
    auto negateIf = [&](Value x, Value sign) -> Value {
      return arith::SubIOp::create(builder, loc, arith::XOrIOp::create(builder, loc, x, sign), sign);
    };
    Value signA = signOf(a), signB = signOf(b);
    Value quotient = call(builder, loc, function, {negateIf(a, signA), negateIf(b, signB)});
    return negateIf(quotient, arith::XOrIOp::create(builder, loc, signA, signB));
  }

  StringRef function; // that divides
};

} // namespace

/// In 32 bits where that is enough, which is much faster.
static void defineDivideFar(ModuleOp module) {
  OpBuilder builder(module.getContext());
  Location loc = module.getLoc();
  Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
  auto function = createFunction(builder, module, quotientByThreadFunction, i64, {i64, i64}, Inlining::Never);
  Value a = function.getArgument(0), b = function.getArgument(1);
  Value high =
      arith::ShRUIOp::create(builder, loc, arith::OrIOp::create(builder, loc, a, b), constantI64(builder, loc, 32));
  Value isShort = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, high, constantI64(builder, loc, 0));
  auto choice = scf::IfOp::create(builder, loc, TypeRange(i64), isShort, /*withElseRegion=*/true);
  LLVM::ReturnOp::create(builder, loc, choice.getResult(0));
  builder.setInsertionPointToStart(choice.thenBlock());
  Value quotient = arith::DivUIOp::create(builder, loc, arith::TruncIOp::create(builder, loc, i32, a),
                                          arith::TruncIOp::create(builder, loc, i32, b));
  scf::YieldOp::create(builder, loc, arith::ExtUIOp::create(builder, loc, i64, quotient).getResult());
  builder.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(builder, loc, arith::DivUIOp::create(builder, loc, a, b).getResult());
}

void defineQuotient(ModuleOp module) {
  defineDivideFar(module);
  OpBuilder builder(module.getContext());
  Location loc = module.getLoc();
  Type i64 = builder.getI64Type();
  auto function = createFunction(builder, module, quotientFunction, i64, {i64, i64}, Inlining::Always);
  Value quotient = call(builder, loc, quotientByThreadFunction, function.getArguments());
  LLVM::ReturnOp::create(builder, loc, call(builder, loc, uniformFunction, {quotient}));
}

} // namespace kolo::gpu
