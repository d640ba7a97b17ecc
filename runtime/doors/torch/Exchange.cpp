#include "Exchange.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace kolo::torch_door {

namespace {

using Sizes = std::vector<int64_t>;

int64_t sumOf(const Sizes &sizes) { return std::accumulate(sizes.begin(), sizes.end(), int64_t(0)); }

[[noreturn]] void refuse(const std::string &why) { throw std::invalid_argument("kolo: all_to_all_single: " + why); }

/// In elements, by rank, of splits in rows.
Sizes sizesOf(const at::Tensor &tensor, const Sizes &splits, int numRanks, const std::string &which) {
  auto count = static_cast<size_t>(numRanks);
  int64_t numRows = tensor.dim() == 0 ? 0 : tensor.size(0);
  if (splits.empty() && (tensor.dim() == 0 || numRows % numRanks != 0))
    refuse("the first dimension of the " + which + " does not divide into " + std::to_string(numRanks) +
           " equal parts");
  if (splits.empty())
    return Sizes(count, tensor.numel() / numRanks);
  bool haveNegative = std::ranges::any_of(splits, [](int64_t split) { return split < 0; });
  if (splits.size() != count || haveNegative || sumOf(splits) != numRows)
    refuse("the " + std::to_string(splits.size()) + " split sizes of the " + which + " do not cut " +
           std::to_string(numRows) + " rows into " + std::to_string(numRanks) + " parts");
  Sizes sizes = splits;
  for (int64_t &size : sizes)
    size *= numRows == 0 ? 0 : tensor.numel() / numRows;
  return sizes;
}

/// The memory of a tensor whose elements are in order.
at::Tensor bytesOf(const at::Tensor &tensor) { return tensor.detach().reshape({-1}).view(at::kByte); }

Sizes inBytes(Sizes sizes, int64_t elementBytes) {
  for (int64_t &size : sizes)
    size *= elementBytes;
  return sizes;
}

at::Tensor joined(std::vector<at::Tensor> inputs, const StandIns &standIns) {
  standIns.forInput(inputs);
  for (at::Tensor &input : inputs)
    input = bytesOf(input);
  return inputs.size() == 1 ? inputs.front() : at::cat(inputs);
}

/// Memory for all blocks, of which each stands for its output.
at::Tensor placeFor(std::vector<at::Tensor> outputs, int64_t numBytes, StandIns &standIns) {
  if (outputs.size() == 1) {
    standIns.forOutput(outputs);
    return bytesOf(outputs.front());
  }
  at::Tensor all = at::empty({numBytes}, at::kByte);
  int64_t first = 0;
  for (const at::Tensor &output : outputs) {
    auto outputBytes = static_cast<int64_t>(output.nbytes());
    standIns.add(output, all.narrow(0, first, outputBytes).view(output.scalar_type()).view(output.sizes()));
    first += outputBytes;
  }
  return all;
}

} // namespace

Sizes sizesOf(const std::vector<at::Tensor> &tensors) {
  Sizes sizes;
  for (const at::Tensor &tensor : tensors)
    sizes.push_back(tensor.numel());
  return sizes;
}

Exchange::Exchange(std::vector<at::Tensor> written, std::vector<at::Tensor> read)
    : outputs(std::move(written)), inputs(std::move(read)), outputSizes(sizesOf(outputs)), inputSizes(sizesOf(inputs)) {
}

Exchange::Exchange(const at::Tensor &output, const Sizes &outputSplits, const at::Tensor &input,
                   const Sizes &inputSplits, int numRanks)
    : outputs{output}, inputs{input}, outputSizes(sizesOf(output, outputSplits, numRanks, "output")),
      inputSizes(sizesOf(input, inputSplits, numRanks, "input")) {}

int64_t Exchange::evenSize() const {
  int64_t size = inputSizes.front();
  auto isSize = [size](int64_t other) { return other == size; };
  return std::ranges::all_of(inputSizes, isSize) && std::ranges::all_of(outputSizes, isSize) ? size : -1;
}

WorkPointer Exchange::start(Base &gloo, StandIns &standIns, const c10d::AllToAllOptions &options) const {
  int64_t elementBytes = static_cast<int64_t>(inputs.front().element_size());
  Sizes receivedBytes = inBytes(outputSizes, elementBytes), sentBytes = inBytes(inputSizes, elementBytes);
  at::Tensor sent = joined(inputs, standIns), received = placeFor(outputs, sumOf(receivedBytes), standIns);
  return gloo.alltoall_base(received, sent, receivedBytes, sentBytes, options);
}

} // namespace kolo::torch_door
