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

Blocks::Blocks(std::vector<at::Tensor> blocks, int64_t row) : tensors(std::move(blocks)), rowElements(row) {}

int64_t Blocks::rowOf(const at::Tensor &tensor) const { return rowElements > 0 ? rowElements : tensor.numel(); }

void *Blocks::direct() const {
  void *first = nullptr;
  const char *next = nullptr;
  for (const at::Tensor &tensor : tensors) {
    if (tensor.numel() == 0 && rowOf(tensor) == 0)
      continue;
    if (!first)
      next = static_cast<char *>(first = tensor.data_ptr());
    if (!isOrdered(tensor) || tensor.numel() != rowOf(tensor) || tensor.data_ptr() != next)
      return nullptr;
    next += tensor.nbytes();
  }
  return first;
}

void *Blocks::place(Scratch &scratch) {
  int64_t numElements = 0;
  for (const at::Tensor &tensor : tensors)
    numElements += rowOf(tensor);
  void *memory = direct();
  if (memory || numElements == 0)
    return memory;
  const at::Tensor &first = tensors.front();
  int64_t numBytes = numElements * static_cast<int64_t>(first.element_size());
  if (!scratch.defined() || scratch.numel() < numBytes)
    scratch = at::empty({numBytes}, at::kByte);
  copy = at::from_blob(scratch.data_ptr(), {numElements}, first.options().requires_grad(false));
  return scratch.data_ptr();
}

template <class Move> void Blocks::forEachCopy(const Move &move) {
  if (!copy.defined())
    return;
  at::NoGradGuard isData;
  int64_t first = 0;
  for (const at::Tensor &tensor : tensors) {
    move(tensor, copy.narrow(0, first, tensor.numel()).view(tensor.sizes()));
    first += rowOf(tensor);
  }
}

void Blocks::pack() {
  forEachCopy([](const at::Tensor &tensor, const at::Tensor &part) { part.copy_(tensor); });
}

void Blocks::unpack() {
  forEachCopy([](const at::Tensor &tensor, const at::Tensor &part) { tensor.copy_(part); });
}

} // namespace kolo::torch_door
