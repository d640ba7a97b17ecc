// Libraries: what of other projects this machine has, and which of them a program loads. For `kolo preload` and
// `kolo doctor`.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kolo::tools {

/// An MPI, as far as its binary interface goes.
struct MpiAbi {
  const char *name;                  // of the door: "openmpi"
  const char *title;                 // "Open MPI"
  std::vector<const char *> sonames; // of its library, also of its derivatives'
};
const std::vector<MpiAbi> &mpiAbis();

/// The folder of Kolo's own libraries.
std::string libraryFolder();
/// The door for an MPI. Nothing: it was not built.
std::optional<std::string> findDoor(const MpiAbi &abi);

/// The door for NCCL. Nothing: it was not built.
std::optional<std::string> findNcclDoor();
/// Whether an executable loads NCCL, directly or not. Runs the loader that the executable names, with `--list`.
bool loadsNccl(const std::string &executable);

/// The MPI that an executable loads, directly or not; null: none. Runs its loader likewise.
const MpiAbi *mpiOf(const std::string &executable);
/// The MPI that a launcher belongs to, by what stands in its file, a program or a script, which is not run; null:
/// unknown.
const MpiAbi *mpiOfLauncher(const std::string &launcher);

/// All bytes of a regular file; empty: it cannot be read.
std::string contentOf(const std::string &path);

/// Looks along PATH as a shell does. Nothing: there is no such executable.
std::optional<std::string> findExecutable(const std::string &word);

/// Standard output of a command; nothing if it fails or cannot be started.
std::optional<std::string> outputOf(const std::vector<std::string> &command);

/// The file that the loader finds for a library; nothing: it finds none.
std::optional<std::string> findLibrary(const std::string &soname);

} // namespace kolo::tools
