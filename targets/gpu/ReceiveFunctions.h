// What functions that receive packets have in common, whatever the format. Private to the device targets.
#pragma once

#include "ir/IndexArithmetic.h"
#include "targets/gpu/DeviceFunctions.h"
#include "targets/gpu/Timeouts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kolo::gpu {

class ReceiveFunctions {
protected:
  ReceiveFunctions(mlir::ModuleOp module, const PacketFunctionNames &names)
      : names(names), module(module), builder(module.getContext()), loc(module.getLoc()), pointer(pointerType(builder)),
        i64(builder.getI64Type()), i32(builder.getI32Type()) {}

  /// Computes what is to be stored, of a vector or of one element, from what has arrived and where it belongs.
  using Combine = llvm::function_ref<mlir::Value(mlir::Value arrived, mlir::Value place, int64_t alignment)>;
  /// Builds the receiving of so many elements, of type index, of a type in memory; gives this thread's status.
  using Receive = llvm::function_ref<mlir::Value(mlir::Value destination, mlir::Value packets, mlir::Value numElements,
                                                 mlir::Type stored, Combine combine)>;
  void defineReceive(Receive receive);
  void defineReceiveReduce(const DeviceOptions &options, Receive receive);

  /// One look at packets: what is in them, and whether, i1, all are of this call.
  struct Attempt {
    llvm::SmallVector<mlir::Value> data;
    mlir::Value areThere;
  };
  struct Polled {
    llvm::SmallVector<mlir::Value> data;
    mlir::Value status;
  };
  /// Looks again and again, until all are there, or, after so many turns, i64, there is a reason to give up. There may
  /// have been one before.
  Polled poll(mlir::TypeRange types, mlir::Value status, llvm::function_ref<Attempt()> read,
              llvm::function_ref<Patience(mlir::Value turn, mlir::Value since)> giveUp);

  mlir::Value isAligned(mlir::Value address, int64_t bytes);
  /// The bytes [begin, end) of the source, as the lowest of an integer, which holds them.
  mlir::Value bytesOf(mlir::Type integer, mlir::Value source, mlir::Value begin, mlir::Value end);
  /// The element at a byte of an integer.
  mlir::Value elementAt(mlir::Value integer, mlir::Value byte, mlir::Type stored);

  mlir::Value at(mlir::Value base, mlir::Value offset) {
    return advance(builder, loc, base, toInteger(builder, loc, offset));
  }
  mlir::Value constant(int64_t value) { return createConstant(builder, loc, value); }
  mlir::Value add(mlir::Value a, mlir::Value b) { return createAdd(builder, loc, a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return createMul(builder, loc, a, b); }
  mlir::Value div(mlir::Value a, int64_t b) { return mlir::arith::DivUIOp::create(builder, loc, a, constant(b)); }
  mlir::Value min(mlir::Value a, mlir::Value b) { return mlir::arith::MinSIOp::create(builder, loc, a, b); }
  mlir::Value max(mlir::Value a, mlir::Value b) { return mlir::arith::MaxSIOp::create(builder, loc, a, b); }
  mlir::Value code(KoloDeviceFailureCode value) { return mlir::arith::ConstantIntOp::create(builder, loc, value, 32); }
  mlir::Value boolean(bool value) { return mlir::arith::ConstantIntOp::create(builder, loc, value, 1); }
  /// Of a packet, in the upper half of its word.
  mlir::Value sequenceIn(mlir::Value word);
  mlir::Value wordOf(mlir::Value sequence);

  const PacketFunctionNames &names;
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::Type pointer, i64, i32;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Value invocation, sequence, statement; // of the function at hand

  /// All threads of the block learn whether one has given up: 0 or 1, i32.
  mlir::Value shareStatus(mlir::Value status);
  void defineUniform(llvm::StringRef name, llvm::StringRef blocked);
  void giveBack(mlir::Value status) {
    mlir::LLVM::ReturnOp::create(builder, loc, mlir::arith::ExtUIOp::create(builder, loc, i64, status));
  }
  mlir::Value narrow(mlir::Value status) { return mlir::arith::TruncIOp::create(builder, loc, i32, status); }
  /// Of the call's type and reduction. Gives what `build` gives, i32.
  mlir::Value chooseReduction(const DeviceOptions &options, mlir::Value type, mlir::Value reduction,
                              llvm::function_ref<mlir::Value(KoloType, KoloReduction)> build);

  /// Of the block's list: packets of one peer.
  struct Entry {
    mlir::Value packets, memory, size; // the size of type index
  };
  static constexpr int64_t peersInFlight = 4;
  mlir::Value list, numEntries, isOdd; // of the function at hand: the number of type index, i1
  /// Begins a function for all entries, whose arguments from `first` on are (list, numEntries, isOdd).
  void startOfAll(mlir::LLVM::LLVMFuncOp made, unsigned first);
  /// Of one that receives: (invocation, sequence, statement, list, numEntries, isOdd, ...)
  void startReceivingAll(llvm::StringRef name, bool isReduce);
  Entry entryAt(mlir::Value index);
  llvm::SmallVector<Entry> batchFrom(mlir::Value first);
  llvm::SmallVector<mlir::Value>
  forEachBatch(mlir::ValueRange state,
               llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value first, mlir::ValueRange state)> build);
  mlir::Value forEachUnlessFailed(mlir::Value status, llvm::function_ref<mlir::Value(const Entry &entry)> build);

private:
  void finishReceive(mlir::Value status);
};

} // namespace kolo::gpu
