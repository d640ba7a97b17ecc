// Calls that name only a collective: the program that the plugin selects, and wrong selections. To find out which
// program a rank selected, another rank names a program: they agree, or they disagree.
#include "Ranks.h"
#include "kolo/runtime/Plugin.h"
#include "plugin/Pack.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <random>

using namespace kolo::test;
using namespace kolo::runtime;
using json = nlohmann::ordered_json; // the dimensions of a mesh have an order

namespace {

json entryFor(const char *collective, const char *memory, json upToBytes, const char *program) {
  return {{"collective", collective},
          {"ranks", 3},
          {"memory", memory},
          {"upToBytes", std::move(upToBytes)},
          {"program", program}};
}

json goodSelection() {
  return json::array({entryFor("all_gather", "windows", nullptr, "ringAllGather"),
                      entryFor("all_reduce", "windows", 64, "scratchAllReduce"),
                      entryFor("all_reduce", "windows", nullptr, "pullAllReduce"),
                      entryFor("all_reduce", "ordinary", 256, "pullAllReduce"),
                      entryFor("all_reduce", "ordinary", nullptr, "scratchAllReduce")});
}

/// The test plugin with a selection.
Result<Plugin> loadWith(const json &selection) {
  std::string path = testing::TempDir() + "/kolo-selection-" + std::to_string(getpid()) + ".so";
  std::string elf = readFile(KOLO_TEST_LIBRARY);
  json manifest = json::parse(readFile(KOLO_TEST_MANIFEST));
  manifest["selection"] = selection;
  writeFile(path, pack(elf, manifest.dump(), footerFor(elf, manifest.dump())));
  Result<Plugin> plugin = Plugin::load(path);
  std::filesystem::remove(path);
  return plugin;
}

const Plugin &selectingPlugin() {
  static const auto plugin = loadWith(goodSelection());
  return *plugin;
}

constexpr int64_t mostElements = 100;

/// An all-reduce of ones.
struct SelectedCall {
  std::string_view program; // empty: selected
  int64_t count = 1;
  bool inWindows = true;
};

/// A rank with memory of both kinds.
class Caller {
public:
  explicit Caller(Communicator &communicator)
      : communicator(communicator),
        window(std::move(communicator.allocate(2 * mostElements * sizeof(int32_t))).value()), heap(2 * mostElements) {}

  Status run(const SelectedCall &call, const Plugin &plugin = selectingPlugin()) {
    CallArguments arguments{call.program, *Mesh::parse("rank=3"), call.count, DataType::I32};
    arguments.collective = CollectiveKind::AllReduce;
    int32_t *memory = call.inWindows ? static_cast<int32_t *>(window.data()) : heap.data();
    std::fill_n(memory, mostElements, 1);
    std::fill_n(memory + mostElements, mostElements, -1);
    arguments.input = memory;
    arguments.output = memory + mostElements;
    Status status = communicator.run(plugin, arguments);
    if (status.isOk() && memory[mostElements + call.count - 1] != 3)
      return {StatusCode::SystemError, "wrong result"};
    return status;
  }

private:
  Communicator &communicator;
  Window window;
  std::vector<int32_t> heap;
};

/// "" if this is the program that ranks 1 and 2 get when rank 0 names it, and when rank 0 names the other one they
/// disagree.
std::string takes(Communicator &communicator, Caller &caller, SelectedCall call, const char *program) {
  bool isNaming = communicator.rank() == 0;
  const char *other = std::string_view(program) == "pullAllReduce" ? "scratchAllReduce" : "pullAllReduce";
  std::string said;
  for (int time = 0; time < 3; ++time) { // the second and third time a plan is found
    call.program = isNaming ? program : "";
    said += expectStatus(caller.run(call), StatusCode::Ok);
    call.program = isNaming ? other : "";
    said += expectStatus(caller.run(call), StatusCode::Mismatch, {"disagree on program"});
    call.program = "";
    said += expectStatus(caller.run(call), StatusCode::Ok);
  }
  return said.empty() ? said : std::to_string(call.count) + " elements: " + said;
}

std::string onRanks(Launch kind, const RankBody &body) {
  (void)selectingPlugin(); // before the fork
  return runRanks(kind, 3, {15000, 1}, body);
}

} // namespace

