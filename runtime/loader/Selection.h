// Selection: the table of a manifest that gives the program for a call that names only a collective.
#pragma once

#include "kolo/runtime/Plugin.h"
#include "loader/ManifestReader.h"

#include <functional>
#include <span>
#include <vector>

namespace kolo::runtime {

/// Reads the field 'selection' and reports errors to the reader. An entry is for a mesh, or for all meshes of a number
/// of ranks. It must name a program of its collective that runs over all ranks: of that mesh, of as many in one
/// dimension, or of any mesh of so many ranks. The entries of one collective, mesh and kind of memory must follow each
/// other by ascending `upToBytes`, and the last one has no end.
std::vector<SelectionEntry> readSelection(ManifestReader &reader, const json &root,
                                          std::span<const ProgramInfo> programs);

/// The entry for a call: one for its mesh, else one for its number of ranks. An entry that `takes` refuses leaves its
/// sizes to the next one. Null when no entry fits.
const SelectionEntry *select(std::span<const SelectionEntry> selection, CollectiveKind collective, const Mesh &mesh,
                             int64_t numBytes, MemoryKind memory,
                             const std::function<bool(const SelectionEntry &)> &takes = {});

/// The mesh on which a call on `mesh` runs the program of its entry.
Mesh meshFor(const SelectionEntry &entry, const ProgramInfo &program, const Mesh &mesh);

} // namespace kolo::runtime
