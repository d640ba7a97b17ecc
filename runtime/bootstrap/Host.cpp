#include "bootstrap/Host.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace kolo::runtime {

HostId currentHost() {
  HostId id;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::copy_n(boot.data(), std::min(boot.size(), sizeof(id.boot) - 1), id.boot);
  struct stat info = {};
  if (stat("/proc/self/ns/pid", &info) == 0)
    id.pidNamespace = info.st_ino;
  return id;
}

} // namespace kolo::runtime
