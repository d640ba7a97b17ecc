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

/// Equal numbers of elements of one or more plain tensors, in order. Used on the thread that runs the call.
class Blocks {
public:
  Blocks() = default;
  explicit Blocks(std::vector<at::Tensor> blocks);

  /// The memory of the tensors themselves if they are contiguous and adjacent, else of `scratch`, which grows if need
  /// be. Null if there is none. Call it before pack and unpack.
  void *place(Scratch &scratch);
  /// Copies the tensors to that memory, and back.
  void pack();
  void unpack();

private:
  bool areAdjacent() const;

  std::vector<at::Tensor> tensors;
  at::Tensor copy; // in scratch: one row per tensor; undefined if the tensors are used directly
};

} // namespace kolo::torch_door
