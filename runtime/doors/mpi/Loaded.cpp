// What happens when the library is loaded: a program that runs another MPI ends at once. Handles of one MPI mean
// nothing to another, and differ in width.
#include "OtherMpi.h"

#include <unistd.h>

#include <string>

namespace {

// A program's own libraries may come after those that this library needs, so it does not tell which MPI is called
// first.
[[gnu::constructor]] void refuseAnotherMpi() {
  std::string another = kolo::mpi::findOtherMpi();
  if (another.empty())
    return;
  std::string line = "kolo mpi: " KOLO_MPI_LIBRARY " is for " KOLO_MPI_TITLE ", but this program loads " + another +
                     ": preload the library for that MPI\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  _exit(1);
}

} // namespace
