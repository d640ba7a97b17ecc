// Every algorithm that is linked in, compiled to a plugin, and where it is tested. Shared by the tests of this folder.
#pragma once

#include "Cases.h"

#include "tests/support/Support.h"

#include "compiler/Schedule.h"

#include "kolo/dsl/Registry.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

namespace kolo::conformance {

using test::definitionOf;
using test::EveryAlgorithm;
using test::namedMesh;
using test::packetAlgorithmNames;
using test::publishingAlgorithmNames;
using test::sweptAlgorithmNames;
using test::testSeed;

/// The meshes that an algorithm is tested on: those of its number of dimensions that it allows.
std::vector<Sizes> meshesOf(const dsl::Definition &definition);

/// One plugin for all of an algorithm's meshes, made in a temporary folder that is gone at the end of the process.
class CompiledAlgorithm {
public:
  /// `network`: dimensions whose ranks may be on different hosts.
  CompiledAlgorithm(const std::string &name, bool optimize, const Schedule &schedule = {},
                    const std::vector<std::string> &network = {});

  const runtime::Plugin &plugin() const { return *loaded; }
  const runtime::ProgramInfo &info() const { return loaded->programs().front(); }
  CollectiveAttr collective();
  bool isRooted() const;
  int64_t groupSize(const Sizes &mesh) const;
  /// Blocks of `count` elements in the larger buffer of a rank.
  int64_t numBlocks(const Sizes &mesh);

private:
  mlir::MLIRContext context;
  std::optional<runtime::Plugin> loaded;
};

/// Algorithms whose buffers have codecs.
class EveryCodedAlgorithm : public testing::TestWithParam<std::string> {};
class EveryPublishingAlgorithm : public testing::TestWithParam<std::string> {};
/// With every format of packets.
class EveryPacketAlgorithm : public testing::TestWithParam<std::tuple<std::string, Protocol>> {
protected:
  const std::string &name() const { return std::get<0>(GetParam()); }
  Schedule schedule() const { return {.protocol = std::get<1>(GetParam())}; }
};
} // namespace kolo::conformance
