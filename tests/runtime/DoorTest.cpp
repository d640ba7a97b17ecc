// What doors share: the plugins of the path, the counts, and the place that a launcher gave.
#include "kolo/runtime/Door.h"
#include "Ranks.h"

#include "loader/TrustedFile.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

using namespace kolo::test;
using namespace kolo::runtime;
namespace fs = std::filesystem;

namespace {

constexpr const char *pathVariable = "KOLO_PLUGIN_PATH";

std::string openFails(const std::string &path, StatusCode code, const std::vector<std::string> &texts) {
  ScopedVariable variable(pathVariable, path.c_str());
  return expectStatus(Door::open("test").status(), code, texts);
}

class LaunchVariables : public testing::Test {
protected:
  void TearDown() override {
    for (const char *name : {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
                             "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS"})
      unsetenv(name);
  }
  static std::string read() {
    Result<LaunchedRank> place = readLaunchedRank();
    return place.isOk() ? std::to_string(place->rank) + " of " + std::to_string(place->size) + ", " + place->variables
                        : place.status().message();
  }
};

} // namespace

TEST(Door, LoadsFilesAndFoldersInTheirOrder) {
  std::string folder = testing::TempDir() + "/kolo-plugins";
  fs::create_directories(folder);
  fs::copy_file(KOLO_TEST_PLUGIN, folder + "/one.kolo.so", fs::copy_options::overwrite_existing);
  ScopedVariable variable(pathVariable, (std::string(KOLO_TEST_PLUGIN) + ":" + folder).c_str());
  Result<Door> door = Door::open("test");
  ASSERT_EQ(expectStatus(door.status(), StatusCode::Ok), "");
  ASSERT_EQ(door->plugins().size(), 2u);
  EXPECT_EQ(door->plugins()[1].path(), folder + "/one.kolo.so");
  fs::remove_all(folder);
}

TEST(Door, BadPathsAreNamed) {
  EXPECT_EQ(openFails("/nowhere.kolo.so", StatusCode::SystemError, {pathVariable, "/nowhere.kolo.so"}), "");
  EXPECT_EQ(openFails("/x:", StatusCode::SystemError, {pathVariable, "/x"}), "");
  EXPECT_EQ(openFails("/proc/self", StatusCode::BadPlugin, {pathVariable, "holds no"}), "");
  EXPECT_EQ(openFails("/proc/self/exe", StatusCode::BadPlugin, {pathVariable, "does not end like a Kolo plugin"}), "");
}

TEST(Door, AnEmptyVariableIsNotSet) {
  for (const char *name : {"KOLO_DEBUG", "KOLO_STATS"}) {
    ScopedVariable plugin(pathVariable, KOLO_TEST_PLUGIN), empty(name, "");
    EXPECT_EQ(expectStatus(Door::open("test").status(), StatusCode::Ok), "") << name;
  }
  {
    ScopedVariable empty(pathVariable, ""); // then the plugin that ships, which a build without the compiler lacks
    Status status = Door::open("test").status();
    if (!status.isOk())
      EXPECT_EQ(
          expectStatus(status, StatusCode::InvalidArgument, {pathVariable, "is not set, and the plugin that ships"}),
          "");
  }
  ScopedVariable path(pathVariable, (std::string(KOLO_TEST_PLUGIN) + ":").c_str());
  EXPECT_EQ(expectStatus(Door::open("test").status(), StatusCode::InvalidArgument, {pathVariable, "empty part"}), "");
}

/// A plugin in folders of its own, and what a door says of it.
class Trust : public testing::Test {
protected:
  void SetUp() override {
    fs::remove_all(root);
    fs::create_directories(root / "outer" / "inner");
    fs::copy_file(KOLO_TEST_PLUGIN, file);
  }
  void TearDown() override { fs::remove_all(root); }

  static std::string accepts(const fs::path &path) {
    ScopedVariable variable(pathVariable, path.c_str());
    return expectStatus(Door::open("test").status(), StatusCode::Ok);
  }
  static std::string refuses(const fs::path &path, const std::vector<std::string> &texts) {
    return openFails(path, StatusCode::BadPlugin, texts);
  }
  /// Needs root.
  static void give(const fs::path &path, uid_t user) { ASSERT_EQ(lchown(path.c_str(), user, gid_t(-1)), 0); }

  static constexpr uid_t stranger = 4321;
  const fs::path root = fs::canonical(testing::TempDir()) / ("kolo-trust-" + std::to_string(getpid()));
  const fs::path folder = root / "outer" / "inner", file = folder / "x.kolo.so";
};

TEST_F(Trust, FilesThatOthersMayWriteAreRefused) {
  EXPECT_EQ(accepts(file), "");
  for (mode_t mode : {0646, 0662}) {
    ASSERT_EQ(chmod(file.c_str(), mode), 0);
    ASSERT_EQ(chown(file.c_str(), uid_t(-1), 4321), geteuid() == 0 || mode == 0646 ? 0 : -1);
    EXPECT_EQ(refuses(file, {file, "others may write this file"}), "") << std::oct << mode;
    EXPECT_EQ(refuses(folder, {file, "others may write this file"}), "");
  }
}

TEST_F(Trust, FoldersWhereOthersMayPutAFileAreRefused) {
  for (const fs::path &open : {folder, root / "outer"}) {
    ASSERT_EQ(chmod(open.c_str(), 0777), 0);
    EXPECT_EQ(refuses(file, {file, "others may write the folder " + open.string()}), "");
    ASSERT_EQ(chmod(open.c_str(), 01777), 0);
    EXPECT_EQ(accepts(file), "") << "sticky, and all is this user's";
    ASSERT_EQ(chmod(open.c_str(), 0755), 0);
  }
}

