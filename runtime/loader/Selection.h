// Selection: which program a plugin takes for a collective, as its manifest says. Used by the loader and by calls.
#pragma once

#include "kolo/runtime/Plugin.h"
#include "loader/ManifestReader.h"

#include <span>
#include <vector>

namespace kolo::runtime {

/// Reads the field 'selection', and tells the reader what is wrong: an entry must name a program of its collective,
/// over all ranks of a mesh of so many; the entries of one collective, number of ranks and kind of memory must follow
/// each other, ascending, the last one without an end.
std::vector<SelectionEntry> readSelection(ManifestReader &reader, const json &root,
                                          std::span<const ProgramInfo> programs);

/// The entry for a call; null when there is none.
const SelectionEntry *select(std::span<const SelectionEntry> selection, CollectiveKind collective, int ranks,
                             int64_t numBytes, MemoryKind memory);

} // namespace kolo::runtime
