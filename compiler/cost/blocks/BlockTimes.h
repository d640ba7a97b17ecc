// What a schedule of MSCCL costs as RCCL's interpreter runs it. Every thread block is a lane of its own. Messages go
// through the slots of connections, and chunks in pieces. Used by `kolo simulate`. No MLIR.
#pragma once

#include "compiler/cost/Prediction.h"
#include "compiler/cost/machine/Placement.h"
#include "compiler/import/Schedule.h"

namespace kolo::cost {

/// Rates are those of kernels. A machine must say what a lane moves, and how long a signal takes between two lanes of a
/// device. The schedule, the machine and the placement must outlive this.
class BlockTimes {
public:
  /// Whether the machine knows what it takes.
  static bool knows(const Machine &machine);
  /// Refuses schedules of other interpreters, and protocols that the machine does not have.
  static std::optional<CostMistake> refuse(const foreign::ForeignSchedule &schedule, const Machine &machine);

  /// Has the schedule judged for calls of so many bytes at most: larger ones may need more messages than a connection
  /// holds.
  static void setLargestCall(foreign::ForeignSchedule &schedule, int64_t bytes);

  /// Not of one that is refused.
  BlockTimes(const foreign::ForeignSchedule &schedule, const Machine &machine, const Placement &placement)
      : schedule(schedule), machine(machine), placement(placement) {}

  /// `bytes`: as LowerBound counts. From some pieces of a chunk on, each further one takes as long as those before it:
  /// so many are simulated.
  std::variant<Prediction, CostMistake> predict(int64_t bytes) const;

private:
  const foreign::ForeignSchedule &schedule;
  const Machine &machine;
  const Placement &placement;
};

} // namespace kolo::cost
