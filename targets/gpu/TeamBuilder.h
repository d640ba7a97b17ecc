// What the makers of functions for teams of threads share: small computations, loops and the team's memory. Private to
// this folder.
#pragma once

#include "ir/IndexArithmetic.h"
#include "targets/gpu/DeviceFunctions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <bit>

namespace kolo::gpu {

/// A team converts a granule at a time through its room: 1024 numbers in f32, and what blocks and codes need.
class TeamBuilder {
public:
  using Body = llvm::function_ref<void(mlir::Value)>;
  using Part = llvm::function_ref<void()>;

  TeamBuilder(mlir::OpBuilder &builder, mlir::Location loc, int64_t teamThreads)
      : builder(builder), loc(loc), teamThreads(teamThreads), pointer(pointerType(builder)),
        i8(builder.getIntegerType(8)), i32(builder.getI32Type()), i64(builder.getI64Type()), f32(builder.getF32Type()) {
  }

protected:
  mlir::Value integer(int64_t value) { return constantI64(builder, loc, value); }
  mlir::Value add(mlir::Value a, mlir::Value b) { return mlir::arith::AddIOp::create(builder, loc, a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return mlir::arith::SubIOp::create(builder, loc, a, b); }
  mlir::Value mul(mlir::Value a, int64_t factor) {
    return mlir::arith::MulIOp::create(builder, loc, a, integer(factor));
  }
  /// By a power of two, rounded down or up.
  mlir::Value over(mlir::Value a, int64_t divisor) {
    return mlir::arith::ShRUIOp::create(builder, loc, a, integer(std::countr_zero(uint64_t(divisor))));
  }
  mlir::Value overUp(mlir::Value a, int64_t divisor) { return over(add(a, integer(divisor - 1)), divisor); }
  mlir::Value bitsBelow(mlir::Value a, int64_t powerOfTwo) {
    return mlir::arith::AndIOp::create(builder, loc, a, integer(powerOfTwo - 1));
  }
  mlir::Value least(mlir::Value a, mlir::Value b) { return mlir::arith::MinSIOp::create(builder, loc, a, b); }
  mlir::Value isBelow(mlir::Value a, mlir::Value b) {
    return mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::slt, a, b);
  }
  mlir::Value isEqual(mlir::Value a, int64_t number) {
    return mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::eq, a, integer(number));
  }
  mlir::Value both(mlir::Value a, mlir::Value b) { return mlir::arith::AndIOp::create(builder, loc, a, b); }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return mlir::arith::SelectOp::create(builder, loc, condition, a, b);
  }
  mlir::Value truncate(mlir::Value value, mlir::Type type) {
    return mlir::arith::TruncIOp::create(builder, loc, type, value);
  }
  mlir::Value extend(mlir::Value value, mlir::Type type) {
    return mlir::arith::ExtUIOp::create(builder, loc, type, value);
  }
  mlir::VectorType vectorOf(int64_t size, mlir::Type element) { return mlir::VectorType::get({size}, element); }

  mlir::Value at(mlir::Value base, mlir::Value offsetBytes) { return advance(builder, loc, base, offsetBytes); }
  mlir::Value load(mlir::Type type, mlir::Value address, int64_t alignment) {
    return mlir::LLVM::LoadOp::create(builder, loc, type, address, unsigned(alignment));
  }
  void store(mlir::Value value, mlir::Value address, int64_t alignment) {
    mlir::LLVM::StoreOp::create(builder, loc, value, address, unsigned(alignment));
  }

  void ifThen(mlir::Value condition, Part then, Part otherwise = nullptr) {
    mlir::OpBuilder::InsertionGuard guard(builder);
    auto choice = mlir::scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/bool(otherwise));
    builder.setInsertionPointToStart(choice.thenBlock());
    then();
    if (!otherwise)
      return;
    builder.setInsertionPointToStart(choice.elseBlock());
    otherwise();
  }
  /// for (i = begin; i < end; i += step) body(i), of type i64.
  void loop(mlir::Value begin, mlir::Value end, mlir::Value step, Body body) {
    mlir::OpBuilder::InsertionGuard guard(builder);
    auto made = mlir::scf::ForOp::create(builder, loc, toIndex(builder, loc, begin), toIndex(builder, loc, end),
                                         toIndex(builder, loc, step));
    builder.setInsertionPointToStart(made.getBody());
    body(toInteger(builder, loc, made.getInductionVar()));
  }
  /// value = body(i, value) for i from 0 to end.
  mlir::Value fold(int64_t end, mlir::Value start, llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> body) {
    mlir::OpBuilder::InsertionGuard guard(builder);
    auto constant = [&](int64_t value) { return createConstant(builder, loc, value); };
    auto made = mlir::scf::ForOp::create(builder, loc, constant(0), constant(end), constant(1), start);
    builder.setInsertionPointToStart(made.getBody());
    mlir::Value next = body(toInteger(builder, loc, made.getInductionVar()), made.getRegionIterArgs().front());
    mlir::scf::YieldOp::create(builder, loc, next);
    return made.getResult(0);
  }

  /// The threads of the team share the numbers from `begin` to `end`.
  void share(mlir::Value begin, mlir::Value end, Body body) {
    loop(add(begin, member), end, integer(teamThreads), body);
  }
  void share(int64_t end, Body body) { share(integer(0), integer(end), body); }
  void meet() { call(builder, loc, meetFunction, {integer(teamThreads)}); }

  /// What is where in the room of a team. Blocks have 16 elements or more.
  static constexpr int64_t numbersBytes = codec::granule * 4, blocksBytes = codec::granule / 16 * 4;
  static constexpr int64_t largestOffset = numbersBytes, factorsOffset = largestOffset + blocksBytes,
                           codesOffset = factorsOffset + blocksBytes, codesBytes = codec::granule * 6 / 8;
  static_assert(codesOffset + codesBytes == teamRoomBytes);
  mlir::Value numbersAt(mlir::Value element) { return at(room, mul(element, 4)); }
  mlir::Value roomAt(int64_t offset) { return at(room, integer(offset)); }

  mlir::OpBuilder &builder;
  mlir::Location loc;
  int64_t teamThreads;
  mlir::Type pointer, i8, i32, i64, f32;
  mlir::Value member, room; // i64: number of this thread in its team; the team's memory
};

} // namespace kolo::gpu
