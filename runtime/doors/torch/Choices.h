// Choices: by which plugin Kolo carries each shape of a call, or why it does not.
#pragma once

#include "Base.h"
#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Door.h"

#include <ATen/core/Tensor.h>

#include <stdexcept>
#include <unordered_map>
#include <vector>

namespace kolo::torch_door {

/// The plugins and counts of this process, opened when the first group is made. Throws std::runtime_error.
runtime::Door &door();

/// The exception for what fails: std::runtime_error with Kolo's message.
std::runtime_error failure(const runtime::Status &status);

/// Reasons that all ranks see in a call that Kolo might have carried.
inline constexpr const char *noMemory = "no memory or descriptors for Kolo", *noProgram = "no program";

/// What all ranks agree on in a call that Kolo may carry.
struct AgreedShape : runtime::CallShape {
  bool hasTables = false; // of blocks, whose counts are no part of the shape; `count` is 0
  auto operator<=>(const AgreedShape &) const = default;
};

/// A shape that Kolo carries, with the plugin that does; or why it does not.
struct Choice {
  const runtime::Plugin *plugin = nullptr;
  AgreedShape shape;
  const char *reason = nullptr; // of static life time
  size_t mesh = 0;              // of Communicator::meshes

  /// Whether Kolo knows such calls, so that plugins may have programs for them.
  bool hasShape() const { return plugin || reason == noProgram; }
};

/// Of tensors that are at least one.
const at::Tensor &longestOf(const std::vector<at::Tensor> &tensors);
bool haveEqualSizes(const std::vector<at::Tensor> &tensors);

/// Null if Kolo can move the elements, else why not.
const char *whyNotMoved(const at::Tensor &tensor);

/// Those of one group. All ranks ask for the same shapes, so all find the same plugins.
class Choices {
public:
  explicit Choices(const runtime::Communicator &joined) : communicator(joined), meshes(joined.meshes()) {}

  Choice find(const AgreedShape &shape);
  /// Of blocks that differ in length: with block tables.
  Choice findTabled(AgreedShape shape);
  /// `block`: what one rank contributes.
  Choice ofMove(runtime::CollectiveKind collective, const at::Tensor &block, int root = 0);
  Choice ofReduction(runtime::CollectiveKind collective, const at::Tensor &block, const c10d::ReduceOp &op,
                     int root = 0);
  /// `blocks`: what all ranks contribute, or take, of one type.
  Choice ofMove(runtime::CollectiveKind collective, const std::vector<at::Tensor> &blocks);
  Choice ofReduction(runtime::CollectiveKind collective, const std::vector<at::Tensor> &blocks,
                     const c10d::ReduceOp &op);

private:
  struct ShapeHash {
    size_t operator()(const AgreedShape &shape) const;
  };
  Choice choose(const AgreedShape &shape) const;
  /// `longest`: for blocks that are all as long as the longest, which is what the ranks call if no program takes
  /// tables.
  Choice forBlocks(const Choice &longest, const std::vector<at::Tensor> &blocks);

  const runtime::Communicator &communicator;
  std::vector<runtime::Mesh> meshes;
  std::unordered_map<AgreedShape, Choice, ShapeHash> known;
};

} // namespace kolo::torch_door