TEST(Selection, GoesBySizeToTheLastByteAndByMemory) {
  EXPECT_EQ(onRanks(Launch::Forked,
                    [](Communicator &communicator) {
                      Caller caller(communicator);
                      return takes(communicator, caller, {{}, 1, true}, "scratchAllReduce") +
                             takes(communicator, caller, {{}, 16, true}, "scratchAllReduce") +
                             takes(communicator, caller, {{}, 17, true}, "pullAllReduce") +
                             takes(communicator, caller, {{}, 17, false}, "pullAllReduce") +
                             takes(communicator, caller, {{}, 64, false}, "pullAllReduce") +
                             takes(communicator, caller, {{}, 65, false}, "scratchAllReduce");
                    }),
            "");
}

TEST(Selection, SaysHowManyLanesCallsOnDevicesHave) {
  json selection = goodSelection();
  selection[1]["lanes"] = 3;
  Result<Plugin> plugin = loadWith(selection);
  ASSERT_EQ(plugin.status().message(), "");
  EXPECT_EQ(plugin->select({CollectiveKind::AllReduce, *Mesh::parse("rank=3"), 64})->lanes, 3);
  EXPECT_EQ(plugin->select({CollectiveKind::AllReduce, *Mesh::parse("rank=3"), 65})->lanes, 0);
  for (const json &wrong : {json(0), json(-1), json(65), json("3"), json(1.5), json(nullptr)}) {
    selection[1]["lanes"] = wrong;
    Result<Plugin> refused = loadWith(selection);
    EXPECT_EQ(refused.status().code(), StatusCode::BadPlugin) << wrong;
    EXPECT_NE(refused.status().message().find("selection[1].lanes"), std::string::npos) << refused.status().message();
  }
}

TEST(Selection, CountsAllMemoryAmongThreadsAsWindows) {
  EXPECT_EQ(onRanks(Launch::Threads,
                    [](Communicator &communicator) {
                      Caller caller(communicator);
                      return takes(communicator, caller, {{}, 16, false}, "scratchAllReduce") +
                             takes(communicator, caller, {{}, 17, false}, "pullAllReduce");
                    }),
            "");
}

TEST(Selection, IsMadeAnewWhenTheSameCallComesWithOtherMemory) {
  EXPECT_EQ(onRanks(Launch::Forked,
                    [](Communicator &communicator) {
                      Caller caller(communicator);
                      std::string said;
                      for (int time = 0; time < 20; ++time)
                        said += expectStatus(caller.run({{}, 5, time % 2 == 0}), StatusCode::Ok);
                      return said + takes(communicator, caller, {{}, 5, true}, "scratchAllReduce") +
                             takes(communicator, caller, {{}, 5, false}, "pullAllReduce");
                    }),
            "");
}

