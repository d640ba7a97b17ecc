#include "base/OwnFolder.h"

#include <dlfcn.h>

#include <filesystem>

namespace kolo::runtime {

std::string ownFolder() {
  Dl_info info = {};
  if (!dladdr(reinterpret_cast<const void *>(&ownFolder), &info) || !info.dli_fname)
    return ".";
  std::error_code ignored;
  std::filesystem::path real = std::filesystem::canonical(info.dli_fname, ignored);
  return (ignored ? std::filesystem::path(info.dli_fname) : real).parent_path().string();
}

} // namespace kolo::runtime
