// Which programs take block tables: every move must know how long the chunk is that it moves.
#include "Support.h"

#include "compiler/check/Verdict.h"
#include "tools/compile/Compile.h"

#include <kolo/dsl/Language.h>

using namespace kolo;
using namespace kolo::test;
using namespace kolo::dsl;

namespace {

/// Why the checker says that calls may have no block tables. It proves the program.
std::string whyNot(const Definition &definition, const Sizes &mesh, const kolo::Schedule &schedule = {}) {
  tools::CompileRequest request;
  request.definitions = {definition};
  request.meshes = {namedMesh(definition, mesh)};
  request.schedule = schedule;
  std::string why;
  tools::compileToChannel(request, [&](mlir::ModuleOp module) {
    Verdict verdict = checkProgram(*module.getOps<ProgramOp>().begin(), mesh);
    EXPECT_TRUE(verdict.isProved()) << definition.name;
    why = verdict.whyNoBlockTables;
  });
  return why;
}

/// The reason without the line.
std::string reasonOf(const Definition &definition, const Sizes &mesh, const kolo::Schedule &schedule = {}) {
  std::string why = whyNot(definition, mesh, schedule);
  return why.substr(0, why.rfind(": "));
}

// Gathers each block one place further, and then moves all of them back.
KOLO_COLLECTIVE(shiftedAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), shifted = c.scratch("shifted", out);
  c.copy(in, shifted[me[d] + 1]);
  c.send(shifted[me[d] + 1]).to(me.others(d));
  c.loop(d.size(), [&](Index i) { c.copy(shifted[i + 1], out[i]); });
}

// The same, where every block has its own place.
KOLO_COLLECTIVE(placedAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), placed = c.scratch("placed", out);
  c.copy(in, placed[me]);
  c.send(placed[me]).to(me.others(d));
  c.copy(placed, out);
}

// In the first step a block lies where another one belongs.
KOLO_COLLECTIVE(misplacedAllToAll, AllToAll, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank(), peer = me.others(d);
  Buffer in = c.input(), out = c.output(), one = c.blocks("one", 1);
  c.copy(in[me], out[me[d] + 1]);
  c.copy(out[me[d] + 1], one[0]);
  c.send(in[peer]).to(peer).at(out[me]);
  c.copy(one[0], out[me]);
}

int lineOfFault = 0; // of the next two

// On the way to their nodes, blocks lie where those of another node belong: there the table tells of those.
KOLO_COLLECTIVE(misreadAllToAll, AllToAll, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank(), inNode = me.others(gpu), onRail = me.others(node);
  Buffer in = c.input(), out = c.output(), stage = c.scratch("stage", in);
  c.copy(in[{all, me[gpu]}], stage[{all, me[gpu]}]);
  c.send(in[{all, inNode[gpu]}]).to(inNode).at(stage[{all, me[gpu]}]);
  lineOfFault = __LINE__ + 1;
  c.copy(stage[{me[node] + 1, all}], out[{me[node], all}]);
  c.copy(stage[{me[node], all}], out[{me[node], all}]);
  c.send(stage[{onRail[node], all}]).to(onRail).at(out[{me[node], all}]);
}

// What is forwarded goes where the block of another node belongs, and from there to its place.
KOLO_COLLECTIVE(misforwardedAllToAll, AllToAll, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank(), inNode = me.others(gpu), onRail = me.others(node);
  Buffer in = c.input(), out = c.output(), stage = c.scratch("stage", in);
  c.copy(in[{all, me[gpu]}], stage[{all, me[gpu]}]);
  c.send(in[{all, inNode[gpu]}]).to(inNode).at(stage[{all, me[gpu]}]);
  lineOfFault = __LINE__ + 1;
  c.send(stage[{onRail[node], all}]).to(onRail).at(out[{me[node] + 1, all}]);
  c.send(stage[{onRail[node], all}]).to(onRail).at(out[{me[node], all}]);
  c.copy(stage[{me[node], all}], out[{me[node], all}]);
}

// All moves of the fuse are as long as its slice, which lies where the first rank's block belongs.
KOLO_COLLECTIVE(misfusedAllGather, AllGather, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), misfused = c.scratch("misfused", out);
  c.copy(in, misfused[0]);
  c.copy(misfused[0], out[me]);
  c.send(misfused[0]).to(me.others(d)).at(out[me]);
}

// A block of another node lies where this node's table tells of one of this node.
KOLO_COLLECTIVE(crossedAllGather, AllGather.over("gpu"), Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer in = c.input(), out = c.output(), crossed = c.scratch("crossed", out);
  c.copy(in, out[me[gpu]]);
  c.send(in).to(me.next(node)).at(crossed[me[gpu]]);
  c.send(crossed[me[gpu]]).to(me.next(node, -1).others(gpu)).at(out[me[gpu]]);
}

// Each rank holds chunks of two blocks in one block of its own, which two ranks have sent.
KOLO_COLLECTIVE(mixedReduceScatter, ReduceScatter, Mesh("rank")) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Buffer in = c.input().grid(d, 2), out = c.output().grid(2), mixed = c.scratch("mixed", out);
  c.copy(in[me], out);
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t step = 1; step < 5; ++step)
      if (step != 3)
        c.send(in[{me[d] + step, half}]).to(me.next(d, step)).at(out[half]).reduce();
    c.send(in[{me[d] - 2, half}]).to(me.next(d, half + 1)).at(mixed[half]);
    c.send(mixed[half]).to(me.next(d, -3 - half)).at(out[half]).reduce();
  }
}

