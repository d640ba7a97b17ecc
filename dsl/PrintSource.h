// A recording as C++ in the language again: what `kolo explore --source` writes, and what people read of a candidate.
// Standard library only.
#pragma once

#include "dsl/Recording.h"

#include <string>
#include <vector>

namespace kolo::dsl {

/// The definition, from KOLO_COLLECTIVE to its closing brace. Compiled and recorded again, the text gives the same IR
/// as the recording does, but for locations. The recording has no diagnostics; its definition's name is an identifier.
std::string printDefinition(const Recording &recording);

/// A file with one definition.
struct PrintedSource {
  std::string text;
  std::vector<unsigned> lines; // on which each statement of the recording stands, by its number; from 1
};

/// `comment` opens the file, each line of it behind "// ".
PrintedSource printSource(const Recording &recording, const std::string &comment);

} // namespace kolo::dsl
