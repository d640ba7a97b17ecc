// What a cost model says of one program, one machine and one size. The closed form and the simulation both give it.
#pragma once

#include "compiler/cost/bounds/Bounds.h"

namespace kolo::cost {

/// Of f32, which calls have where nobody says otherwise.
inline constexpr int64_t defaultElementBytes = 4;

/// Of one of the author's statements, all its executions together.
struct StatementCost {
  std::string file; // the author's
  unsigned line = 0;
  int64_t executions = 0;
  double seconds = 0;        // of which:
  double latencySeconds = 0; // waiting for messages, not for bandwidth
  double bytes = 0;          // over its most loaded resource, in all executions
  std::string bottleneck; // that resource: "quad link GCD 0 -> GCD 1", "NIC 0, out", "global network, out of a group"
};

/// What goes over a link, or through another resource, of the node that it is most loaded in; or out of a unit of the
/// network.
struct ResourceLoad {
  std::string resource; // "GCD 0 -> GCD 1", "memory of GCD 0", "out of a group"
  std::string from, to; // vertices of a link; else empty
  double bytes = 0;
  double share = 0; // of the program's time in which the resource is busy
};

struct Prediction {
  int64_t bytes = 0; // as LowerBound counts
  double seconds = 0;
  double latencySeconds = 0; // of these: waiting for messages
  std::string bottleneck;    // of the statement that takes most time
  std::vector<StatementCost> statements;
  std::vector<ResourceLoad> loads; // those that carry anything
  /// Payload, as it is encoded, from device to device of a node, without what stays on a device: of the first node in a
  /// simulation; in the closed form, the most that any node has.
  std::vector<std::vector<double>> traffic;
};

} // namespace kolo::cost
