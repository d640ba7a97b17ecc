#include "Support.h"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <variant>

using namespace kolo;
using namespace kolo::cost;
using Json = nlohmann::ordered_json;

/// The names of a route's resources.
static std::vector<std::string> namesOf(const Machine &machine, const Route &route) {
  std::vector<std::string> names;
  for (int resource : route.resources)
    names.push_back(machine.resources()[size_t(resource)].name);
  return names;
}
using Names = std::vector<std::string>;

TEST(Machine, FrontierIsTheNodeGraphOfItsUserGuide) {
  Machine frontier = machineCalled("frontier");
  EXPECT_EQ(frontier.numNodes(), 9408);
  const char *rows[] = {"04100020", "40010100", "10042000", "01400001", "00200410", "01004001", "20001004", "00010140"};
  for (int from = 0; from < 8; ++from)
    for (int to = 0; to < 8; ++to) {
      int links = 0;
      for (const Link &link : frontier.links())
        if (std::minmax(link.from, link.to) == std::minmax(from, to))
          links = link.count;
      EXPECT_EQ(links, rows[from][to] - '0') << from << " " << to;
      if (from != to)
        EXPECT_EQ(frontier.route(from, to).resources.size(), links ? 1u : 2u) << from << " " << to;
    }
  EXPECT_EQ(frontier.injection(), 100e9);
  EXPECT_EQ(frontier.commonLevel(0, 15), 0u);
  EXPECT_EQ(frontier.commonLevel(15, 16), 1u);
  EXPECT_EQ(frontier.commonLevel(127, 128), 2u);
}

TEST(Machine, RoutesHaveFewHopsThenWideLinksThenLowVertices) {
  Machine frontier = machineCalled("frontier");
  EXPECT_EQ(namesOf(frontier, frontier.route(0, 1)), (Names{"GCD 0 -> GCD 1"}));
  EXPECT_EQ(namesOf(frontier, frontier.route(0, 4)), (Names{"GCD 0 -> GCD 2", "GCD 2 -> GCD 4"}));
  EXPECT_EQ(namesOf(frontier, frontier.route(0, 7)), (Names{"GCD 0 -> GCD 6", "GCD 6 -> GCD 7"})); // 100 GB/s, not 50
  EXPECT_TRUE(frontier.route(3, 3).resources.empty());
  EXPECT_DOUBLE_EQ(of(frontier.route(0, 7).latency, Protocol::Bulk), 7.2e-6);
  EXPECT_DOUBLE_EQ(of(frontier.route(0, 7).latency, Protocol::Published), 7.2e-6);
  EXPECT_DOUBLE_EQ(of(frontier.route(0, 7).latency, Protocol::LL), 1.6e-6);
}

TEST(Machine, DevicesReachTheNetworkThroughTheNearestNic) {
  Machine frontier = machineCalled("frontier");
  EXPECT_EQ(namesOf(frontier, frontier.toNetwork(0)), (Names{"GCD 0 -> GCD 1", "GCD 1 -> hsn0", "hsn0 -> network"}));
  EXPECT_EQ(namesOf(frontier, frontier.fromNetwork(6)), (Names{"network -> hsn3", "hsn3 -> GCD 7", "GCD 7 -> GCD 6"}));
  EXPECT_TRUE(frontier.toNetwork(0).crossesNetwork);
  EXPECT_FALSE(frontier.route(0, 1).crossesNetwork);
}

TEST(Machine, AStagedNetworkGoesThroughMemoryOfTheHosts) {
  Machine frontier = std::get<Machine>(machineCalled("frontier").staged());
  const std::string memory = "memory of the host";
  EXPECT_EQ(namesOf(frontier, frontier.toNetwork(0)),
            (Names{"GCD 0 -> host", memory, memory, "host -> GCD 1", "GCD 1 -> hsn0", "hsn0 -> network"}));
  EXPECT_EQ(namesOf(frontier, frontier.fromNetwork(6)),
            (Names{"network -> hsn3", "hsn3 -> GCD 7", "GCD 7 -> host", memory, memory, "host -> GCD 6"}));
  EXPECT_TRUE(frontier.toNetwork(0).crossesNetwork);
  EXPECT_EQ(namesOf(frontier, frontier.route(0, 1)), (Names{"GCD 0 -> GCD 1"}));
  Machine perlmutter = std::get<Machine>(machineCalled("perlmutter").staged());
  EXPECT_EQ(namesOf(perlmutter, perlmutter.toNetwork(2)),
            (Names{"GPU 2 -> host", memory, memory, "GPU 2 -> NIC 2", "NIC 2 -> network"}));
  auto unknown = machineCalled("dgx-h100").staged();
  EXPECT_NE(std::get<CostMistake>(unknown).message.find("node.host"), std::string::npos);
}