TEST(Selection, TellsCollectivesApartThatAreCalledInTurnOnTheSameMemory) {
  EXPECT_EQ(onRanks(Launch::Threads,
                    [](Communicator &communicator) {
                      std::vector<int32_t> in(5, 1), out(15, -1);
                      CallArguments arguments{"", *Mesh::parse("rank=3"), 5, DataType::I32};
                      arguments.input = in.data();
                      arguments.output = out.data();
                      std::string said;
                      for (int time = 0; time < 6; ++time) {
                        bool isReduced = time % 2;
                        arguments.collective = isReduced ? CollectiveKind::AllReduce : CollectiveKind::AllGather;
                        said += expectStatus(communicator.run(selectingPlugin(), arguments), StatusCode::Ok);
                        if (out != (isReduced ? std::vector<int32_t>{3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
                                              : std::vector<int32_t>(15, 1)))
                          said += "wrong result";
                      }
                      return said;
                    }),
            "");
}

TEST(Selection, RanksWithDifferentMemoryTakeTheProgramForOrdinaryMemory) {
  EXPECT_EQ(onRanks(Launch::Forked,
                    [](Communicator &communicator) {
                      Caller caller(communicator);
                      std::string said;
                      for (int time = 0; time < 3; ++time) {
                        for (int64_t count : {1, 17, 65})
                          said += expectStatus(caller.run({{}, count, communicator.rank() != 1}), StatusCode::Ok);
                        said += takes(communicator, caller, {{}, 1, communicator.rank() != 2}, "pullAllReduce");
                      }
                      return said + takes(communicator, caller, {{}, 1, true}, "scratchAllReduce");
                    }),
            "");
}

TEST(Selection, WithoutAnEntryForWindowsTakesTheOneForOrdinaryMemory) {
  static const auto ordinary = loadWith(json::array({entryFor("all_reduce", "ordinary", nullptr, "pullAllReduce")}));
  EXPECT_EQ(onRanks(Launch::Forked,
                    [](Communicator &communicator) {
                      Caller caller(communicator);
                      return expectStatus(caller.run({{}, 1, true}, *ordinary), StatusCode::Ok) +
                             expectStatus(caller.run({{}, 1, communicator.rank() == 1}, *ordinary), StatusCode::Ok);
                    }),
            "");
}

// Each rank asks for the same random calls, with pointers of its own, and then all make them.
TEST(Selection, WhatWouldBeCarriedIsTheSameOnAllRanksAndIsCarried) {
  json selection = goodSelection();
  selection.insert(selection.begin() + 1, entryFor("all_gather", "ordinary", nullptr, "ringAllGather"));
  static const auto plugin = loadWith(selection);
  for (Launch kind : {Launch::Threads, Launch::Forked})
    EXPECT_EQ(onRanks(kind,
                      [](Communicator &communicator) {
                        std::mt19937 shared(7), own(static_cast<unsigned>(communicator.rank()));
                        Window window = std::move(communicator.allocate(4096)).value();
                        std::vector<std::byte> heap(4096);
                        int numCarried = 0;
                        for (int call = 0; call < 400; ++call) {
                          bool isInWindow = own() % 2;
                          std::byte *memory = isInWindow ? static_cast<std::byte *>(window.data()) : heap.data();
                          CallArguments arguments{"", *Mesh::parse(shared() % 8 ? "rank=3" : "rank=2"),
                                                  static_cast<int64_t>(shared() % 80) - 2,
                                                  static_cast<DataType>(shared() % 10)};
                          arguments.collective = static_cast<CollectiveKind>(shared() % 8);
                          arguments.reduction = static_cast<Reduction>(shared() % 5);
                          arguments.root = static_cast<int>(shared() % 5) - 1;
                          arguments.input = memory;
                          arguments.output = memory + 2048;
                          Status foretold = communicator.carries(*plugin, arguments);
                          Status found = communicator.run(*plugin, arguments);
                          numCarried += foretold.isOk();
                          if (foretold.code() != found.code())
                            return "call " + std::to_string(call) + ": foretold " + toString(foretold.code()) +
                                   ", found " + found.message();
                        }
                        return std::string(numCarried > 20 ? "" : "nearly nothing was carried");
                      }),
              "");
}

TEST(Selection, WithoutAnEntryNamesWhatWasAskedFor) {
  auto asked = [](CollectiveKind collective, const std::vector<std::string> &texts) {
    return onRanks(Launch::Threads, [&](Communicator &communicator) {
      std::vector<int32_t> memory(64);
      CallArguments arguments{"", *Mesh::parse("rank=3"), 2, DataType::I32};
      arguments.input = arguments.output = memory.data();
      arguments.collective = collective;
      return expectStatus(communicator.run(selectingPlugin(), arguments), StatusCode::InvalidArgument, texts);
    });
  };
  EXPECT_EQ(asked(CollectiveKind::AllToAll, {"selects no program for all_to_all of 24 bytes on 3 ranks", "windows"}),
            "");
}

TEST(Selection, ANameAndACollectiveMustAgree) {
  EXPECT_EQ(onRanks(Launch::Threads,
                    [](Communicator &communicator) {
                      Caller caller(communicator);
                      return expectStatus(caller.run({"ringAllGather", 1, true}), StatusCode::InvalidArgument,
                                          {"'ringAllGather' is no all_reduce"}) +
                             expectStatus(caller.run({"pullAllReduce", 1, true}), StatusCode::Ok);
                    }),
            "");
}

TEST(Selection, APluginWithoutOneAsksForAName) {
  static const auto plain = Plugin::load(KOLO_TEST_PLUGIN);
  EXPECT_EQ(onRanks(Launch::Threads,
                    [](Communicator &communicator) {
                      return expectStatus(Caller(communicator).run({{}, 1, true}, *plain), StatusCode::InvalidArgument,
                                          {"selects no program for all_reduce: name one"});
                    }),
            "");
}

TEST(Selection, IsReadAsItIsWritten) {
  const std::vector<SelectionEntry> &entries = selectingPlugin().selection();
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[3].collective, CollectiveKind::AllReduce);
  EXPECT_EQ(entries[3].ranks, 3);
  EXPECT_EQ(entries[3].memory, MemoryKind::Ordinary);
  EXPECT_EQ(entries[3].upToBytes, 256);
  EXPECT_EQ(entries[4].upToBytes, INT64_MAX);
  auto select = [](const char *mesh, int64_t numBytes) {
    return selectingPlugin().select({CollectiveKind::AllReduce, *Mesh::parse(mesh), numBytes, MemoryKind::Windows});
  };
  EXPECT_EQ(select("rank=3", 64)->info->name, "scratchAllReduce");
  EXPECT_EQ(select("rank=3", INT64_MAX)->info->name, "pullAllReduce");
  EXPECT_FALSE(select("rank=4", 64));
  EXPECT_TRUE(Plugin::load(KOLO_TEST_PLUGIN)->selection().empty());
}

