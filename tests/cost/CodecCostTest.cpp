// What codecs change of a cost: bytes on links, and what a conversion reads and writes.
#include "codec/Presets.h"
#include "compiler/cost/closedform/ClosedForm.h"
#include "compiler/cost/simulation/Simulation.h"
#include "ir/Kolo.h"
#include "tests/cost/Costs.h"
#include "tests/support/Algorithms.h"
#include "tools/compile/Compile.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace kolo::cost {
namespace {

using test::Sizes;
using Codecs = std::map<std::string, dsl::Codec>;

struct CodedCost {
  std::string algorithm;
  Sizes mesh;
  Codecs codecs = {};
  int64_t elementBytes = 4;
  Schedule schedule = {};
};

/// Seconds.
Both costOf(const Machine &machine, const CodedCost &what, int64_t bytes) {
  const dsl::Definition &definition = test::definitionOf(what.algorithm);
  tools::CompileRequest request;
  request.definitions = {definition};
  request.meshes = {test::namedMesh(definition, what.mesh)};
  request.codecs = what.codecs;
  request.schedule = what.schedule;
  Placement placement = get(Placement::create(machine, {definition.mesh.dims, what.mesh}, ""));
  Both both{};
  tools::compileForCosts(
      request, Runners::Any,
      [&](mlir::ModuleOp choreographies, mlir::ModuleOp programs, const ResolvedSchedule &schedule) {
        ProgramOp program = *programs.getOps<ProgramOp>().begin();
        ProgramFacts facts = ProgramFacts::of(program);
        both.closedForm = get(ClosedForm::create(*choreographies.getOps<ChoreographyOp>().begin(), schedule, machine,
                                                 placement, Rates::Peak, 0, &facts, what.elementBytes))
                              .seconds(bytes);
        both.simulation =
            get(get(Simulation::create(program, machine, placement, {Rates::Peak, 0, 1, what.elementBytes}))
                    .predict(bytes))
                .prediction.seconds;
      });
  return both;
}

/// Two devices, a link of 1 GB/s each way, and so much memory bandwidth.
Machine twoDevices(double linkGigabytes, double memoryGigabytes) {
  return get(Machine::parse(fmt::format(R"({{"version": 1, "name": "two", "title": "Two", "nodes": 1,
        "node": {{"devices": {{"name": "GPU", "count": 2, "memory": {{"gigabytesPerSecond": {}}}}},
                 "links": [{{"from": "GPU 0", "to": "GPU 1", "class": "pair", "count": 1}}]}},
        "linkClasses": [{{"name": "pair", "gigabytesPerSecond": {}, "latencyMicroseconds": {{"bulk": 0, "ll": 0}}}}],
        "payloadShare": {{"ll": 0.5}}}})",
                                        memoryGigabytes, linkGigabytes),
                            "two"));
}

void expectBoth(const Both &both, double seconds) {
  EXPECT_NEAR(both.closedForm, seconds, 1e-3 * seconds);
  EXPECT_NEAR(both.simulation, seconds, 1e-3 * seconds);
}

} // namespace

TEST(CodecCost, LinksCarryEncodedBytes) {
  Machine machine = twoDevices(1, 1e6);
  for (const char *name : {"int8(256)", "int4(256)", "quick6", "mxfp4", "sign", "bf16", "f32", "none"})
    for (int64_t elementBytes : {4, 2}) {
      SCOPED_TRACE(name);
      codec::Codec codec = *codec::parse(name);
      double encoded = codec::isNone(codec) ? 1024.0 * double(elementBytes) : double(codec::bytes(codec, 1024));
      // Each rank sends its half of the output.
      double onLink = 32 * mib * encoded / (1024.0 * double(elementBytes));
      expectBoth(costOf(machine, {"quantisedRingAllGather", {2}, {{"weights", codec}}, elementBytes}, 64 * mib),
                 onLink / 1e9);
    }
}

