// LaunchedRanks: how many ranks a launcher has started on this host, as far as it says so.
#pragma once

#include <cstddef>

namespace kolo::runtime {

/// By the variables of torchrun, Open MPI and Hydra, this rank included; 0: none says so. Only to judge how busy the
/// host is: a variable that is no number of ranks counts as not set.
size_t launchedRanksHere();

} // namespace kolo::runtime
