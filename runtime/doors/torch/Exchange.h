// Exchange: the blocks of an all-to-all, and how Gloo moves them where Kolo does not.
#pragma once

#include "Base.h"
#include "StandIns.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kolo::torch_door {

/// In elements.
std::vector<int64_t> sizesOf(const std::vector<at::Tensor> &tensors);

struct Exchange {
  std::vector<at::Tensor> outputs, inputs;      // one for every rank, or one with the blocks of all ranks
  std::vector<int64_t> outputSizes, inputSizes; // in elements, by rank

  /// Lists of one tensor for every rank.
  Exchange(std::vector<at::Tensor> outputs, std::vector<at::Tensor> inputs);
  /// Tensors whose first dimension is cut as the splits say; without splits, into equal parts. Throws
  /// std::invalid_argument if they do not fit.
  Exchange(const at::Tensor &output, const std::vector<int64_t> &outputSplits, const at::Tensor &input,
           const std::vector<int64_t> &inputSplits, int numRanks);

  /// The size of every block, or -1 where this rank sees that they differ.
  int64_t evenSize() const;

  /// Starts Gloo's all-to-all of bytes: it has none of lists, and knows few types. All tensors are plain and of one
  /// type whose elements can be moved.
  WorkPointer start(Base &gloo, StandIns &standIns, const c10d::AllToAllOptions &options) const;
};

} // namespace kolo::torch_door
