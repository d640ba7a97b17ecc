// The NIC that a rank takes, on trees of sysfs made as machines have them.
#include "network/NearestNic.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace kolo::runtime {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<size_t>;

/// A tree of sysfs.
class Tree {
public:
  Tree() {
    std::string name = fs::temp_directory_path() / "kolo-sysfs-XXXXXX";
    folder = mkdtemp(name.data());
  }
  ~Tree() { fs::remove_all(folder); }
  Tree(const Tree &) = delete;
  Tree &operator=(const Tree &) = delete;

  /// `way`: from the host bridge to the device, "pci0000:c0/0000:c0:01.1/0000:c1:00.0". A node below 0 is unknown.
  void add(const std::string &way, int node, const std::string &processors) {
    const fs::path device = root() / "devices" / way, bus = root() / "bus/pci/devices";
    fs::create_directories(device);
    fs::create_directories(bus);
    std::ofstream(device / "numa_node") << node << "\n";
    std::ofstream(device / "local_cpulist") << processors << "\n";
    fs::create_symlink(device, bus / device.filename());
  }
  Numbers nearDevice(const std::vector<std::string> &nics, const std::string &device) const {
    return nearestNics(nics, {.device = device}, root());
  }
  Numbers nearProcessors(const std::vector<std::string> &nics, std::initializer_list<size_t> processors) const {
    RankLocality place;
    for (size_t processor : processors)
      CPU_SET(processor, &place.processors);
    return nearestNics(nics, place, root());
  }
  const fs::path &root() const { return folder; }

private:
  fs::path folder;
};

std::string addressOf(int domain, int bus) {
  char text[16];
  (void)std::snprintf(text, sizeof(text), "%04x:%02x:00.0", unsigned(domain), unsigned(bus));
  return text;
}

/// NIC k hangs on GCD 2k + 1. The NUMA nodes of the GCDs are 3, 3, 1, 1, 0, 0, 2, 2, each of 16 cores.
struct Frontier : Tree {
  std::vector<std::string> gcds, nics;

  Frontier() {
    constexpr std::array<int, 8> nodes = {3, 3, 1, 1, 0, 0, 2, 2};
    for (int gcd = 0; gcd < 8; ++gcd) {
      const int node = nodes[size_t(gcd)];
      const std::string bridge = "pci000" + std::to_string(gcd) + ":00",
                        port = "/000" + std::to_string(gcd) + ":00:01.1/",
                        cores = std::to_string(16 * node) + "-" + std::to_string(16 * node + 15);
      gcds.push_back(addressOf(gcd, 0xc1));
      add(bridge + port + gcds.back(), node, cores);
      if (gcd % 2 == 0)
        continue;
      nics.push_back(addressOf(gcd, 0xc5));
      add(bridge + port + nics.back(), node, cores);
    }
  }
};

TEST(NearestNic, OfFrontierHangsOnTheOddGcd) {
  Frontier frontier;
  for (size_t gcd = 0; gcd < 8; ++gcd)
    EXPECT_EQ(frontier.nearDevice(frontier.nics, frontier.gcds[gcd]), Numbers{gcd / 2}) << gcd;
}

TEST(NearestNic, OfARankIsNearTheCoresThatItRunsOn) {
  Frontier frontier;
  EXPECT_EQ(frontier.nearProcessors(frontier.nics, {0}), Numbers{2});
  EXPECT_EQ(frontier.nearProcessors(frontier.nics, {31}), Numbers{1});
  EXPECT_EQ(frontier.nearProcessors(frontier.nics, {32, 63}), (Numbers{0, 3}));
  EXPECT_EQ(frontier.nearProcessors(frontier.nics, {}), (Numbers{0, 1, 2, 3})); // nothing is known
  EXPECT_EQ(frontier.nearProcessors(frontier.nics, {200}), (Numbers{0, 1, 2, 3}));
}

/// Each GPU shares a switch with a NIC, and two switches share a host bridge. Two more NICs are alone on each socket.
TEST(NearestNic, OfADgxIsBehindTheSwitchOfTheGpu) {
  Tree dgx;
  std::vector<std::string> gpus, nics;
  for (int number = 0; number < 8; ++number) {
    const int root = number / 2;
    const std::string above = "pci000" + std::to_string(root) + ":00/000" + std::to_string(root) + ":00:01.0/000" +
                              std::to_string(root) + ":0" + std::to_string(number % 2 + 1) + ":00.0/";
    gpus.push_back(addressOf(root, 0x10 + number));
    nics.push_back(addressOf(root, 0x20 + number));
    dgx.add(above + gpus.back(), root / 2, "0-55");
    dgx.add(above + nics.back(), root / 2, "0-55");
  }
  for (int socket = 0; socket < 2; ++socket) {
    nics.insert(nics.begin(), addressOf(8 + socket, 0x30));
    dgx.add("pci000" + std::to_string(8 + socket) + ":00/" + nics.front(), socket, "0-55");
  }
  for (size_t gpu = 0; gpu < 8; ++gpu)
    EXPECT_EQ(dgx.nearDevice(nics, gpus[gpu]), Numbers{gpu + 2}) << gpu;
  nics.erase(nics.begin() + 2); // that of GPU 0: now that of GPU 1 is behind the same host bridge
  EXPECT_EQ(dgx.nearDevice(nics, gpus[0]), Numbers{2});
  nics.resize(2); // the NIC of socket 1 stands first
  EXPECT_EQ(dgx.nearDevice(nics, gpus[0]), Numbers{1});
  EXPECT_EQ(dgx.nearDevice(nics, gpus[7]), Numbers{0});
}

TEST(NearestNic, IsAnyWhereNothingTellsThemApart) {
  Tree tree;
  tree.add("pci0000:00/0000:01:00.0", -1, "");
  tree.add("pci0001:00/0001:01:00.0", -1, "");
  tree.add("pci0002:00/0002:01:00.0", -1, "");
  EXPECT_EQ(tree.nearDevice({"0001:01:00.0", "0002:01:00.0"}, "0000:01:00.0"), (Numbers{0, 1}));
  EXPECT_EQ(tree.nearDevice({"", "0005:01:00.0"}, "0000:01:00.0"), (Numbers{0, 1})); // without address; not there
  EXPECT_EQ(tree.nearDevice({"0001:01:00.0"}, "0000:01:00.0"), Numbers{0});
  EXPECT_EQ(tree.nearProcessors({"", "0001:01:00.0"}, {0}), (Numbers{0, 1}));
}

TEST(NearestNic, IsOfTheDeviceThatTheVariableNames) {
  Frontier frontier;
  setenv("KOLO_NETWORK_NEAR", frontier.gcds[5].c_str(), 1);
  Result<RankLocality> place = RankLocality::here(frontier.root());
  ASSERT_TRUE(place.isOk()) << place.status().message();
  EXPECT_EQ(nearestNics(frontier.nics, *place, frontier.root()), Numbers{2});
  setenv("KOLO_NETWORK_NEAR", "0000:ff:00.0", 1);
  EXPECT_EQ(RankLocality::here(frontier.root()).status().code(), StatusCode::InvalidArgument);
  unsetenv("KOLO_NETWORK_NEAR");
  EXPECT_TRUE(RankLocality::here(frontier.root())->device.empty());
}

} // namespace
} // namespace kolo::runtime
