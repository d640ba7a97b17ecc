#include "tools/preload/Libraries.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>

extern char **environ;

namespace kolo::tools {

namespace fs = std::filesystem;

const std::vector<MpiAbi> &mpiAbis() {
  static const std::vector<MpiAbi> abis = {
      {"openmpi", "Open MPI", {"libmpi.so.40"}},
      {"mpich", "MPICH", {"libmpich.so.12", "libmpi.so.12", "libmpi_cray.so.12"}},
      {"abi", "the standard ABI of MPI 5", {"libmpi_abi.so.1"}},
  };
  return abis;
}

std::string libraryFolder() {
  std::error_code ignored;
  const fs::path own = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const char *folder : {"../lib", "../" KOLO_INSTALL_LIBDIR, "."})
    if (const fs::path path = own / folder; fs::exists(path / KOLO_RUNTIME_FILE, ignored))
      return fs::canonical(path).string();
  return ".";
}

std::optional<std::string> findDoor(const MpiAbi &abi) {
  std::string path = libraryFolder() + "/libkolo_mpi_" + abi.name + ".so";
  return fs::exists(path) ? std::optional(path) : std::nullopt;
}

std::optional<std::string> findNcclDoor() {
  std::string path = libraryFolder() + "/libkolo_nccl.so";
  return fs::exists(path) ? std::optional(path) : std::nullopt;
}

/// The dynamic loader that an executable names; empty: it is static, a script, or of another kind of machine.
static std::string loaderOf(const std::string &executable) {
  std::ifstream file(executable, std::ios::binary);
  Elf64_Ehdr header = {};
  file.read(reinterpret_cast<char *>(&header), sizeof(header));
  if (!file || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    return "";
  for (int number = 0; number < header.e_phnum; ++number) {
    Elf64_Phdr segment = {};
    file.seekg(static_cast<std::streamoff>(header.e_phoff) + number * std::streamoff(header.e_phentsize));
    file.read(reinterpret_cast<char *>(&segment), sizeof(segment));
    if (!file || segment.p_type != PT_INTERP || segment.p_filesz > PATH_MAX)
      continue;
    std::string path(segment.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    file.read(path.data(), static_cast<std::streamsize>(path.size()));
    return file ? path.c_str() : "";
  }
  return "";
}

/// Whether nobody but root can have put this file there. A folder that others may write is anybody's; one that a group
/// may write must be sticky.
static bool isOfRoot(const std::string &path) {
  std::error_code problem;
  fs::path at = fs::canonical(path, problem);
  while (!problem) {
    struct stat info = {};
    if (stat(at.c_str(), &info) != 0 || info.st_uid != 0 || (info.st_mode & S_IWOTH) ||
        ((info.st_mode & S_IWGRP) && !(info.st_mode & S_ISVTX)))
      return false;
    if (at == at.root_path())
      return true;
    at = at.parent_path();
  }
  return false;
}

/// An executable may name any program as its loader, and that would run.
static bool isLoader(const std::string &path) {
  static const std::string own = loaderOf("/proc/self/exe");
  std::error_code ignored;
  const std::string name = fs::canonical(path, ignored).filename();
  const bool isNamedSo = name.starts_with("ld") && name.find(".so") != std::string::npos;
  return fs::equivalent(path, own, ignored) || (isNamedSo && isOfRoot(path));
}

/// As the program ldd says it, which is a script that starts several loaders to find the right one.
static std::optional<std::string> librariesOf(const std::string &executable) {
  static std::map<std::string, std::optional<std::string>> known;
  auto [entry, isNew] = known.try_emplace(executable);
  if (std::string loader = isNew ? loaderOf(executable) : ""; !loader.empty() && isLoader(loader))
    entry->second = outputOf({loader, "--list", executable});
  return entry->second;
}

bool loadsNccl(const std::string &executable) {
  std::optional<std::string> libraries = librariesOf(executable);
  return libraries && (libraries->find("libnccl.so.2 ") != std::string::npos ||
                       libraries->find("librccl.so.1 ") != std::string::npos);
}

std::optional<std::string> outputOf(const std::vector<std::string> &command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return std::nullopt;
  std::vector<char *> words;
  for (const std::string &word : command)
    words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  pid_t pid = 0;
  int failure = posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; failure == 0 && (got = read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  if (failure != 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return std::nullopt;
  return text;
}

const MpiAbi *mpiOf(const std::string &executable) {
  std::optional<std::string> libraries = librariesOf(executable);
  if (!libraries)
    return nullptr;
  for (const MpiAbi &abi : mpiAbis())
    for (const char *soname : abi.sonames)
      if (libraries->find(std::string(soname) + " ") != std::string::npos)
        return &abi;
  return nullptr;
}

std::string contentOf(const std::string &path) {
  std::error_code problem;
  const uintmax_t sizeBytes = fs::is_regular_file(path, problem) ? fs::file_size(path, problem) : 0;
  std::string content(problem ? 0 : sizeBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<size_t>(file.gcount()));
  return content;
}

const MpiAbi *mpiOfLauncher(const std::string &launcher) {
  const std::string content = contentOf(launcher);
  auto hasAny = [&](std::initializer_list<const char *> texts) {
    return std::ranges::any_of(texts, [&](const char *text) { return content.find(text) != std::string::npos; });
  };
  if (hasAny({"libopen-rte.so", "libopen-pal.so", "libprrte.so", "libprte.so", "prterun"})) // orterun, prterun
    return &mpiAbis()[0];
  return hasAny({"HYDRA build details", "mpiexec.hydra"}) ? &mpiAbis()[1] : nullptr;
}

std::optional<std::string> findExecutable(const std::string &word) {
  auto isExecutable = [](const std::string &path) {
    std::error_code ignored; // of a folder that may not be read
    return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
  };
  if (word.find('/') != std::string::npos)
    return isExecutable(word) ? std::optional(word) : std::nullopt;
  const char *text = std::getenv("PATH");
  std::string rest = text ? text : "/usr/bin:/bin";
  while (!word.empty()) {
    size_t end = std::min(rest.find(':'), rest.size());
    std::string folder = end == 0 ? "." : rest.substr(0, end); // an empty entry is the current folder
    if (std::string path = folder + "/" + word; isExecutable(path))
      return path;
    if (end == rest.size())
      break;
    rest.erase(0, end + 1);
  }
  return std::nullopt;
}

std::optional<std::string> findLibrary(const std::string &soname) {
  void *library = dlopen(soname.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return std::nullopt;
  link_map *map = nullptr;
  std::string path = soname;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name)
    path = map->l_name;
  dlclose(library);
  return path;
}

} // namespace kolo::tools
