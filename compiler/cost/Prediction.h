// What a cost model says of one program, one machine and one size. The closed form and the simulation both give it.
#pragma once

#include "compiler/cost/Bounds.h"

namespace kolo::cost {

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

struct Prediction {
  int64_t bytes = 0; // as LowerBound counts
  double seconds = 0;
  std::string bottleneck; // of the statement that takes most time
  std::vector<StatementCost> statements;
};

} // namespace kolo::cost
