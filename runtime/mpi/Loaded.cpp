// What happens when the library is loaded: a program that runs another MPI ends at once. Handles of one MPI mean
// nothing to another, and differ in width.
#include "Handles.h"

#include <dlfcn.h>
#include <unistd.h>

#include <string>

namespace {

[[gnu::constructor]] void refuseAnotherMpi() {
  // The program's own library comes before the one that this library needs.
  auto getVersion =
      reinterpret_cast<decltype(&MPI_Get_library_version)>(dlsym(RTLD_DEFAULT, "MPI_Get_library_version"));
  char text[MPI_MAX_LIBRARY_VERSION_STRING * 4] = {};
  int length = 0;
  if (!getVersion || getVersion(text, &length) != MPI_SUCCESS)
    return;
  std::string version = text;
  if (version.starts_with("Open MPI") == KOLO_MPI_IS_OPENMPI)
    return;
  std::string line = "kolo mpi: " KOLO_MPI_LIBRARY " is for " KOLO_MPI_TITLE ", but this program runs " +
                     version.substr(0, version.find_first_of(",\n")) + ": preload the library for that MPI\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  _exit(1);
}

} // namespace
