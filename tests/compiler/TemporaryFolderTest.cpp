// Processes that make temporary folders in one directory at once: each removes what killed ones left, and no other's.
#include "Support.h"

#include "targets/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

using namespace kolo;

namespace {

/// In a forked child, which it ends. 0: a folder was made, held a file, and is gone.
[[noreturn]] void makeFolder(const std::string &directory, int start) {
  char byte;
  if (read(start, &byte, 1) != 0) // the end of the file: all children are there
    _exit(3);
  setenv("TMPDIR", directory.c_str(), 1);
  std::string path;
  {
    auto folder = TemporaryFolder::create();
    if (!folder)
      _exit(1);
    path = folder->path();
    if (!std::filesystem::is_directory(path))
      _exit(2);
  }
  _exit(std::filesystem::exists(path) ? 4 : 0);
}

TEST(TemporaryFolder, IsOfOneOfManyProcessesThatStartAtOnce) {
  test::TemporaryFolder directory; // another class: what kolo::TemporaryFolder does once, each child does itself
  for (int round = 0; round < 20; ++round) {
    int start[2];
    ASSERT_EQ(pipe(start), 0);
    std::vector<pid_t> children(64);
    for (pid_t &child : children)
      if ((child = fork()) == 0) {
        close(start[1]);
        makeFolder(directory.file(""), start[0]);
      }
    close(start[0]);
    close(start[1]);
    for (pid_t child : children) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.file("")));
}

} // namespace