TEST(Machine, DevicesTakeNicsThatAreEquallyNearInTurn) {
  Json file = machineOf(4, {});
  file["nodes"] = 2;
  Json latency = {{"bulk", 1}, {"ll", 1}, {"ll128", 1}};
  file["levels"] = {{{"name", "all"}, {"nodes", 2}, {"latencyMicroseconds", latency}}};
  file["node"]["switches"] = {{{"name", "hub"}, {"gigabytesPerSecond", 7}}};
  for (const char *name : {"d 0", "d 1", "d 2", "d 3", "nic 0", "nic 1"})
    file["node"]["links"].push_back({{"from", name}, {"to", "hub"}, {"class", "link"}, {"count", 1}});
  file["node"]["nics"] = {{{"name", "nic 0"}, {"class", "link"}}, {{"name", "nic 1"}, {"class", "link"}}};
  Machine machine = parsed(file);
  for (int device = 0; device < 4; ++device)
    EXPECT_EQ(namesOf(machine, machine.toNetwork(device)),
              (Names{fmt::format("d {} -> hub", device), "hub", fmt::format("hub -> nic {}", device % 2),
                     fmt::format("nic {} -> network", device % 2)}));
  EXPECT_EQ(namesOf(machine, machine.route(0, 3)), (Names{"d 0 -> hub", "hub", "hub -> d 3"}));
}

TEST(Machine, BandwidthsDependOnRatesAndOnTheWorkingSet) {
  Json file = machineOf(2, {{0, 1, 3}});
  file["linkClasses"][0]["kernelShare"] = 0.5;
  file["linkClasses"][0]["bySize"] = {{{"upToBytes", 1024}, {"gigabytesPerSecond", 8}}};
  file["node"]["devices"]["memory"] = {
      {"gigabytesPerSecond", 10}, {"share", 0.5}, {"isShared", true}, {"writes", {{"gigabytesPerSecond", 3}}}};
  file["node"]["devices"]["lane"] = {{"gigabytesPerSecond", 4}};
  Machine machine = parsed(file);
  const Resource &link = machine.resources()[size_t(machine.route(0, 1).resources[0])];
  EXPECT_EQ(link.bandwidth(Rates::Peak), 3e9);
  EXPECT_EQ(link.bandwidth(Rates::Kernel), 1.5e9);
  EXPECT_EQ(link.bandwidth(Rates::Peak, 1024), 24e9);
  EXPECT_EQ(link.bandwidth(Rates::Copy, 1025), 3e9);
  EXPECT_EQ(machine.memoryOf(0), machine.memoryOf(1));
  EXPECT_EQ(machine.resources()[size_t(machine.memoryOf(0))].bandwidth(Rates::Copy), 5e9);
  EXPECT_EQ(machine.writesOf(0), machine.writesOf(1));
  EXPECT_EQ(machine.resources()[size_t(machine.writesOf(0))].name, "writes to memory");
  EXPECT_EQ(machine.resources()[size_t(machine.writesOf(0))].bandwidth(Rates::Peak), 3e9);
  EXPECT_EQ(machine.device().laneReduction.at(1), 4e9);
}

TEST(Machine, MessagesTakeEveryLinkOfTheirClass) {
  Json file = machineOf(2, {{0, 1, 4}});
  EXPECT_FALSE(parsed(file).limitsMessages());
  file["linkClasses"][0]["millionMessagesPerSecond"] = 2.5;
  Machine machine = parsed(file);
  EXPECT_TRUE(machine.limitsMessages());
  EXPECT_DOUBLE_EQ(machine.resources()[size_t(machine.route(0, 1).resources[0])].secondsPerMessage, 1e-7);
  EXPECT_EQ(machine.resources()[size_t(machine.memoryOf(0))].secondsPerMessage, 0);
}

TEST(Machine, ShippedMachinesAreReadAndNamedAsTheirFiles) {
  std::vector<std::string> names = Machine::shippedNames();
  EXPECT_EQ(names, (Names{"dgx-h100", "frontier", "hgx-a100", "mi300x", "perlmutter", "ring8"}));
  for (const std::string &name : names)
    EXPECT_EQ(machineCalled(name).name(), name);
  Machine alphaBeta = machineCalled(KOLO_TEST_MACHINES "/alpha-beta.json");
  EXPECT_DOUBLE_EQ(of(alphaBeta.route(2, 5).latency, Protocol::LL), 1e-6);
}

