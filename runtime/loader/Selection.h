// Selection: the table of a manifest that gives the program for a call that names only a collective.
#pragma once

#include "kolo/runtime/Plugin.h"
#include "loader/ManifestReader.h"

#include <span>
#include <vector>

namespace kolo::runtime {

/// Reads the field 'selection' and reports errors to the reader. An entry is for a mesh, or for all meshes of a number
/// of ranks. It must name a program of its collective that runs over all ranks: of that mesh, of as many in one
/// dimension, or of any mesh of so many ranks. The entries of one collective, mesh and kind of memory must follow each
/// other by ascending `upToBytes`, and the last one has no end.
std::vector<SelectionEntry> readSelection(ManifestReader &reader, const json &root,
                                          std::span<const ProgramInfo> programs);

/// Why a program with codecs is not for calls of this type and reduction: the end of a sentence about it. Empty:
/// nothing speaks against them.
std::string findCodecMistake(const ProgramInfo &info, DataType type, Reduction reduction);

/// As Plugin::select. An entry that is left out leaves its sizes to the next one.
const SelectionEntry *select(std::span<const SelectionEntry> selection, std::span<const ProgramInfo> programs,
                             const SelectionQuery &query);

/// The mesh on which a call on `mesh` runs the program of its entry.
Mesh meshFor(const SelectionEntry &entry, const ProgramInfo &program, const Mesh &mesh);

} // namespace kolo::runtime
