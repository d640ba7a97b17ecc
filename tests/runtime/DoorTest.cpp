// What doors share: the plugins of the path, the counts, and the place that a launcher gave.
#include "kolo/runtime/Door.h"
#include "Ranks.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

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
  EXPECT_EQ(openFails("", StatusCode::InvalidArgument, {pathVariable, "empty part"}), "");
  EXPECT_EQ(openFails("/proc/self", StatusCode::BadPlugin, {pathVariable, "holds no"}), "");
  EXPECT_EQ(openFails("/proc/self/exe", StatusCode::BadPlugin, {pathVariable, "does not end like a Kolo plugin"}), "");
}

TEST(Door, FilesThatEverybodyMayWriteAreRefused) {
  std::string path = testing::TempDir() + "/kolo-open-to-all.kolo.so";
  fs::copy_file(KOLO_TEST_PLUGIN, path, fs::copy_options::overwrite_existing);
  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(openFails(path, StatusCode::BadPlugin, {"everybody may write this file"}), "");
  fs::remove(path);
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
