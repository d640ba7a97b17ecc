// Cores: whether all ranks of a host can run at the same time.
#pragma once

#include <sched.h>

#include <span>

namespace kolo::runtime {

/// The processors that this thread may run on.
cpu_set_t currentAffinity();

/// Whether every lane of every rank can have its own core. `allowed`: by rank, the cores that its lanes may run on.
bool haveOwnCores(std::span<const cpu_set_t> allowed, int lanesPerRank);

} // namespace kolo::runtime
