// Whether a program gives all ranks the same bits. Used where programs are chosen for callers, who expect it.
#pragma once

#include "ir/Kolo.h"

namespace kolo::tools {

/// By the checker's verdict V11 on a mesh of the program. True also where it does not decide. False for collectives
/// that do not give all ranks the same result.
bool mayDifferInLastBits(ProgramOp program, llvm::ArrayRef<int64_t> mesh);

/// Says so of a candidate that is left out.
inline constexpr const char *differsInLastBits = "its ranks may get different last bits";

} // namespace kolo::tools
