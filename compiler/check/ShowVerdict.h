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
/// What else to do about a mesh that is too large, at the end of that line.
inline constexpr llvm::StringLiteral representedHint = "; or --represented, by which a smaller mesh stands for it";
/// The location of that line.
mlir::Location locationOf(ProgramOp program, const Verdict &verdict);

/// A note after that line, at another location: the other statement, or a numbered step of the interleaving.
struct Remark {
  mlir::Location loc;
  std::string text;
};
std::vector<Remark> explain(const Verdict &verdict);

/// DoesNotHold: only of same bits, which are not asked of exact programs, and of one order of summation.
enum class PropertyState { Proved, Refuted, NotDecided, DoesNotHold };
/// "not decided".
llvm::StringRef toString(PropertyState state);
PropertyState stateOf(const Verdict &verdict, Property property);
/// A remark on a property that is not refuted: why the transport keeps the order, whether bits are the same in every
/// run and on all ranks. Empty for other properties.
std::string noteOn(ProgramOp program, const Verdict &verdict, Property property, const Transport &transport);
/// "node".
std::string nameOfDim(ProgramOp program, size_t dim);
/// "proved, from 2 on", or "not decided: " and why.
std::string describeAllSizes(const AllSizes &allSizes);
/// "exact", "2 encodings; |error| <= 15 u A, ...", or "not decided" if the program is not proved.
std::string describeLosses(const Verdict &verdict);
/// Which counts the proof holds for: "any, also of each block its own", or "equal ones: " and why, or "not decided".
std::string describeCounts(const Verdict &verdict);

/// What CheckProgram leaves on a program with codecs: for each proof a dictionary of `encodings`, `bound`, and what V11
/// and V9 say: `ranks` and `runs`. The bound is an array of dictionaries with the text of a `codec`, "none" for the
/// call's type, and its `factor`. See OutputLoss.
inline constexpr llvm::StringLiteral lossyAttrName = "lossy";
inline constexpr llvm::StringLiteral sumOrderAttrName = "sum_order";
/// What it leaves with the option `one-order`, for each proof: `text`, what V12 says, and `fingerprint`, in
/// hexadecimal.
mlir::DictionaryAttr orderAsAttribute(ProgramOp program, const Verdict &verdict);
/// The entry of `block_tables`.
mlir::Attribute tablesAsAttribute(ProgramOp program, const Verdict &verdict);
mlir::DictionaryAttr lossesAsAttribute(ProgramOp program, const Verdict &verdict);

/// An object with the fields program, mesh, checkedOn, properties, refutation (null when there is none), tooLarge
/// (likewise), slicesChecked (the few slices of a pipeline that stand for all; null when all were followed), lossy
/// (null when the program is not proved), blockTables (whether calls may have block tables, or null), order (the
/// fingerprint of V12, or null), allSizes (of each dimension its name, and from which size on the program is proved, or
/// null and why it is not decided) and synchronisation (null when the program cannot be run through). Calls count from
/// 1, as in the text.
nlohmann::ordered_json toJson(ProgramOp program, const Verdict &verdict, const std::optional<SyncCounts> &counts,
                              const Transport &transport);

} // namespace kolo