namespace {

struct BadFile {
  std::function<void(Json &)> breakIt;
  const char *message; // after "bad.json: "
};

/// Two nodes of two devices, with all kinds of parts.
Json goodFile() {
  Json file = machineOf(2, {{0, 1, 1}});
  file["nodes"] = 2;
  Json latency = {{"bulk", 1}, {"ll", 1}, {"ll128", 1}};
  file["levels"] = {{{"name", "all"}, {"nodes", 2}, {"latencyMicroseconds", latency}}};
  file["node"]["nics"] = {{{"name", "nic"}, {"class", "link"}}};
  file["node"]["links"].push_back({{"from", "d 0"}, {"to", "nic"}, {"class", "link"}, {"count", 1}});
  return file;
}

const BadFile badFiles[] = {
    {[](Json &file) { file.erase("version"); }, "version: is missing"},
    {[](Json &file) { file["version"] = 2; }, "version: is 2, and this Kolo reads version 1"},
    {[](Json &file) { file["version"] = "1"; }, "version: \"1\" is no whole number from 0 to 2147483647"},
    {[](Json &file) { file["name"] = ""; }, "name: is empty"},
    {[](Json &file) { file["nodes"] = 0; }, "nodes: 0 is no whole number from 1 to 1048576"},
    {[](Json &file) { file["nodes"] = 2000000; }, "nodes: 2000000 is no whole number from 1 to 1048576"},
    {[](Json &file) { file["nodes"] = 18446744073709551615u; },
     "nodes: 18446744073709551615 is no whole number from 1 to 1048576"},
    {[](Json &file) { file["linkClases"] = 1; }, "linkClases: there is no such field; did you mean linkClasses?"},
    {[](Json &file) { file["node"] = Json::array(); }, "node: is no object"},
    {[](Json &file) { file["node"]["devices"].erase("count"); }, "node.devices.count: is missing"},
    {[](Json &file) { file["node"]["devices"]["count"] = 257; },
     "node.devices.count: 257 is no whole number from 1 to 256"},
    {[](Json &file) { file["node"]["devices"]["memory"] = {{"gigabytesPerSecond", 1}, {"isShared", 1}}; },
     "node.devices.memory.isShared: is neither true nor false"},
    {[](Json &file) { file["node"]["devices"]["memory"] = {{"gigabytesPerSecond", 1}, {"writes", Json::object()}}; },
     "node.devices.memory.writes.gigabytesPerSecond: is missing"},
    {[](Json &file) { file["node"]["links"] = 3; }, "node.links: is no array"},
    {[](Json &file) { file["node"]["links"][0]["class"] = "lynk"; },
     "node.links[0].class: there is no link class 'lynk'; did you mean link?"},
    {[](Json &file) { file["node"]["links"][0]["to"] = "d 2"; },
     "node.links[0].to: there is no device, switch or NIC 'd 2'; did you mean d 0?"},
    {[](Json &file) { file["node"]["links"][0]["to"] = "d 0"; }, "node.links[0].to: 'd 0' is linked to itself"},
    {[](Json &file) { file["node"]["links"].push_back(file["node"]["links"][0]); },
     "node.links[2].to: 'd 0' and 'd 1' are linked by links[0] already; its count says how often"},
    {[](Json &file) { file["node"]["links"][0]["count"] = 0; },
     "node.links[0].count: 0 is no whole number from 1 to 1024"},
    {[](Json &file) { file["node"]["links"][0]["colour"] = "red"; },
     "node.links[0].colour: there is no such field (one of from, to, class, count, source)"},
    {[](Json &file) { file["node"]["links"].erase(0); }, "node.links: no way leads from 'd 0' to 'd 1'"},
    {[](Json &file) { file["node"]["links"].erase(1); }, "node.links: no way leads from 'd 0' to 'nic'"},
    {[](Json &file) { file["node"]["nics"][0]["name"] = "d 1"; },
     "node.nics[0].name: 'd 1' is the name of an earlier one too"},
    {[](Json &file) {
       file["node"].erase("nics");
       file["node"]["links"].erase(1);
     },
     "node.nics: 2 nodes need one at least"},
    {[](Json &file) { file["linkClasses"][0].erase("gigabytesPerSecond"); },
     "linkClasses[0].gigabytesPerSecond: is missing"},
    {[](Json &file) { file["linkClasses"][0]["gigabytesPerSecond"] = -5; },
     "linkClasses[0].gigabytesPerSecond: -5 is no number from 1e-06 to 1000000000"},
    {[](Json &file) { file["linkClasses"][0]["gigabytesPerSecond"] = 0; },
     "linkClasses[0].gigabytesPerSecond: 0 is no number from 1e-06 to 1000000000"},
    {[](Json &file) { file["linkClasses"][0]["gigabytesPerSecond"] = "fast"; },
     "linkClasses[0].gigabytesPerSecond: \"fast\" is no number from 1e-06 to 1000000000"},
    {[](Json &file) { file["linkClasses"].push_back(file["linkClasses"][0]); },
     "linkClasses[1].name: 'link' is the name of an earlier one too"},
    {[](Json &file) { file["linkClasses"][0]["kernelShare"] = 1.5; },
     "linkClasses[0].kernelShare: 1.5 is no number from 0.001 to 1"},
    {[](Json &file) { file["linkClasses"][0]["millionMessagesPerSecond"] = 0; },
     "linkClasses[0].millionMessagesPerSecond: 0 is no number from 1e-06 to 1000000"},
    {[](Json &file) { file["linkClasses"][0]["millionMessagesPerSecond"] = "many"; },
     "linkClasses[0].millionMessagesPerSecond: \"many\" is no number from 1e-06 to 1000000"},
    {[](Json &file) { file["linkClasses"][0]["latencyMicroseconds"].erase("ll"); },
     "linkClasses[0].latencyMicroseconds.ll: is missing"},
    {[](Json &file) {
       file["linkClasses"][0]["bySize"] = {{{"upToBytes", 8}, {"gigabytesPerSecond", 1}},
                                           {{"upToBytes", 8}, {"gigabytesPerSecond", 1}}};
     },
     "linkClasses[0].bySize[1].upToBytes: is not above that of the entry before"},
    {[](Json &file) { file["linkClasses"][0]["source"] = 7; }, "linkClasses[0].source: is no text"},
    {[](Json &file) { file["payloadShare"]["ll"] = 0; }, "payloadShare.ll: 0 is no number from 0.001 to 1"},
    {[](Json &file) { file.erase("levels"); }, "levels: is missing, and 2 nodes need a network"},
    {[](Json &file) { file["nodes"] = 1; }, "levels: a machine of one node has none"},
    {[](Json &file) { file["nodes"] = 3; }, "levels[0].nodes: is 2, and the outermost level has all 3 nodes"},
    {[](Json &file) { file["levels"][0]["gigabytesPerSecond"] = 3; },
     "levels[0].gigabytesPerSecond: nothing leaves the outermost level"},
    {[](Json &file) {
       file["nodes"] = 12;
       file["levels"].insert(file["levels"].begin(), 2, file["levels"][0]);
       file["levels"][0].update({{"name", "a"}, {"nodes", 2}});
       file["levels"][1].update({{"name", "b"}, {"nodes", 5}});
       file["levels"][2]["nodes"] = 12;
     },
     "levels[1].nodes: 5 is no multiple of the 2 of the level inside"},
};

} // namespace

