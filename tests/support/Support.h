// What tests of several folders need, whether there is a compiler or not: a seed, and files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace kolo::test {

/// The seed of this process: the environment variable KOLO_SEED, or different in every run. Printed once.
uint64_t testSeed();

/// A new folder, removed with all that is in it at the end of the scope; not by a process that was forked inside it.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  /// The path of a file in it, which need not exist.
  std::string file(const std::string &name) const { return (path / name).string(); }

private:
  pid_t owner;
  std::filesystem::path path;
};

/// The bytes of a file. Fails the test where there is none.
std::string readFile(const std::string &path);

} // namespace kolo::test
