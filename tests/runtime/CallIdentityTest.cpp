// What makes two calls the same, and two plugins.
#include "call/CallIdentity.h"
#include "loader/PluginState.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

using namespace kolo::runtime;

namespace {

const CallArguments usual{"allReduce", *Mesh::parse("node=2,gpu=4"), 1000, DataType::F32};

PluginContent contentOf(uint64_t checksum, const char *manifest) {
  return {checksum, std::make_shared<const std::string>(manifest)};
}

} // namespace

TEST(CallIdentity, DiffersWhereAnyArgumentButTheBuffersDoes) {
  const std::pair<const char *, std::function<void(CallArguments &)>> changes[] = {
      {"program", [](CallArguments &call) { call.program = "other"; }},
      {"mesh size", [](CallArguments &call) { call.mesh = *Mesh::parse("node=4,gpu=2"); }},
      {"mesh name", [](CallArguments &call) { call.mesh = *Mesh::parse("host=2,gpu=4"); }},
      {"count", [](CallArguments &call) { ++call.count; }},
      {"type", [](CallArguments &call) { call.type = DataType::I32; }},
      {"reduction", [](CallArguments &call) { call.reduction = Reduction::Max; }},
      {"root", [](CallArguments &call) { call.root = 1; }},
      {"collective", [](CallArguments &call) { call.collective = CollectiveKind::AllReduce; }},
  };
  for (const auto &[name, change] : changes) {
    CallArguments changed = usual;
    change(changed);
    EXPECT_FALSE((CallIdentity{1, usual} == CallIdentity{1, changed})) << name;
  }
  EXPECT_FALSE((CallIdentity{1, usual} == CallIdentity{2, usual})) << "the plugin's load";
}

TEST(CallIdentity, IsEqualWhereverTextAndBuffersLie) {
  std::string program = "allReduce";
  CallArguments other = usual;
  other.program = program;
  other.input = &other;
  KeptCall kept(1, other);
  program = "gone";
  EXPECT_TRUE((CallIdentity{1, usual} == kept.identity()));
}

TEST(PluginContent, OfEqualChecksumIsTheSameOnlyWithTheSameManifest) {
  PluginContent one = contentOf(7, "one"), again = contentOf(7, "one"), collides = contentOf(7, "two");
  EXPECT_TRUE(one == again);
  EXPECT_FALSE(one == collides);
  EXPECT_TRUE(one < collides && !(collides < one));
  EXPECT_FALSE(one == contentOf(8, "one"));
}