TEST(Machine, EveryMistakeNamesTheFileAndTheField) {
  ASSERT_EQ(mistakeIn(Machine::parse(goodFile().dump(), "bad.json")), "");
  for (const BadFile &bad : badFiles) {
    Json file = goodFile();
    bad.breakIt(file);
    EXPECT_EQ(mistakeIn(Machine::parse(file.dump(), "bad.json")), "bad.json: " + std::string(bad.message));
  }
}

TEST(Machine, TextThatIsNoMachineIsRefused) {
  EXPECT_EQ(mistakeIn(Machine::parse("{", "bad.json")), "bad.json: is no JSON");
  EXPECT_EQ(mistakeIn(Machine::parse("[1]", "bad.json")), "bad.json: is no object");
  EXPECT_EQ(mistakeIn(Machine::parse(R"({"version": 1, "version": 1})", "bad.json")),
            "bad.json: version: is given twice in one object");
  EXPECT_EQ(mistakeIn(Machine::read("/nowhere/x.json")),
            "cannot read /nowhere/x.json: it is no file, or may not be read");
  EXPECT_EQ(mistakeIn(Machine::read("frontiers")),
            "there is no machine 'frontiers'; did you mean frontier? (one of dgx-h100, frontier, hgx-a100, "
            "mi300x, perlmutter, ring8, host, or a file)");
}

TEST(Machine, HostIsWhatTheUserMeasured) {
  std::string folder = testing::TempDir() + "kolo-host-test";
  setenv("XDG_DATA_HOME", folder.c_str(), 1);
  EXPECT_EQ(mistakeIn(Machine::read("host")), "machine host: `kolo probe` has not measured this machine yet: there is "
                                              "no " +
                                                  folder + "/kolo/host.json");
  unsetenv("XDG_DATA_HOME");
  setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(Machine::hostPath(), "/home/someone/.local/share/kolo/host.json");
}
