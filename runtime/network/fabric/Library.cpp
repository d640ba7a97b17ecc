#include "network/fabric/Library.h"

#include "base/Error.h"
#include "base/Variable.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace kolo::runtime::fabric {
namespace {

template <class Function> bool find(void *handle, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

Result<Library> load(const std::string &path) {
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return error(StatusCode::SystemError, "cannot open libfabric: {}", reason ? reason : path);
  }
  Library library;
  library.path = path;
  bool isComplete = find(handle, "fi_getinfo", library.getInfo) && find(handle, "fi_freeinfo", library.freeInfo) &&
                    find(handle, "fi_dupinfo", library.copyInfo) && find(handle, "fi_fabric", library.openFabric) &&
                    find(handle, "fi_strerror", library.errorText) && find(handle, "fi_version", library.version);
  if (!isComplete) {
    dlclose(handle);
    return error(StatusCode::SystemError, "{} is no libfabric", path);
  }
  if (uint32_t version = library.version(); version < apiVersion) {
    dlclose(handle);
    return error(StatusCode::SystemError, "{} is libfabric {}.{}, but {}.{} is the oldest that Kolo uses", path,
                 FI_MAJOR(version), FI_MINOR(version), FI_MAJOR(apiVersion), FI_MINOR(apiVersion));
  }
  return library;
}

} // namespace

Result<const Library *> Library::open() {
  static std::mutex mutex;
  static std::map<std::string, Library> opened;
  const char *named = variable("KOLO_LIBFABRIC");
  std::string path = named ? named : "libfabric.so.1";
  std::scoped_lock lock(mutex);
  if (auto found = opened.find(path); found != opened.end())
    return &found->second;
  Result<Library> loaded = load(path);
  if (!loaded.isOk())
    return loaded.status();
  return &opened.emplace(path, std::move(loaded).value()).first->second;
}

} // namespace kolo::runtime::fabric