TEST(Selection, GoesByTheMeshBeforeTheNumberOfRanks) {
  json selection = goodSelection();
  auto addFor = [&](json mesh, const char *program) {
    json entry = entryFor("all_reduce", "windows", nullptr, program);
    entry.erase("ranks");
    entry["mesh"] = std::move(mesh);
    selection.insert(selection.begin() + 5, entry);
  };
  addFor({{"node", 3}, {"gpu", 1}}, "scratchAllReduce");
  static const auto plugin = loadWith(selection);
  ASSERT_TRUE(plugin.isOk()) << plugin.status().message();
  auto select = [](const char *mesh) {
    return plugin->select({CollectiveKind::AllReduce, *Mesh::parse(mesh), 100, MemoryKind::Windows});
  };
  EXPECT_EQ(select("node=3,gpu=1")->info->name, "scratchAllReduce");
  EXPECT_EQ(select("node=3,gpu=1")->mesh.toString(), "rank=3") << "a program over all ranks in one dimension";
  EXPECT_EQ(select("rank=3")->info->name, "pullAllReduce");
  EXPECT_EQ(select("gpu=1,node=3")->info->name, "pullAllReduce") << "another order of ranks is another mesh";
  EXPECT_FALSE(select("node=1,gpu=1"));
  EXPECT_EQ(onRanks(Launch::Threads,
                    [](Communicator &communicator) {
                      std::vector<int32_t> in(5, 1), out(5, -1);
                      CallArguments arguments{"", *Mesh::parse("node=3,gpu=1"), 5, DataType::I32};
                      arguments.input = in.data();
                      arguments.output = out.data();
                      arguments.collective = CollectiveKind::AllReduce;
                      std::string said = expectStatus(communicator.run(*plugin, arguments), StatusCode::Ok);
                      if (out != std::vector<int32_t>(5, 3))
                        said += "wrong result";
                      arguments.mesh = *Mesh::parse("gpu=1,node=3");
                      said += expectStatus(communicator.run(*plugin, arguments), StatusCode::UnsupportedMesh,
                                           {"was not compiled for mesh gpu=1,node=3"});
                      arguments.mesh = *Mesh::parse("node=3,gpu=2");
                      return said + expectStatus(communicator.run(*plugin, arguments), StatusCode::InvalidArgument,
                                                 {"mesh node=3,gpu=2 has 6 ranks, the communicator has 3"});
                    }),
            "");
}

