#include "OtherMpi.h"

#include <link.h>

#include <string_view>
#include <vector>

namespace kolo::mpi {
namespace {

/// How the files of other MPI libraries begin.
const std::vector<std::string_view> &otherNames() {
#if KOLO_MPI_IS_OPENMPI
  static const std::vector<std::string_view> names = {"libmpich.so", "libmpi.so.12", "libmpi_cray.so", "libmpi_gnu",
                                                      "libmpi_abi.so"};
#elif KOLO_MPI_IS_ABI
  static const std::vector<std::string_view> names;
#else
  static const std::vector<std::string_view> names = {"libmpi.so.20", "libmpi.so.40", "libopen-pal.so",
                                                      "libmpi_abi.so"};
#endif
  return names;
}

int findAnother(dl_phdr_info *info, size_t, void *found) {
  std::string_view path = info->dlpi_name;
  std::string_view name = path.substr(path.rfind('/') + 1);
  for (std::string_view other : otherNames())
    if (name.starts_with(other))
      *static_cast<std::string *>(found) = path;
  return 0;
}

} // namespace

std::string findOtherMpi() {
  std::string another;
  dl_iterate_phdr(findAnother, &another);
  return another;
}

} // namespace kolo::mpi
