// A verdict as text: one line, the remarks that explain it, and JSON. Used by the pass CheckProgram and by `kolo
// check`.
#pragma once

#include "compiler/SourceLine.h"
#include "compiler/check/Verdict.h"

#include <nlohmann/json_fwd.hpp>

namespace kolo {

/// "node=2,gpu=4".
std::string describeMesh(ProgramOp program, llvm::ArrayRef<int64_t> sizes);

/// Why the program is not proved, in one line without the place: "MESSAGE (V2: no data race; mesh node=2,gpu=4, root 1,
/// in place)". The verdict must not be one of a proved program.
std::string describe(ProgramOp program, const Verdict &verdict);
/// The location of that line.
mlir::Location locationOf(ProgramOp program, const Verdict &verdict);

/// A note after that line, at another location: the other statement, or a numbered step of the interleaving.
struct Remark {
  mlir::Location loc;
  std::string text;
};
std::vector<Remark> explain(const Verdict &verdict);

enum class PropertyState { Proved, Refuted, NotDecided };
/// "not decided".
llvm::StringRef toString(PropertyState state);
PropertyState stateOf(const Verdict &verdict, Property property);
/// A remark on the proof of a property: why the transport keeps the order, or whether all ranks combine in the same
/// order. Empty for other properties.
std::string noteOn(ProgramOp program, const Verdict &verdict, Property property, const Transport &transport);

/// An object with the fields program, mesh, checkedOn, properties, refutation (null when there is none), tooLarge
/// (likewise) and synchronisation (null when the program cannot be run through). Calls count from 1, as in the text.
nlohmann::ordered_json toJson(ProgramOp program, const Verdict &verdict, const std::optional<SyncCounts> &counts,
                              const Transport &transport);

} // namespace kolo
