// A recording as C++ in the language again: what `kolo explore --source` writes, and what people read of a candidate.
// Standard library only.
#pragma once

#include "dsl/Recording.h"

#include <string>

namespace kolo::dsl {

/// The definition, from KOLO_COLLECTIVE to its closing brace. Compiled and recorded again, the text gives the same IR
/// as the recording does, but for locations. The recording has no diagnostics; its definition's name is an identifier.
std::string printDefinition(const Recording &recording);

/// A file with this definition alone. `comment` opens it, each line behind "// ".
std::string printSource(const Recording &recording, const std::string &comment);

} // namespace kolo::dsl
