// Reads of the plugin ABI's structs in generated code. The layout comes from the C header that the runtime is built
// with.
#pragma once

#include "kolo/runtime/PluginAbi.h"
#include "targets/Values.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

#include <cstddef>

namespace kolo::cpu {

/// Loads fields of a KoloInvocation, and calls through its services.
class InvocationAccess {
public:
  InvocationAccess(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value invocation)
      : builder(builder), loc(loc), invocation(invocation) {}

  mlir::Value loadInteger(size_t offsetBytes); // of 64 bits
  mlir::Value loadPointer(size_t offsetBytes);
  mlir::Value loadIndex(size_t offsetBytes); // as index

  mlir::Value localBuffer(int role) {
    return loadPointer(offsetof(KoloInvocation, local) + size_t(role) * sizeof(void *));
  }
  /// Where a peer's buffer is mapped, or null. Role and peer of type i64.
  mlir::Value peerBuffer(mlir::Value role, mlir::Value peer);

  /// An entry of a table of numbers, whose pointer lies at this offset; number and result of type index.
  mlir::Value loadTabled(size_t offsetBytes, mlir::Value number);
  /// The same of the table of a rank, of type index, where a pointer to a list of tables lies at this offset.
  mlir::Value loadTabled(size_t offsetBytes, mlir::Value rank, mlir::Value number);

  /// Calls a function of KoloServices, with the invocation as its first argument.
  mlir::LLVM::CallOp callService(size_t serviceOffset, mlir::Type result, mlir::ValueRange arguments);
  /// Calls a function pointer.
  mlir::LLVM::CallOp callPointer(mlir::Value function, mlir::Type result, mlir::ValueRange arguments);

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Value invocation;
};

mlir::Type pointerType(mlir::OpBuilder &builder);
mlir::Value constantI32(mlir::OpBuilder &builder, mlir::Location loc, int64_t value);

/// Entry of a list of pointers; number of type index.
mlir::Value loadEntry(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value list, mlir::Value number);
void storeEntry(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value list, mlir::Value number,
                mlir::Value pointer);

mlir::Value isNotZero(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value integer); // of 64 bits
/// Bytes from an address to the next multiple of a power of two, of type i64.
mlir::Value createMisalignment(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value address, int64_t multiple);
/// Whether all entries of a list are at the same distance from a multiple; `number` of type index, at least 1.
mlir::Value areAlignedAlike(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value list, mlir::Value number,
                            int64_t multiple);
/// Orders non-temporal stores before later stores, which the processor does not do by itself.
void createStoreFence(mlir::OpBuilder &builder, mlir::Location loc);

} // namespace kolo::cpu
