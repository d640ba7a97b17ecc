// The folder that the runtime lies in, beside the libraries that it opens when they are asked for.
#pragma once

#include <string>

namespace kolo::runtime {

/// Without links; "." where the system does not know. Of the program, where the runtime is linked into it.
std::string ownFolder();

} // namespace kolo::runtime
