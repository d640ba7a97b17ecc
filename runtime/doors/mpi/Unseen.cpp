// What happens when the process ends: a program that used MPI past the door learns that nothing was carried. Such a
// program asks a handle of dlopen for MPI's functions, so it never meets those of a preloaded library.
#include "OtherMpi.h"
#include "Process.h"

#include "kolo/runtime/Door.h"

#include <string>

namespace {

[[gnu::destructor]] void sayWhatWasNotSeen() {
  if (kolo::mpi::wasSeen())
    return;
  int isInitialized = 0;
  PMPI_Initialized(&isInitialized);
  std::string other = kolo::mpi::findOtherMpi();
  if (!isInitialized && other.empty())
    return;
  auto launched = kolo::runtime::readLaunchedRank();
  if (launched.isOk() && launched->rank != 0)
    return; // rank 0 says it
  kolo::mpi::print("nothing was carried: this program finds the functions of " + (other.empty() ? "MPI" : other) +
                   " by dlopen, past the preloaded " KOLO_MPI_LIBRARY);
}

} // namespace
