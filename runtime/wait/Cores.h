// Cores: whether all ranks of a host can run at the same time.
#pragma once

#include <sched.h>

#include <cstddef>
#include <span>
#include <vector>

namespace kolo::runtime {

/// The processors that this thread may run on.
cpu_set_t currentAffinity();

/// The cores of so many ranks of a job on this host, of which a communicator has some. Where all of these may run on
/// the same cores, nothing binds ranks, and the others are taken to run there too. Else each is bound to cores of its
/// own, and the others are on cores that do not matter.
std::vector<cpu_set_t> coresOfJob(std::span<const cpu_set_t> ofCommunicator, size_t numRanks);

/// Whether every lane of every rank can have its own core. `allowed`: by rank, the cores that its lanes may run on.
bool haveOwnCores(std::span<const cpu_set_t> allowed, int lanesPerRank);

} // namespace kolo::runtime
