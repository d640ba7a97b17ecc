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

/// What all ranks agree on in a call that Kolo may carry.
using Shape = runtime::CallShape;

/// A shape that Kolo carries, with the plugin that does; or why it does not.
struct Choice {
  const runtime::Plugin *plugin = nullptr;
  Shape shape;
  const char *reason = nullptr; // of static life time
  size_t mesh = 0;              // of Communicator::meshes
};

/// Reasons that all ranks see in a call that Kolo might have carried.
inline constexpr const char *noMemory = "no memory or descriptors for Kolo", *noProgram = "no program";

/// Null if Kolo can move the elements, else why not.
const char *whyNotMoved(const at::Tensor &tensor);

/// Those of one group. All ranks ask for the same shapes, so all find the same plugins.
class Choices {
public:
  explicit Choices(const runtime::Communicator &joined) : communicator(joined), meshes(joined.meshes()) {}

  Choice find(const Shape &shape);
  /// `block`: what one rank contributes.
  Choice ofMove(runtime::CollectiveKind collective, const at::Tensor &block, int root = 0);
  Choice ofReduction(runtime::CollectiveKind collective, const at::Tensor &block, const c10d::ReduceOp &op,
                     int root = 0);

private:
  struct ShapeHash {
    size_t operator()(const Shape &shape) const;
  };
  Choice choose(const Shape &shape) const;

  const runtime::Communicator &communicator;
  std::vector<runtime::Mesh> meshes;
  std::unordered_map<Shape, Choice, ShapeHash> known;
};

} // namespace kolo::torch_door
