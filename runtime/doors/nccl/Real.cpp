#include "Real.h"

#include "Process.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

extern "C" const char koloNcclDoor[];

namespace kolo::nccl {
namespace {

thread_local int depth = 0;

constexpr const char *soname = "libnccl.so.2";
constexpr const char *variable = "KOLO_NCCL_LIB";
// What no NCCL library lacks, and no other library has.
constexpr const char *required[] = {"ncclGetVersion", "ncclCommInitRank", "ncclGroupStart", "ncclAllReduce"};

bool isSameFile(const std::string &left, const std::string &right) {
  struct stat one = {}, other = {};
  return stat(left.c_str(), &one) == 0 && stat(right.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

/// The folders of the linker's search: LD_LIBRARY_PATH, those noted in this library, those of the system.
std::vector<std::string> searchedFolders() {
  std::vector<std::string> folders;
  void *self = dlopen(ownPath().c_str(), RTLD_LAZY | RTLD_NOLOAD);
  Dl_serinfo size = {};
  if (!self || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0)
    return folders;
  std::vector<char> memory(size.dls_size);
  auto *info = reinterpret_cast<Dl_serinfo *>(memory.data());
  std::memcpy(info, &size, sizeof(size));
  if (dlinfo(self, RTLD_DI_SERINFO, info) == 0)
    for (unsigned number = 0; number < info->dls_cnt; ++number)
      folders.emplace_back(info->dls_serpath[number].dls_name);
  dlclose(self);
  return folders;
}

/// The paths in the linker's cache that end in the name: its strings end with a zero.
std::vector<std::string> cachedPaths() {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  std::string cache{std::istreambuf_iterator<char>(file), {}};
  std::string wanted = std::string("/") + soname + '\0';
  std::vector<std::string> paths;
  for (size_t end = cache.find(wanted); end != std::string::npos; end = cache.find(wanted, end + 1)) {
    size_t start = cache.rfind('\0', end) + 1;
    paths.push_back(cache.substr(start, end + wanted.size() - 1 - start));
  }
  return paths;
}

/// Where this library has the name of the real one, the linker would find this library again.
std::string findAnother() {
  std::vector<std::string> paths;
  for (const std::string &folder : searchedFolders())
    paths.push_back(folder + "/" + soname);
  for (std::string &path : cachedPaths())
    paths.push_back(std::move(path));
  for (const std::string &path : paths) {
    struct stat info = {};
    if (stat(path.c_str(), &info) == 0 && !isSameFile(path, ownPath()))
      return path;
  }
  return "";
}

struct Found {
  void *handle = nullptr; // RTLD_NEXT too
  std::string path, way, failure;
};

Found open(const std::string &path, const std::string &way) {
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle)
    return {handle, path, way, ""};
  const char *reason = dlerror();
  return {nullptr, path, way, way + ": the NCCL library cannot be loaded: " + (reason ? reason : path)};
}

std::string pathOf(const void *function) {
  Dl_info info = {};
  return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "";
}

/// RCCL as another library has loaded it, maybe for itself alone, as PyTorch's do. Null: it is not loaded.
void *openLoadedRccl() {
  if (void *handle = dlopen("librccl.so.1", RTLD_LAZY | RTLD_NOLOAD))
    return handle;
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *found) {
        std::string_view name = info->dlpi_name ? info->dlpi_name : "";
        if (!name.substr(name.rfind('/') + 1).starts_with("librccl.so"))
          return 0;
        *static_cast<std::string *>(found) = name;
        return 1;
      },
      &path);
  return path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
}

Found find() {
  if (const char *path = secure_getenv(variable); path && *path)
    return open(path, variable);
  if (void *next = dlsym(RTLD_NEXT, required[0]))
    return {RTLD_NEXT, pathOf(next), "the next library", ""};
  if (void *handle = openLoadedRccl())
    return {handle, pathOf(dlsym(handle, required[0])), "the RCCL that is loaded", ""};
  if (void *handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL)) {
    std::string path = pathOf(dlsym(handle, required[0]));
    if (!isSameFile(path, ownPath()))
      return {handle, path, "the linker's search", ""};
  }
  std::string path = findAnother();
  if (!path.empty())
    return open(path, "the linker's search");
  return {nullptr, "", "", std::string("there is no ") + soname + " besides Kolo's: set " + variable + " to its path"};
}

/// "" when calls can be forwarded to it.
std::string refuse(const Found &found, Real &real) {
  auto failure = [&](const std::string &why) { return found.way + ": " + found.path + " " + why; };
  if (dlsym(found.handle, "koloNcclDoor"))
    return failure(std::string("is a library of Kolo: set ") + variable + " to that of NCCL");
  for (const char *name : required)
    if (!dlsym(found.handle, name))
      return failure(std::string("is no NCCL library: it has no ") + name);
#define KOLO_NCCL_FORWARDED(since, result, name, parameters, arguments)                                                \
  real.functions.name = reinterpret_cast<result(*) parameters>(dlsym(found.handle, "nccl" #name));
#include "Api.def"
  auto findOlder = [&]<class Function>(Function &function, const char *name) {
    if (!function)
      function = reinterpret_cast<Function>(dlsym(found.handle, name));
  };
  findOlder(real.functions.AlltoAll, "ncclAllToAll"); // RCCL's older names
  findOlder(real.functions.AlltoAllv, "ncclAllToAllv");
  Inside inside;
  Code code = real.functions.GetVersion(&real.version);
  if (code != Code::Success || real.version < 2000 || real.version >= 30000)
    return failure("is no NCCL library of version 2: ncclGetVersion says " + std::to_string(real.version));
  // MSCCL is also part of libraries for CUDA, which need no HIP.
  if (dlsym(found.handle, "mscclLoadAlgo") && dlsym(found.handle, "hipGetDevice"))
    real.kind = runtime::DeviceKind::Hip;
  return "";
}

Real look() {
  if (std::unique_ptr<Real> table = takeTable()) {
    sayLoaded(*table);
    return std::move(*table);
  }
  Real made;
  Found found = find();
  made.path = found.path;
  made.way = found.way;
  made.failure = found.failure.empty() ? refuse(found, made) : found.failure;
  if (!made.failure.empty())
    made.functions = {};
  sayLoaded(made);
  return made;
}

} // namespace

const Real &real() {
  static const auto *only = new Real(look()); // not destroyed: programs call NCCL from destructors
  return *only;
}

std::string Real::title() const {
  return (kind == runtime::DeviceKind::Hip ? "RCCL " : "NCCL ") + versionText(version);
}

std::string versionText(int version) {
  int major = version >= 10000 ? version / 10000 : version / 1000;
  int minor = version >= 10000 ? version / 100 % 100 : version / 100 % 10;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(version % 100);
}

std::string ownPath() {
  Dl_info info = {};
  return dladdr(&koloNcclDoor, &info) && info.dli_fname ? info.dli_fname : "";
}

bool isInside() { return depth != 0; }
Inside::Inside() { ++depth; }
Inside::~Inside() { --depth; }

} // namespace kolo::nccl
