#include "../support/Sanitizers.h"
#include "Ranks.h"
#include "kolo/runtime/Plugin.h"
#include "plugin/Pack.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

using namespace kolo::test;
using namespace kolo::runtime;
using nlohmann::json;

namespace {

class Loader : public testing::Test {
protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// Loads these bytes from a file; "" when that fails with this code, one line, the file's name and the text.
  std::string failure(const std::string &bytes, StatusCode code, const std::string &text) {
    writeFile(path, bytes);
    Status status = Plugin::load(path).status();
    if (status.message().find('\n') != std::string::npos)
      return "more than one line: " + status.message();
    return expectStatus(status, code, {path, text});
  }
  std::string withManifest(const std::string &text) { return pack(elf, text, footerFor(elf, text)); }
  std::string withTarget(const char *field, const char *value) {
    json changed = json::parse(manifest);
    changed["target"][field] = value;
    return withManifest(changed.dump());
  }

  std::string folder = testing::TempDir() + "/kolo-loader-" + std::to_string(getpid());
  std::string path = folder + "/plugin.so";
  std::string elf = readFile(KOLO_TEST_LIBRARY);
  std::string manifest = readFile(KOLO_TEST_MANIFEST);
};

} // namespace

TEST_F(Loader, AGoodPluginTellsWhatItsManifestSays) {
  auto plugin = Plugin::load(KOLO_TEST_PLUGIN);
  ASSERT_TRUE(plugin.isOk()) << plugin.status().message();
  EXPECT_EQ(plugin->programs().size(), 14u);
  const ProgramInfo *ring = plugin->findProgram("ringAllGather");
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(ring->collective, CollectiveKind::AllGather);
  EXPECT_EQ(ring->meshDims, std::vector<std::string>{"rank"});
  EXPECT_EQ(ring->meshes.size(), 7u);
  ASSERT_EQ(ring->proved.size(), 7u);
  EXPECT_EQ(ring->proved[4].mesh, std::vector<int64_t>{8});
  EXPECT_EQ(ring->proved[4].on, std::vector<int64_t>{4});
  EXPECT_FALSE(ring->isUnproved);
  EXPECT_EQ(ring->numSemaphores, 2);
  EXPECT_EQ(ring->inPlace, InPlace::Direct);
  EXPECT_EQ(ring->statements.at(1).line, 12);
  EXPECT_EQ(plugin->findProgram("pullAllReduce")->inPlace, InPlace::CopyInput);
  EXPECT_EQ(plugin->findProgram("nothing"), nullptr);
  EXPECT_EQ(plugin->manifest(), manifest);
  EXPECT_EQ(*Plugin::readManifest(KOLO_TEST_PLUGIN), manifest);
}

TEST_F(Loader, TellsOnWhichMeshesAProgramIsProved) {
  auto plugin = Plugin::load(KOLO_TEST_PLUGIN);
  ASSERT_TRUE(plugin.isOk()) << plugin.status().message();
  const ProgramInfo *pull = plugin->findProgram("pullAllReduce");
  EXPECT_TRUE(pull->isUnproved);
  EXPECT_TRUE(pull->isProved({2}));
  EXPECT_FALSE(pull->isProved({3}));
  EXPECT_FALSE(pull->isProved({2, 1}));
  EXPECT_TRUE(plugin->findProgram("rowBroadcast")->isProved({1, 3}));
}

TEST_F(Loader, TwoPluginsAreTwoLibraries) {
  auto first = Plugin::load(KOLO_TEST_PLUGIN);
  json changed = json::parse(manifest);
  changed["kolo"] = "0.1.1";
  writeFile(path, withManifest(changed.dump()));
  auto second = Plugin::load(path);
  ASSERT_TRUE(first.isOk() && second.isOk());
  EXPECT_NE(first->identity(), second->identity());
}

TEST_F(Loader, LoadingLeavesNoDescriptorBehind) {
  int before = countDescriptors();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Plugin::load(KOLO_TEST_PLUGIN).isOk());
    EXPECT_EQ(failure("short", StatusCode::BadPlugin, "too short"), "");
    EXPECT_EQ(failure(withManifest("{}"), StatusCode::BadPlugin, "missing"), "");
  }
  EXPECT_EQ(countDescriptors(), before);
}