const Definition &named(const std::string &name) {
  for (const Definition &definition : registeredChoreographies())
    if (definition.name == name)
      return definition;
  throw std::runtime_error("no " + name);
}

} // namespace

TEST(BlockTables, AreTakenWhereEveryBlockHasItsPlace) {
  EXPECT_EQ(whyNot(named("placedAllGather"), {4}), "");
  for (const char *name : {"ringAllGather", "ringReduceScatter", "directAllToAll", "directGather", "directScatter"})
    EXPECT_EQ(whyNot(definitionOf(name), {6}), "") << name;
  EXPECT_EQ(whyNot(definitionOf("hierarchicalReduceScatter"), {2, 4}), "");
}

TEST(BlockTables, AreRefusedWhereAPlaceIsThatOfAnotherBlock) {
  EXPECT_EQ(reasonOf(named("shiftedAllGather"), {4}), "is fused with moves of a chunk of another block");
  EXPECT_EQ(reasonOf(named("misplacedAllToAll"), {3}), "moves a chunk to a block of another length");
  EXPECT_EQ(reasonOf(definitionOf("bineAllGather"), {8}),
            "moves a chunk of another block than the one that says how long it is");
  EXPECT_EQ(reasonOf(named("misfusedAllGather"), {4}), "is fused with moves of a chunk of another block");
  EXPECT_EQ(reasonOf(named("mixedReduceScatter"), {5}),
            "moves chunks of blocks of different lengths to one block of the program's own memory");
}

TEST(BlockTables, AreRefusedWhereBlocksComeToAnotherGroup) {
  EXPECT_EQ(reasonOf(named("crossedAllGather"), {2, 2}),
            "moves a chunk to another group of ranks, whose tables are others");
  EXPECT_EQ(whyNot(definitionOf("nodeLocalAllGather"), {2, 4}), "");
}

TEST(BlockTables, AreTakenWhereLengthsComeWithTheBlocks) {
  for (const char *name : {"binomialGather", "binomialScatter", "patAllGather", "patReduceScatter"})
    for (int64_t numRanks : {2, 5, 8})
      EXPECT_EQ(whyNot(definitionOf(name), {numRanks}, {.transfers = kolo::Transfers::Push}), "") << name;
  for (const char *name : {"twoLevelAllToAll", "quantisedTwoLevelAllToAll"})
    for (const Sizes &mesh : {Sizes{2, 3}, {4, 2}})
      for (int64_t depth : {1, 3})
        EXPECT_EQ(whyNot(definitionOf(name), mesh, {.pipelineDepth = depth}), "") << name;
}

TEST(BlockTables, AreRefusedWhereNobodyKnowsALengthInTime) {
  EXPECT_EQ(reasonOf(definitionOf("binomialScatter"), {4}),
            "only the peer has a table of the chunks that it reads from there");
  EXPECT_EQ(reasonOf(definitionOf("twoLevelAllToAll"), {2, 2}, {.protocol = kolo::Protocol::LL}),
            "packets do not say how long the chunks are that it takes out of them here");
  EXPECT_EQ(reasonOf(definitionOf("twoLevelAllToAll"), {2, 2}, {.transfers = kolo::Transfers::Pull}),
            "only the peer has a table of the chunks that it reads from there");
}

TEST(BlockTables, AreRefusedWhereALengthIsThatOfAnotherBlock) {
  const std::string misread = "moves a chunk of another block than the one that says how long it is",
                    misforwarded = "moves a chunk to a block of another length";
  for (const auto &[name, reason] : {std::pair("misreadAllToAll", misread), {"misforwardedAllToAll", misforwarded}}) {
    const std::string why = whyNot(named(name), {2, 2});
    EXPECT_EQ(why, reason + ": " + __FILE__ + ":" + std::to_string(lineOfFault)) << name;
  }
  EXPECT_EQ(reasonOf(definitionOf("bruckAllToAll"), {8}), misforwarded);
}

/// All slices of a pipeline are of one block.
TEST(BlockTables, AreTakenByPipelines) {
  EXPECT_EQ(whyNot(definitionOf("ringAllGather"), {4}, {.pipelineDepth = 3}), "");
}

TEST(BlockTables, AreUndecidedOnMeshesThatNobodyFollowed) {
  tools::CompileRequest request;
  request.definitions = {definitionOf("ringAllGather")};
  request.meshes = {namedMesh(definitionOf("ringAllGather"), {8192})};
  tools::compileToChannel(request, [&](mlir::ModuleOp module) {
    CheckOptions options;
    options.sizes = CheckOptions::Sizes::AllOfFirst;
    Verdict verdict = checkProgram(*module.getOps<ProgramOp>().begin(), {8192}, options);
    EXPECT_TRUE(verdict.isProved());
    EXPECT_EQ(verdict.whyNoBlockTables, "lengths of blocks are followed on meshes themselves");
  });
}
