// How the loops over elements carry one element, or a vector of elements, from its loads to its stores. Used by
// Reductions.cpp.
#pragma once

#include "targets/Elements.h"

namespace kolo::cpu {

/// For one type and reduction. Elements lie in memory, and are given to `load`, as `stored()`.
class Carried {
public:
  Carried(mlir::OpBuilder &builder, mlir::Location loc, KoloType type, KoloReduction reduction)
      : builder(builder), loc(loc), type(type), reduction(reduction) {}

  /// Bits of f16 and bf16, since LLVM takes long over loops that carry these, or gives up.
  mlir::Type stored() { return isNarrow() ? mlir::Type(builder.getI16Type()) : storedType(builder, type); }
  int64_t sizeBytes() { return stored().getIntOrFloatBitWidth() / 8; }
  /// Elements of the widest vector that is computed with: of f32 for sums of f16 and bf16.
  int64_t vectorElements(int64_t vectorBytes) { return vectorBytes / (isWidened() ? 4 : sizeBytes()); }

  mlir::Value load(mlir::Value value) { return isOrdered() ? ordered(value) : value; }
  mlir::Value combine(mlir::Value left, mlir::Value right);
  /// As it is stored; of a combination if `isCombined` says so, else of a single element, whose bits stay as they are.
  mlir::Value finish(mlir::Value value, mlir::Value isCombined);
  /// The same of a sum that is divided; one that is not combined gets its type's one NaN, too.
  mlir::Value finishAverage(mlir::Value sum, mlir::Value isCombined, const Divisor &divisor);

private:
  bool isNarrow() const { return type == KOLO_F16 || type == KOLO_BF16; }
  bool isOrdered() const { return isNarrow() && (reduction == KOLO_MIN || reduction == KOLO_MAX); }
  bool isWidened() const { return isNarrow() && !isOrdered(); }
  mlir::Value as(mlir::Type element, mlir::Value value);
  mlir::Type number() { return storedType(builder, type); }
  mlir::Value chosen(mlir::Value condition, llvm::function_ref<mlir::Value()> then,
                     llvm::function_ref<mlir::Value()> otherwise);
  mlir::Value constant(mlir::Value like, int64_t number);
  mlir::Value widened(mlir::Value bits);
  mlir::Value narrowed(mlir::Value number);
  mlir::Value ordered(mlir::Value bits);
  mlir::Value unordered(mlir::Value place);
  mlir::Value withOtherMagnitude(mlir::Value bits);
  int64_t offsetOfOrder() const;

  mlir::OpBuilder &builder;
  mlir::Location loc;
  KoloType type;
  KoloReduction reduction;
};

} // namespace kolo::cpu
