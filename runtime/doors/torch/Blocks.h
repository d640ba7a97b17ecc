// Blocks: tensors of one collective as the contiguous memory that Kolo reads and writes.
#pragma once

#include "Base.h"
#include "kolo/runtime/Types.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace kolo::torch_door {

/// The type that Kolo reduces such tensors in; nothing for those that it does not reduce: bool, complex, quantized.
std::optional<runtime::DataType> reducedType(at::ScalarType type);
/// A type with elements of the same size, to move them; and how many of them an element takes. Nothing where the
/// memory is not all of the tensor: quantized ones.
struct MovedType {
  runtime::DataType type;
  int64_t perElement;
};
std::optional<MovedType> movedType(at::ScalarType type);

/// Whether Kolo can reach the elements: a dense tensor in the memory of the host.
bool isPlain(const at::Tensor &tensor);
/// Whether the memory of a plain tensor holds its elements in order: no strides, no conjugation or negation to come.
bool isOrdered(const at::Tensor &tensor);

/// Memory that calls of one group use in turn.
using Scratch = at::Tensor;

/// Plain tensors of one type, in order. Used on the thread that runs the call.
class Blocks {
public:
  Blocks() = default;
  /// `rowElements`: from the beginning of one tensor to that of the next, at least as many as the longest tensor has.
  /// 0: the tensors follow each other.
  explicit Blocks(std::vector<at::Tensor> blocks, int64_t rowElements = 0);

  /// The memory of the tensors themselves if they are contiguous and adjacent, else of `scratch`, which grows if need
  /// be. Null if there is none. Call it before pack and unpack.
  void *place(Scratch &scratch);
  /// Copies the tensors to that memory, and back.
  void pack();
  void unpack();

private:
  int64_t rowOf(const at::Tensor &tensor) const;
  /// The memory of the tensors if they lie there as the call needs them, else null.
  void *direct() const;
  /// Calls `move` with each tensor and its part of the copy, if there is one.
  template <class Move> void forEachCopy(const Move &move);

  std::vector<at::Tensor> tensors;
  int64_t rowElements = 0;
  at::Tensor copy; // in scratch; undefined if the tensors are used directly
};

} // namespace kolo::torch_door
