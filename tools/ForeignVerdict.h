// What `kolo check --json` says of a schedule of another library that is wrong as its interpreter runs it.
#pragma once

#include "tools/compile/ForeignFile.h"

#include <nlohmann/json_fwd.hpp>

namespace kolo::tools {

/// An object with the fields of a refuted program: see ShowVerdict.h. The transport is the interpreter, "RCCL". A
/// property that a schedule breaks besides the worst one has its finding as its note.
nlohmann::ordered_json toJson(const ForeignRefutation &refutation);

} // namespace kolo::tools
