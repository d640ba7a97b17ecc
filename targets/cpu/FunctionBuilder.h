// What the makers of functions over codecs share: loops, addresses and vectors. Private to this folder.
#pragma once

#include "ir/IndexArithmetic.h"
#include "targets/Codecs.h"
#include "targets/cpu/InvocationAccess.h"
#include "targets/cpu/ProgramFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

namespace kolo::cpu {

class FunctionBuilder {
protected:
  using Body = llvm::function_ref<void(mlir::Value)>;

  explicit FunctionBuilder(mlir::ModuleOp module)
      : module(module), builder(module.getContext()), loc(module.getLoc()), pointer(pointerType(builder)),
        i64(builder.getI64Type()), i32(builder.getI32Type()), f32(builder.getF32Type()) {}

  /// False if the module has it already.
  bool create(llvm::StringRef name, llvm::ArrayRef<mlir::Type> arguments, mlir::Type result = {}) {
    if (module.lookupSymbol(name))
      return false;
    function = createFunction(builder, module, name, result, arguments, /*isExported=*/false);
    function.setNoInline(true);
    return true;
  }
  void finish(mlir::ValueRange results = {}) {
    builder.setInsertionPointToEnd(&function.getBody().back());
    mlir::LLVM::ReturnOp::create(builder, loc, results);
  }
  mlir::Value argument(unsigned number) { return function.getArgument(number); }
  void call(llvm::StringRef name, mlir::ValueRange arguments) {
    mlir::LLVM::CallOp::create(builder, loc, mlir::TypeRange(), name, arguments);
  }
  mlir::Value index(int64_t value) { return createConstant(builder, loc, value); }
  mlir::Value integer64(int64_t value) { return constantI64(builder, loc, value); }
  mlir::Value add64(mlir::Value a, mlir::Value b) { return mlir::arith::AddIOp::create(builder, loc, a, b); }
  mlir::Value sub64(mlir::Value a, mlir::Value b) { return mlir::arith::SubIOp::create(builder, loc, a, b); }
  mlir::Value mul64(mlir::Value a, int64_t factor) {
    return factor == 1 ? a : mlir::arith::MulIOp::create(builder, loc, a, integer64(factor)).getResult();
  }
  mlir::Value div64(mlir::Value a, int64_t divisor) {
    return mlir::arith::DivUIOp::create(builder, loc, a, integer64(divisor));
  }
  mlir::Value least64(mlir::Value a, mlir::Value b) { return mlir::arith::MinSIOp::create(builder, loc, a, b); }
  mlir::Value at(mlir::Value base, mlir::Value offsetBytes) { return advance(builder, loc, base, offsetBytes); }
  mlir::Value at(mlir::Value base, int64_t offsetBytes) { return at(base, integer64(offsetBytes)); }
  mlir::Value load(mlir::Type type, mlir::Value address) {
    return mlir::LLVM::LoadOp::create(builder, loc, type, address, 1);
  }
  void store(mlir::Value value, mlir::Value address) { mlir::LLVM::StoreOp::create(builder, loc, value, address, 1); }
  /// In the function's entry block; the builder stands there.
  mlir::Value allocate(int64_t numBytes) {
    return mlir::LLVM::AllocaOp::create(builder, loc, pointer, builder.getI8Type(), integer64(numBytes), 64);
  }
  mlir::VectorType vectorOf(int64_t size, mlir::Type element) { return mlir::VectorType::get({size}, element); }

  /// for (i = begin; i < end; i += step) body(i), of type i64.
  void loop(mlir::Value begin, mlir::Value end, int64_t step, Body body) {
    auto made =
        mlir::scf::ForOp::create(builder, loc, toIndex(builder, loc, begin), toIndex(builder, loc, end), index(step));
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(made.getBody());
    body(toInteger(builder, loc, made.getInductionVar()));
  }
  void loop(int64_t end, int64_t step, Body body) { loop(integer64(0), integer64(end), step, body); }
  using Values = llvm::SmallVector<mlir::Value, 2>;
  /// The values after a loop that changes them: values = body(i, values).
  Values foldAll(int64_t end, int64_t step, mlir::ValueRange starts,
                 llvm::function_ref<Values(mlir::Value, mlir::ValueRange)> body) {
    auto made = mlir::scf::ForOp::create(builder, loc, index(0), index(end), index(step), starts);
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(made.getBody());
    Values next = body(toInteger(builder, loc, made.getInductionVar()), made.getRegionIterArgs());
    mlir::scf::YieldOp::create(builder, loc, next);
    return Values(made.getResults());
  }
  mlir::Value fold(int64_t end, int64_t step, mlir::Value start,
                   llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> body) {
    return foldAll(end, step, start,
                   [&](mlir::Value i, mlir::ValueRange values) { return Values{body(i, values.front())}; })
        .front();
  }
  void fillZero(mlir::Value address, mlir::Value numBytes) { // a multiple of 8
    loop(integer64(0), numBytes, 8, [&](mlir::Value offset) { store(integer64(0), at(address, offset)); });
  }

  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::Type pointer, i64, i32, f32;
  mlir::LLVM::LLVMFuncOp function;
};

} // namespace kolo::cpu
