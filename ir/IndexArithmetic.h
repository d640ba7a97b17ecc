// Small index computations that more than one folder builds.
#pragma once

#include "mlir/IR/Builders.h"

namespace kolo {

mlir::Value createConstant(mlir::OpBuilder &builder, mlir::Location loc, int64_t value);
mlir::Value createAdd(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value a, mlir::Value b);
mlir::Value createSub(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value a, mlir::Value b);
mlir::Value createMul(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value a, mlir::Value b);
/// The remainder that is not negative, for a positive divisor.
mlir::Value createModulo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::Value divisor);
/// To a multiple of a power of two, of a value that is not negative.
mlir::Value createRoundDown(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::Value powerOfTwo);
/// Of two conditions, either of which may be null and then holds.
mlir::Value createAnd(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value a, mlir::Value b);
/// Row-major number of the coordinates in a grid of these sizes.
mlir::Value createLinear(mlir::OpBuilder &builder, mlir::Location loc, mlir::ValueRange coordinates,
                         mlir::ValueRange sizes);
/// Whether what is computed of `values` depends on `value`.
bool dependsOn(mlir::ValueRange values, mlir::Value value);

} // namespace kolo
