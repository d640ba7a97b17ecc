// From a foreign file to a module in channel form, whose locations are lines of the file. Used by the tools.
#pragma once

#include "compiler/import/Schedule.h"
#include "compiler/import/Sequence.h"

#include "ir/Kolo.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace kolo::foreign {

/// One kolo.chan.program on the ranks of the file: a branch for each rank. Not proved yet.
mlir::OwningOpRef<mlir::ModuleOp> makeChannelForm(mlir::MLIRContext &context, const ForeignSchedule &schedule,
                                                  const Sequence &sequence);

/// The dialect's name of a collective.
CollectiveKind kindOf(Collective collective);

/// The name of the program: the schedule's, with what is no letter or digit replaced.
std::string programName(const ForeignSchedule &schedule);

} // namespace kolo::foreign
