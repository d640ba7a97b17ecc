#include "Choices.h"

#include "Blocks.h"

#include <algorithm>
#include <optional>
#include <string>

namespace kolo::torch_door {

using runtime::CallArguments;
using runtime::CollectiveKind;
using runtime::DataType;
using runtime::Door;
using runtime::Reduction;
using runtime::Status;

namespace {

constexpr const char *notPlain = "sparse or not on the host", *otherType = "type";
constexpr size_t maxChoices = 4096;

std::optional<Reduction> reductionOf(const c10d::ReduceOp &op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
  case c10d::ReduceOp::SUM:
    return Reduction::Sum;
  case c10d::ReduceOp::AVG:
    return Reduction::Average;
  case c10d::ReduceOp::PRODUCT:
    return Reduction::Product;
  case c10d::ReduceOp::MIN:
    return Reduction::Min;
  case c10d::ReduceOp::MAX:
    return Reduction::Max;
  default:
    return std::nullopt;
  }
}

} // namespace

std::runtime_error failure(const Status &status) {
  return std::runtime_error(std::string("kolo: ") + runtime::toString(status.code()) + ": " + status.message());
}

Door &door() {
  static runtime::Result<Door> opened = Door::open("torch");
  if (!opened.isOk())
    throw failure(opened.status());
  return *opened;
}

const at::Tensor &longestOf(const std::vector<at::Tensor> &tensors) {
  return *std::ranges::max_element(tensors, {}, &at::Tensor::numel);
}

bool haveEqualSizes(const std::vector<at::Tensor> &tensors) {
  auto isLike = [&](const at::Tensor &tensor) { return tensor.numel() == tensors.front().numel(); };
  return std::ranges::all_of(tensors, isLike);
}

const char *whyNotMoved(const at::Tensor &tensor) {
  if (!isPlain(tensor))
    return notPlain;
  return movedType(tensor.scalar_type()) ? nullptr : otherType;
}

size_t Choices::ShapeHash::operator()(const AgreedShape &shape) const {
  uint64_t hash = static_cast<uint64_t>(shape.count);
  for (auto part :
       {static_cast<uint64_t>(shape.kind), static_cast<uint64_t>(shape.type), static_cast<uint64_t>(shape.reduction),
        static_cast<uint64_t>(shape.root), static_cast<uint64_t>(shape.hasTables)})
    hash = (hash ^ part) * 0x100000001b3;
  return static_cast<size_t>(hash);
}

Choice Choices::choose(const AgreedShape &shape) const {
  CallArguments asked;
  const runtime::BlockTables anyTables;
  shape.enter(asked);
  asked.blocks = shape.hasTables ? &anyTables : nullptr;
  std::string why;
  Choice choice{door().find(communicator, asked, why), shape};
  if (!choice.plugin)
    choice.reason = noProgram;
  while (meshes[choice.mesh] != asked.mesh)
    ++choice.mesh;
  return choice;
}

Choice Choices::find(const AgreedShape &shape) {
  auto found = known.find(shape);
  if (found != known.end())
    return found->second;
  if (known.size() >= maxChoices)
    known.clear();
  Choice choice = choose(shape);
  known.emplace(shape, choice);
  return choice;
}

Choice Choices::findTabled(AgreedShape shape) {
  shape.hasTables = true;
  shape.count = 0;
  return find(shape);
}

Choice Choices::forBlocks(const Choice &longest, const std::vector<at::Tensor> &blocks) {
  if (!longest.hasShape() || haveEqualSizes(blocks))
    return longest;
  Choice tabled = findTabled(longest.shape);
  return tabled.plugin ? tabled : longest;
}

Choice Choices::ofMove(CollectiveKind collective, const at::Tensor &block, int root) {
  if (const char *reason = whyNotMoved(block))
    return {nullptr, {}, reason};
  std::optional<MovedType> type = movedType(block.scalar_type());
  return find({{collective, type->type, Reduction::Sum, block.numel() * type->perElement, root}});
}

Choice Choices::ofReduction(CollectiveKind collective, const at::Tensor &block, const c10d::ReduceOp &op, int root) {
  if (!isPlain(block))
    return {nullptr, {}, notPlain};
  std::optional<DataType> type = reducedType(block.scalar_type());
  if (!type)
    return {nullptr, {}, otherType};
  std::optional<Reduction> reduction = reductionOf(op);
  if (!reduction)
    return {nullptr, {}, "operation"};
  return find({{collective, *type, *reduction, block.numel(), root}});
}

Choice Choices::ofMove(CollectiveKind collective, const std::vector<at::Tensor> &blocks) {
  return forBlocks(ofMove(collective, longestOf(blocks)), blocks);
}

Choice Choices::ofReduction(CollectiveKind collective, const std::vector<at::Tensor> &blocks,
                            const c10d::ReduceOp &op) {
  return forBlocks(ofReduction(collective, longestOf(blocks), op), blocks);
}

} // namespace kolo::torch_door
