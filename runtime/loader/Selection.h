// Selection: the table of a manifest that gives the program for a call that names only a collective.
#pragma once

#include "kolo/runtime/Plugin.h"
#include "loader/ManifestReader.h"

#include <span>
#include <vector>

namespace kolo::runtime {

/// Reads the field 'selection' and reports errors to the reader. An entry must name a program of its collective that
/// runs over all ranks of a mesh of that size. The entries of one collective, number of ranks and kind of memory must
/// follow each other by ascending `upToBytes`, and the last one has no end.
std::vector<SelectionEntry> readSelection(ManifestReader &reader, const json &root,
                                          std::span<const ProgramInfo> programs);

/// The entry for a call; null when no entry fits.
const SelectionEntry *select(std::span<const SelectionEntry> selection, CollectiveKind collective, int ranks,
                             int64_t numBytes, MemoryKind memory);

} // namespace kolo::runtime