TEST(CodecCost, AConversionReadsAndWritesMemory) {
  // A rank alone encodes its input, and decodes it into the output.
  Machine machine = twoDevices(1e6, 1);
  for (const char *name : {"int8(256)", "mxfp4", "bf16", "none"})
    for (int64_t elementBytes : {4, 2}) {
      SCOPED_TRACE(name);
      codec::Codec codec = *codec::parse(name);
      double before = double(elementBytes),
             after = codec::isNone(codec) ? before : double(codec::bytes(codec, 1024)) / 1024;
      double elements = 64 * mib / before;
      expectBoth(costOf(machine, {"quantisedRingAllGather", {1}, {{"weights", codec}}, elementBytes}, 64 * mib),
                 2 * (before + after) * elements / 1e9);
    }
}

namespace {

/// Frontier's network, and nodes whose devices are behind a switch that is as fast as the bound of a node's own links:
/// 333.3 GB/s of an all-gather, 166.7 GB/s of an all-reduce.
Machine nodesAtTheBound(bool hasMemory) {
  std::ifstream file(KOLO_MACHINES "/frontier.json");
  auto machine = nlohmann::ordered_json::parse(file);
  nlohmann::ordered_json &node = machine["node"];
  node.erase("host");
  node["switches"] = {{{"name", "switch"}}};
  node["links"] = nlohmann::ordered_json::array();
  for (int device = 0; device < 8; ++device) {
    std::string name = fmt::format("GCD {}", device);
    node["links"].push_back({{"from", name}, {"to", "switch"}, {"class", "port"}, {"count", 1}});
    node["links"].push_back(
        {{"from", name}, {"to", fmt::format("hsn{}", device / 2)}, {"class", "pcie"}, {"count", 1}});
  }
  nlohmann::ordered_json classes = {{{"name", "port"},
                                     {"gigabytesPerSecond", 7.0 / 8 * 1000 / 3},
                                     {"latencyMicroseconds", {{"bulk", 1.8}, {"ll", 0.4}}}}};
  for (const auto &kind : machine["linkClasses"])
    if (kind["name"] == "pcie" || kind["name"] == "slingshot")
      classes.push_back(kind);
  machine["linkClasses"] = classes;
  if (!hasMemory)
    node["devices"].erase("memory");
  return get(Machine::parse(machine.dump(), "nodes at the bound"));
}

/// How many times as long as with the codec an f32 all-reduce of 1 GiB takes without, on 16 nodes of 8.
Both gain(const Machine &machine, const dsl::Codec &network, int pipeline) {
  auto cost = [&](const dsl::Codec &codec) {
    return costOf(
        machine,
        {"hybridAllReduce", {16, 8}, {{"network", codec}, {"node", dsl::none()}}, 4, {.pipelineDepth = pipeline}},
        1024 * mib);
  };
  Both exact = cost(dsl::none()), encoded = cost(network);
  return {exact.closedForm / encoded.closedForm, exact.simulation / encoded.simulation};
}

} // namespace

// By bandwidths alone: 18.75 ns per byte of network and 6 of node, against 4.76 and 6.
TEST(CodecCost, EightBitsOnFrontiersNetworkGain2Point3TimesInSequenceAnd3Point1InAPipeline) {
  Machine machine = nodesAtTheBound(/*hasMemory=*/true), withoutMemory = nodesAtTheBound(/*hasMemory=*/false);
  Both inSequence = gain(withoutMemory, dsl::int8(), 1), pipelined = gain(machine, dsl::int8(), 64);
  EXPECT_NEAR(inSequence.closedForm, 2.3, 0.05);
  EXPECT_NEAR(inSequence.simulation, 2.3, 0.05);
  EXPECT_NEAR(pipelined.closedForm, 3.1, 0.05);
  EXPECT_GT(pipelined.simulation, 2.8); // slices have latencies
  // Then the node is the limit.
  EXPECT_NEAR(gain(machine, dsl::int4(), 64).closedForm, pipelined.closedForm, 0.05);
  // What ranks copy and convert in sequence takes time of its own.
  Both withMemory = gain(machine, dsl::int8(), 1);
  EXPECT_GT(withMemory.closedForm, 1.9);
  EXPECT_LT(withMemory.closedForm, inSequence.closedForm);
  fmt::print(
      "in sequence {:.2f} and {:.2f} times, with time of memory {:.2f} and {:.2f}; pipelined {:.2f} and {:.2f}\n",
      inSequence.closedForm, inSequence.simulation, withMemory.closedForm, withMemory.simulation, pipelined.closedForm,
      pipelined.simulation);
}

} // namespace kolo::cost
