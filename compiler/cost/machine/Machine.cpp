#include "compiler/cost/machine/Machine.h"

namespace kolo::cost {

size_t Machine::commonLevel(int64_t nodeA, int64_t nodeB) const {
  size_t level = 0;
  while (unitOf(level, nodeA) != unitOf(level, nodeB))
    ++level;
  return level;
}

std::optional<CostMistake> Machine::refuse(Protocol protocol) const {
  if (payloadShare(protocol) > 0)
    return std::nullopt;
  return CostMistake{"protocol ll128: " + machineName + " has none (payloadShare.ll128 of its file)"};
}

bool Machine::limitsMessages() const {
  return std::ranges::any_of(nodeResources, [](const Resource &resource) { return resource.secondsPerMessage > 0; });
}

double Machine::injection() const {
  double sum = 0;
  for (const Vertex &vertex : nodeVertices)
    if (vertex.kind == VertexKind::Nic)
      sum += classes[size_t(vertex.wireClass)].bandwidth.peak;
  return sum;
}

} // namespace kolo::cost