TEST_F(Loader, WhatIsNoPluginFileIsRefused) {
  EXPECT_EQ(
      expectStatus(Plugin::load(folder + "/absent").status(), StatusCode::SystemError, {"absent", "No such file"}), "");
  EXPECT_EQ(expectStatus(Plugin::load(folder).status(), StatusCode::BadPlugin, {folder, "not a regular file"}), "");
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(expectStatus(Plugin::load(folder + "/pipe").status(), StatusCode::BadPlugin, {"not a regular file"}), "");
  EXPECT_EQ(failure("", StatusCode::BadPlugin, "0 bytes is too short"), "");
  EXPECT_EQ(failure("tiny", StatusCode::BadPlugin, "too short"), "");
  EXPECT_EQ(failure(elf, StatusCode::BadPlugin, "does not end like a Kolo plugin"), "");
}

TEST_F(Loader, EveryTruncationIsRefused) {
  std::string whole = readFile(KOLO_TEST_PLUGIN);
  for (size_t cut = 1; cut < whole.size(); cut += 1 + whole.size() / 97)
    EXPECT_EQ(failure(whole.substr(0, whole.size() - cut), StatusCode::BadPlugin, ""), "") << cut;
  EXPECT_EQ(failure(whole.substr(16), StatusCode::BadPlugin, "truncated"), "");
}

TEST_F(Loader, EveryDamagedByteIsRefused) {
  const std::string whole = readFile(KOLO_TEST_PLUGIN);
  for (size_t at = 0; at < whole.size(); at += at + 64 < whole.size() ? 499 : 1) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_EQ(failure(damaged, StatusCode::BadPlugin, ""), "") << at;
  }
}

TEST_F(Loader, AnotherAbiVersionIsRefused) {
  KoloPluginFooter footer = footerFor(elf, manifest);
  footer.abiVersion = 77;
  EXPECT_EQ(failure(pack(elf, manifest, footer), StatusCode::BadPlugin, "ABI version 77"), "");
  json changed = json::parse(manifest);
  changed["abi"] = 78;
  EXPECT_EQ(failure(withManifest(changed.dump()), StatusCode::BadPlugin, "ABI version 78"), "");
}

TEST_F(Loader, SizesThatDoNotAddUpAreRefused) {
  KoloPluginFooter footer = footerFor(elf, manifest);
  footer.elfBytes = ~uint64_t(0);
  EXPECT_EQ(failure(pack(elf, manifest, footer), StatusCode::BadPlugin, "truncated"), "");
  footer = footerFor(elf, manifest);
  footer.footerBytes = 8;
  EXPECT_EQ(failure(pack(elf, manifest, footer), StatusCode::BadPlugin, "footer says 8"), "");
}

TEST_F(Loader, AnotherTargetIsRefused) {
  EXPECT_EQ(failure(withTarget("kind", "cuda"), StatusCode::UnsupportedCpu, "'cuda'"), "");
  EXPECT_EQ(failure(withTarget("triple", "riscv64-linux-gnu"), StatusCode::UnsupportedCpu, "riscv64"), "");
  EXPECT_EQ(failure(withTarget("cpu", "z80"), StatusCode::UnsupportedCpu, "z80"), "");
}

TEST_F(Loader, InstrumentedCodeIsRefusedWhereItsSanitizerIsNot) {
  auto withSanitizer = [&](const json &value) {
    json changed = json::parse(manifest);
    changed["sanitize"] = value;
    return withManifest(changed.dump());
  };
  EXPECT_EQ(failure(withSanitizer("memory"), StatusCode::BadPlugin, "'memory'"), "");
  EXPECT_EQ(failure(withSanitizer(1), StatusCode::BadPlugin, "field 'sanitize' has the wrong type"), "");
  if (!isThreadSanitized) {
    EXPECT_EQ(
        failure(withSanitizer("thread"), StatusCode::BadPlugin, "thread sanitizer, which this process does not run"),
        "");
    return;
  }
  writeFile(path, withSanitizer("thread"));
  EXPECT_EQ(Plugin::load(path).status().message(), "");
}

TEST_F(Loader, CodeForAnotherArchitectureIsRefused) {
  std::string foreign = elf;
  foreign[18] = 8; // e_machine: MIPS
  foreign[19] = 0;
  EXPECT_EQ(failure(pack(foreign, manifest, footerFor(foreign, manifest)), StatusCode::UnsupportedCpu, "architecture"),
            "");
  std::string text(4096, 'x');
  EXPECT_EQ(failure(pack(text, manifest, footerFor(text, manifest)), StatusCode::BadPlugin, "no ELF"), "");
  std::string cut = elf.substr(0, elf.size() / 4);
  EXPECT_EQ(failure(pack(cut, manifest, footerFor(cut, manifest)), StatusCode::BadPlugin, "truncated"), "");
}

