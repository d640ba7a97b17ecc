// What happens when the library is loaded: a program that runs another MPI ends at once. Handles of one MPI mean
// nothing to another, and differ in width.
#include "Handles.h"

#include <link.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace {

/// How the files of other MPI libraries begin.
#if KOLO_MPI_IS_OPENMPI
constexpr std::string_view others[] = {"libmpich.so", "libmpi.so.12", "libmpi_cray.so", "libmpi_gnu", "libmpi_abi.so"};
#else
constexpr std::string_view others[] = {"libmpi.so.20", "libmpi.so.40", "libopen-pal.so", "libmpi_abi.so"};
#endif

int findAnother(dl_phdr_info *info, size_t, void *found) {
  std::string_view path = info->dlpi_name;
  std::string_view name = path.substr(path.rfind('/') + 1);
  for (std::string_view other : others)
    if (name.starts_with(other))
      *static_cast<std::string *>(found) = path;
  return 0;
}

// A program's own libraries may come after those that this library needs, so it does not tell which MPI is called
// first.
[[gnu::constructor]] void refuseAnotherMpi() {
  std::string another;
  dl_iterate_phdr(findAnother, &another);
  if (another.empty())
    return;
  std::string line = "kolo mpi: " KOLO_MPI_LIBRARY " is for " KOLO_MPI_TITLE ", but this program loads " + another +
                     ": preload the library for that MPI\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  _exit(1);
}

} // namespace