TEST_F(Trust, LinksAreFollowedThroughFoldersThatAreSafe) {
  const fs::path open = root / "open", link = root / "link.kolo.so";
  fs::create_directory(open);
  ASSERT_EQ(chmod(open.c_str(), 0777), 0);
  fs::create_symlink("outer/./inner/../inner/x.kolo.so", link);
  EXPECT_EQ(accepts(link), "");
  fs::create_symlink(file, open / "there");
  fs::remove(link);
  fs::create_symlink(open / "there", link);
  EXPECT_EQ(refuses(link, {link, "others may write the folder " + open.string()}), "");
  fs::remove(link);
  fs::create_symlink(link, link);
  EXPECT_EQ(openFails(link, StatusCode::SystemError, {link}), "");
}

/// Somebody changes the file for another one all the time: what is opened is the user's own, or nothing.
TEST_F(Trust, FilesThatChangeMeanwhileAreTheOnesThatWereLookedAt) {
  const fs::path own = root / "own", others = root / "others", next = root / "next";
  fs::copy_file(file, others);
  fs::create_hard_link(file, own);
  ASSERT_EQ(chmod(others.c_str(), 0666), 0);
  std::atomic<bool> isOver = false;
  std::jthread changes([&] {
    for (size_t turn = 0; !isOver; ++turn) {
      fs::create_hard_link(turn % 2 == 0 ? others : own, next);
      fs::rename(next, file);
    }
  });
  struct stat right = {}, found = {};
  ASSERT_EQ(stat(own.c_str(), &right), 0);
  int numOwn = 0, numOthers = 0, numRefused = 0;
  for (int attempt = 0; attempt < 200'000 && (attempt < 5000 || numOwn == 0 || numRefused == 0); ++attempt) {
    const Result<OpenFile> opened = openTrusted(file);
    const bool isOwn = opened.isOk() && fstat(opened->descriptor(), &found) == 0 && found.st_ino == right.st_ino;
    ++(isOwn ? numOwn : opened.isOk() ? numOthers : numRefused);
  }
  isOver = true;
  EXPECT_EQ(numOthers, 0);
  EXPECT_TRUE(numOwn > 0 && numRefused > 0);
}

TEST_F(Trust, WhatBelongsToAnotherUserIsRefused) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give files away";
  give(file, stranger);
  EXPECT_EQ(refuses(file, {file, "belongs to user 4321"}), "");
  give(file, 0);
  give(root / "outer", stranger);
  EXPECT_EQ(refuses(file, {file, "the folder " + (root / "outer").string() + " belongs to user 4321"}), "");
  give(root / "outer", 0);
  ASSERT_EQ(chmod((root / "outer").c_str(), 01777), 0);
  give(folder, stranger);
  EXPECT_EQ(refuses(file, {file, "belongs to user 4321"}), "") << "in a sticky folder it may be taken away";
  give(folder, 0);
  fs::create_symlink(file, root / "outer" / "link.kolo.so");
  EXPECT_EQ(accepts(root / "outer" / "link.kolo.so"), "");
  give(root / "outer" / "link.kolo.so", stranger);
  EXPECT_EQ(refuses(root / "outer" / "link.kolo.so", {"belongs to user 4321"}), "");
}

TEST(Door, CountsAndSaysWhatItDid) {
  ScopedVariable variable(pathVariable, KOLO_TEST_PLUGIN);
  Result<Door> door = Door::open("test");
  ASSERT_TRUE(door.isOk());
  EXPECT_EQ(door->statistics(), "kolo test: 0 calls: 0 carried (0 bytes), 0 forwarded");
  door->countCarried(100);
  for (const char *reason : {"rare", "user operation", "user operation"})
    door->countForwarded(reason);
  EXPECT_EQ(door->statistics(), "kolo test: 4 calls: 1 carried (100 bytes), 3 forwarded (2 user operation, 1 rare)");
}

TEST(Door, FindsThePluginOrSaysWhyNot) {
  ScopedVariable variable(pathVariable, KOLO_TEST_PLUGIN);
  Result<Door> door = Door::open("test");
  ASSERT_TRUE(door.isOk());
  auto ranks = Communicator::createThreads(2);
  CallArguments arguments{"ringAllGather", *Mesh::parse("rank=2"), 4, DataType::I32};
  std::string why;
  EXPECT_EQ(door->find(ranks->front(), arguments, why), &door->plugins().front());
  arguments.program = "unknown";
  EXPECT_EQ(door->find(ranks->front(), arguments, why), nullptr);
  EXPECT_NE(why.find("has no program 'unknown'"), std::string::npos) << why;
}

TEST_F(LaunchVariables, OfEveryLauncherAreRead) {
  EXPECT_EQ(read(), "WORLD_SIZE is not set; RANK is not set");
  setenv("SLURM_PROCID", "1", 1);
  setenv("SLURM_NTASKS", "9", 1);
  EXPECT_EQ(read(), "1 of 9, SLURM_PROCID and SLURM_NTASKS");
  setenv("PMI_RANK", "2", 1);
  EXPECT_EQ(read(), "PMI_SIZE is not set");
  setenv("PMI_SIZE", "8", 1);
  EXPECT_EQ(read(), "2 of 8, PMI_RANK and PMI_SIZE");
  setenv("OMPI_COMM_WORLD_RANK", "7", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "7", 1);
  EXPECT_EQ(read(), "OMPI_COMM_WORLD_RANK=7 is not below OMPI_COMM_WORLD_SIZE=7");
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "2", 1);
  EXPECT_EQ(read(), "0 of 2, RANK and WORLD_SIZE");
}
