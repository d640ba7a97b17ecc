// OtherMpi: which libraries of other MPIs this process has loaded.
#pragma once

#include <string>

namespace kolo::mpi {

/// The path of one; empty: there is none, or this library is for the standard ABI, which other libraries implement.
std::string findOtherMpi();

} // namespace kolo::mpi
