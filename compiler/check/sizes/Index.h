// The index arithmetic of a channel program on all ranks and for all sizes of one mesh dimension at once. Used by the
// proof for all sizes.
#pragma once

#include "compiler/check/sizes/Affine.h"

#include "ir/Kolo.h"

#include "llvm/ADT/DenseMap.h"

namespace kolo::sizes {

/// scale * ((part + coordinate) mod n) + rest, the coordinate being this rank's along the dimension that grows.
struct Index {
  enum class Kind : uint8_t {
    Known,
    Remainder, // known as a remainder of n that has the sign of the number before: part + coordinate, or that - n
    Unknown
  };
  Kind kind = Kind::Known;
  int64_t scale = 0; // 0: does not depend on the coordinate
  Affine part, rest;

  Index() = default;
  Index(Affine number) : rest(number) {}
  static Index unknown() {
    Index index;
    index.kind = Kind::Unknown;
    return index;
  }
  bool isKnown() const { return kind == Kind::Known; }
  bool isSame() const { return isKnown() && scale == 0; } // on all ranks of the orbit
  std::optional<int64_t> asConstant() const {
    return isSame() && rest.isConstant() ? std::optional(rest.constant) : std::nullopt;
  }
};

/// Of the ranks with one combination of coordinates along the other dimensions.
class IndexTable {
public:
  IndexTable(llvm::ArrayRef<int64_t> mesh, size_t dim, llvm::ArrayRef<int64_t> coordinates, Decisions &decisions)
      : mesh(mesh), dim(dim), coordinates(coordinates), decisions(decisions) {}
  void set(mlir::Value value, const Index &index) { numbers[value] = index; }
  Index at(mlir::Value value) const {
    auto found = numbers.find(value);
    return found == numbers.end() ? Index::unknown() : found->second;
  }
  /// Computes the one result of an op that has no effects.
  void compute(mlir::Operation *op);

private:
  Index evaluate(mlir::Operation *op);
  Index sum(const Index &a, const Index &b, int64_t sign) const;
  Index product(const Index &a, const Index &b) const;
  Index remainder(const Index &a, const Index &b);
  Index compare(mlir::Operation *op);
  Index select(mlir::Operation *op);

  llvm::ArrayRef<int64_t> mesh;
  size_t dim;
  llvm::ArrayRef<int64_t> coordinates;
  Decisions &decisions;
  llvm::DenseMap<mlir::Value, Index> numbers;
};

} // namespace kolo::sizes