TEST_F(Loader, ALibraryWithoutTheEntryIsRefused) {
  std::string renamed = elf;
  for (size_t at; (at = renamed.find("kolo_plugin")) != std::string::npos;)
    renamed[at] = 'x'; // in the string tables; the hash table no longer finds it either
  EXPECT_EQ(failure(pack(renamed, manifest, footerFor(renamed, manifest)), StatusCode::BadPlugin, "kolo_plugin"), "");
}

TEST_F(Loader, EveryMissingOrMistypedFieldIsNamed) {
  EXPECT_EQ(failure(withManifest("not json"), StatusCode::BadPlugin, "not a JSON object"), "");
  EXPECT_EQ(failure(withManifest("[]"), StatusCode::BadPlugin, "not a JSON object"), "");
  const json whole = json::parse(manifest);
  for (const char *field : {"kolo", "abi", "target", "programs"}) {
    json changed = whole;
    changed.erase(field);
    EXPECT_EQ(failure(withManifest(changed.dump()), StatusCode::BadPlugin, field), "");
  }
  for (const auto &[field, value] : whole["programs"][0].items()) {
    json changed = whole;
    changed["programs"][0].erase(field);
    if (field != "networkDims") // which is optional
      EXPECT_EQ(failure(withManifest(changed.dump()), StatusCode::BadPlugin, "programs[0]." + field), "");
    changed = whole;
    changed["programs"][0][field] = nullptr;
    EXPECT_EQ(failure(withManifest(changed.dump()), StatusCode::BadPlugin, "programs[0]." + field), "");
  }
}

TEST_F(Loader, ImpossibleValuesAreRefused) {
  const json whole = json::parse(manifest);
  auto refusal = [&](const char *field, const json &value) {
    json changed = whole;
    changed["programs"][0][field] = value;
    return failure(withManifest(changed.dump()), StatusCode::BadPlugin, field);
  };
  EXPECT_EQ(refusal("semaphores", -1), "");
  EXPECT_EQ(refusal("semaphores", 1e3), "");
  EXPECT_EQ(refusal("semaphores", 18446744073709551615u), "");
  EXPECT_EQ(refusal("groupDims", json::array({1})), "");
  EXPECT_EQ(refusal("groupDims", json::array({"rank"})), "");
  EXPECT_EQ(refusal("meshes", json::array({json::array({2, 2})})), "");
  EXPECT_EQ(refusal("meshes", json::array({json::array({0})})), "");
  EXPECT_EQ(refusal("meshes", json::array({json::array({1048577})})), "");
  EXPECT_EQ(refusal("collective", "gossip"), "");
  EXPECT_EQ(refusal("inPlace", "perhaps"), "");
  EXPECT_EQ(refusal("statements", json::array({1})), "");
  EXPECT_EQ(refusal("unproved", 0), "");
  auto proof = [](json mesh, json on) { return json::array({{{"mesh", std::move(mesh)}, {"on", std::move(on)}}}); };
  EXPECT_EQ(refusal("proved", json::array({json::array({2})})), "");
  EXPECT_EQ(refusal("proved", json::array({json::object({{"mesh", json::array({2})}})})), "");
  EXPECT_EQ(refusal("proved", proof(json::array({2}), json::array({0}))), "");
  EXPECT_EQ(refusal("proved", proof(json::array({2}), json::array({2, 1}))), "");
  EXPECT_EQ(refusal("proved", proof(2, json::array({2}))), "");
  EXPECT_EQ(refusal("proved", proof(json::array({5}), json::array({5}))), ""); // none of its meshes
  auto refusalOf = [&](const json &fields, const char *field) {
    json changed = whole;
    changed["programs"][0]["proved"][0].update(fields);
    return failure(withManifest(changed.dump()), StatusCode::BadPlugin, field);
  };
  EXPECT_EQ(refusalOf({{"blockTables", 1}}, "proved[0].blockTables"), "");
  EXPECT_EQ(refusalOf({{"blockTables", true}, {"rowLists", "yes"}}, "proved[0].rowLists"), "");
  EXPECT_EQ(refusalOf({{"rowLists", true}}, "proved[0].rowLists' is true where there are no block tables"), "");
}

TEST_F(Loader, AManifestThatDisagreesWithTheCodeIsRefused) {
  json changed = json::parse(manifest);
  changed["programs"][0]["name"] = "other";
  EXPECT_EQ(failure(withManifest(changed.dump()), StatusCode::BadPlugin, "'other' in its manifest"), "");
  changed = json::parse(manifest);
  changed["programs"].erase(5);
  EXPECT_EQ(failure(withManifest(changed.dump()), StatusCode::BadPlugin, "13 programs, its code 14"), "");
}
