// Quotas of CPUs: files stand for the groups of a process, as /proc and the mounts say where they are.
#include "memory/ControlGroups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace kolo::runtime;

namespace {

class Quota : public testing::Test {
protected:
  Quota() : folder(testing::TempDir() + "quota-XXXXXX") {
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    std::filesystem::create_directories(folder + "/groups/jobs/a");
  }
  ~Quota() override { std::filesystem::remove_all(folder); }

  void write(const std::string &name, const std::string &text) const { std::ofstream(folder + "/" + name) << text; }

  /// `root`: the group that the mounted folder stands for.
  double cpus(const std::string &group, const std::string &root, const std::string &kind) const {
    write("cgroup", group);
    write("mountinfo", "30 20 0:26 " + root + " " + folder + "/groups rw,nosuid shared:9 - " + kind + "\n");
    return cpusInControlGroups(folder);
  }
  std::string folder;
};

constexpr const char *first = "cgroup none rw,cpu,cpuacct", *second = "cgroup2 none rw";

} // namespace

TEST_F(Quota, OfVersionTwoIsTheSmallestOfTheGroupAndThoseAbove) {
  write("groups/jobs/a/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(cpus("0::/jobs/a\n", "/", second)));
  write("groups/jobs/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpus("0::/jobs/a\n", "/", second), 1.5);
  write("groups/jobs/a/cpu.max", "50000 50000\n"); // the period begins like the quota
  EXPECT_EQ(cpus("0::/jobs/a\n", "/", second), 1);
  EXPECT_EQ(cpus("0::/jobs\n", "/", second), 1.5);
}

TEST_F(Quota, OfVersionOneCountsWhereTheControllerIsForCpus) {
  write("groups/jobs/cpu.cfs_period_us", "100000\n");
  write("groups/jobs/cpu.cfs_quota_us", "-1\n");
  EXPECT_TRUE(std::isinf(cpus("4:cpu,cpuacct:/jobs\n", "/", first)));
  write("groups/jobs/cpu.cfs_quota_us", "25000\n");
  EXPECT_EQ(cpus("4:cpu,cpuacct:/jobs\n", "/", first), 0.25);
  EXPECT_TRUE(std::isinf(cpus("4:memory:/jobs\n", "/", first)));
  EXPECT_TRUE(std::isinf(cpus("4:cpu,cpuacct:/jobs\n", "/", "cgroup none rw,memory")));
}

TEST_F(Quota, IsSeenInAContainer) {
  write("groups/cpu.max", "200000 100000\n");
  EXPECT_EQ(cpus("0::/docker/x\n", "/docker/x", second), 2);
  EXPECT_EQ(cpus("0::/\n", "/docker/x", second), 2);
}

TEST_F(Quota, ThatIsNotANumberCountsAsNone) {
  for (const char *text : {"", "\n", "100000\n", "100000 0\n", "-5 100000\n", "much 100000\n"}) {
    write("groups/cpu.max", text);
    EXPECT_TRUE(std::isinf(cpus("0::/\n", "/", second))) << text;
  }
  EXPECT_TRUE(std::isinf(cpusInControlGroups("/nowhere")));
}
