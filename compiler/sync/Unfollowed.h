// Marks programs whose inference no check could follow. Used by whoever takes programs that are not proved at the end.
#pragma once

#include "ir/Kolo.h"

namespace kolo {

/// Too little synchronisation may have been inferred: the program is only as good as a proof that comes after it.
inline void markUnfollowed(ProgramOp program) {
  program->setAttr("unfollowed", mlir::UnitAttr::get(program.getContext()));
}
inline bool isUnfollowed(ProgramOp program) { return program->hasAttr("unfollowed"); }

} // namespace kolo