TEST(Selection, EveryMistakeOfAMeshIsNamed) {
  auto refusal = [](const char *field, const json &mesh, const char *text) {
    json selection = goodSelection();
    selection[0].erase("ranks");
    selection[0]["mesh"] = {{"node", 1}, {"gpu", 3}};
    selection[0][field] = mesh;
    std::swap(selection[0], selection[4]); // out of order, which is looked at last
    return expectStatus(loadWith(selection).status(), StatusCode::BadPlugin, {text});
  };
  EXPECT_EQ(refusal("ranks", 3, "selection[4].ranks' stands beside 'mesh'"), "");
  EXPECT_EQ(refusal("mesh", 3, "selection[4].mesh' has the wrong type"), "");
  EXPECT_EQ(refusal("mesh", json::object(), "selection[4].mesh' has no dimension"), "");
  EXPECT_EQ(refusal("mesh", {{"node", 0}}, "selection[4].mesh.node' is out of range"), "");
  EXPECT_EQ(refusal("mesh", {{"node", "two"}}, "selection[4].mesh.node' has the wrong type"), "");
  EXPECT_EQ(refusal("mesh", {{"node", 1048576}, {"gpu", 2}}, "a mesh has at most 1048576 ranks"), "");
  EXPECT_EQ(refusal("mesh", {{"node", 5}}, "selection[4].program' names a program that was not compiled for node=5"),
            "");
}

TEST(Selection, EveryMistakeIsNamed) {
  auto refusal = [](size_t index, const char *field, std::optional<json> value, const char *text) {
    json selection = goodSelection();
    if (value)
      selection[index][field] = *value;
    else
      selection[index].erase(field);
    return expectStatus(loadWith(selection).status(), StatusCode::BadPlugin, {text});
  };
  for (const char *field : {"collective", "ranks", "memory", "upToBytes", "program"})
    EXPECT_EQ(refusal(1, field, std::nullopt, ("selection[1]." + std::string(field) + "' is missing").c_str()), "");
  EXPECT_EQ(refusal(1, "collective", "gossip", "selection[1].collective"), "");
  EXPECT_EQ(refusal(1, "memory", "tape", "selection[1].memory"), "");
  EXPECT_EQ(refusal(1, "ranks", -1, "selection[1].ranks"), "");
  EXPECT_EQ(refusal(1, "ranks", 5, "selection[1].program' names a program that was not compiled for so many ranks"),
            "");
  EXPECT_EQ(refusal(1, "upToBytes", -1, "selection[1].upToBytes' is out of range"), "");
  EXPECT_EQ(refusal(1, "upToBytes", 1.5, "selection[1].upToBytes' has the wrong type"), "");
  EXPECT_EQ(refusal(1, "upToBytes", 18446744073709551615u, "selection[1].upToBytes' is out of range"), "");
  EXPECT_EQ(refusal(1, "upToBytes", nullptr, "selection[2].upToBytes' is not above that of the entry before"), "");
  EXPECT_EQ(refusal(2, "upToBytes", 100, "selection[2].upToBytes' leaves larger sizes without a program"), "");
  EXPECT_EQ(refusal(1, "program", "absent", "selection[1].program' names no program"), "");
  EXPECT_EQ(refusal(1, "program", "ringAllGather", "selection[1].program' names a program of another collective"), "");
  json swapped = goodSelection();
  std::swap(swapped[0], swapped[4]);
  EXPECT_EQ(expectStatus(loadWith(swapped).status(), StatusCode::BadPlugin, {"selection[1]' is out of order"}), "");
  EXPECT_EQ(expectStatus(loadWith(1).status(), StatusCode::BadPlugin, {"'selection' has the wrong type"}), "");
  EXPECT_EQ(expectStatus(loadWith(json::array({1})).status(), StatusCode::BadPlugin, {"selection[0].collective"}), "");
}
