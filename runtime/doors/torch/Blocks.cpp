#include "Blocks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

namespace kolo::torch_door {

using runtime::DataType;

std::optional<DataType> reducedType(at::ScalarType type) {
  switch (type) {
  case at::kHalf:
    return DataType::F16;
  case at::kBFloat16:
    return DataType::BF16;
  case at::kFloat:
    return DataType::F32;
  case at::kDouble:
    return DataType::F64;
  case at::kChar:
    return DataType::I8;
  case at::kByte:
    return DataType::U8;
  case at::kInt:
    return DataType::I32;
  case at::kLong:
    return DataType::I64;
  default:
    return std::nullopt;
  }
}

std::optional<MovedType> movedType(at::ScalarType type) {
  if (at::isQIntType(type))
    return std::nullopt;
  switch (c10::elementSize(type)) {
  case 1:
    return MovedType{DataType::U8, 1};
  case 2:
    return MovedType{DataType::F16, 1};
  case 4:
    return MovedType{DataType::U32, 1};
  case 8:
    return MovedType{DataType::U64, 1};
  case 16:
    return MovedType{DataType::U64, 2};
  default:
    return std::nullopt;
  }
}

bool isPlain(const at::Tensor &tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.device().is_cpu();
}

bool isOrdered(const at::Tensor &tensor) { return tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj(); }

Blocks::Blocks(std::vector<at::Tensor> blocks) : tensors(std::move(blocks)) {}

bool Blocks::areAdjacent() const {
  const auto *next = static_cast<const char *>(tensors.front().data_ptr());
  for (const at::Tensor &tensor : tensors) {
    if (!isOrdered(tensor) || tensor.data_ptr() != next)
      return false;
    next += tensor.nbytes();
  }
  return true;
}

void *Blocks::place(Scratch &scratch) {
  if (tensors.empty())
    return nullptr;
  if (areAdjacent())
    return tensors.front().data_ptr();
  const at::Tensor &first = tensors.front();
  auto numTensors = static_cast<int64_t>(tensors.size());
  int64_t numBytes = numTensors * static_cast<int64_t>(first.nbytes());
  if (!scratch.defined() || scratch.numel() < numBytes)
    scratch = at::empty({numBytes}, at::kByte);
  copy = at::from_blob(scratch.data_ptr(), {numTensors, first.numel()}, first.options().requires_grad(false));
  return scratch.data_ptr();
}

void Blocks::pack() {
  at::NoGradGuard isData;
  for (size_t index = 0; copy.defined() && index < tensors.size(); ++index)
    copy.select(0, static_cast<int64_t>(index)).view(tensors[index].sizes()).copy_(tensors[index]);
}

void Blocks::unpack() {
  at::NoGradGuard isData;
  for (size_t index = 0; copy.defined() && index < tensors.size(); ++index)
    tensors[index].copy_(copy.select(0, static_cast<int64_t>(index)).view(tensors[index].sizes()));
}

} // namespace kolo::torch_door
