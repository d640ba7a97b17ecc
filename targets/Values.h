// Small computations of all generated code. Indices are what loops count with; integers have 64 bits. Shared by the
// targets.
#pragma once

#include "mlir/IR/Builders.h"

namespace kolo {

mlir::Value toIndex(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value integer);
mlir::Value toInteger(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value index);
mlir::Value constantI64(mlir::OpBuilder &builder, mlir::Location loc, int64_t value);
/// base + offset, in bytes; offset of type i64.
mlir::Value advance(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value base, mlir::Value offsetBytes);

} // namespace kolo
