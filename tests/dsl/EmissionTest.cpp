// Recordings become valid IR: mistaken ones too, without the statements that are wrong.
#include "Support.h"

#include "dsl/EmitChoreography.h"

#include "mlir/IR/Verifier.h"

#include <regex>

using namespace kolo;
using namespace kolo::dsl;

/// A verified module in text, with the authors' lines.
static std::string emitted(const Recording &recording, const std::vector<std::vector<int64_t>> &meshes) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module = emitChoreography(context, recording, meshes);
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, mlir::OpPrintingFlags().enableDebugInfo());
  return text;
}

static size_t occurrences(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(Emission, EveryStatementCarriesTheAuthorsLine) {
  std::unique_ptr<Recording> recording = recordBody(AllGather, Mesh("rank"), [](Choreography &c) {
    auto [d] = c.dims<1>();
    c.send(c.output()[0]).to(c.rank().next(d)); // 5 lines above the end of this test
  });
  std::string text = emitted(*recording, {{4}});
  EXPECT_NE(text.find("EmissionTest.cpp\":" + std::to_string(__LINE__ - 3) + ":"), std::string::npos) << text;
}

static void sendsOn(Choreography &c, Location caller = Location::current()) {
  CalledFrom scope(c, caller);
  c.send(c.output()[0]).to(c.rank().next(c.dim("rank")));
}

TEST(Emission, AStatementOfABuildingBlockCarriesTheLineOfItsCallToo) {
  std::unique_ptr<Recording> recording =
      recordBody(AllGather, Mesh("rank"), [](Choreography &c) { c.loop(2, [&](Index) { sendsOn(c); }); });
  std::string text = emitted(*recording, {{4}});
  auto matches = [&](const std::string &pattern) { return std::regex_search(text, std::regex(pattern)); };
  std::string own = std::to_string(__LINE__ - 8), call = std::to_string(__LINE__ - 3);
  EXPECT_TRUE(matches("(#loc\\d*) = loc\\(\"[^\"]*EmissionTest.cpp\":" + own +
                      ":[^$]*(#loc\\d*) = loc\\(\"[^\"]*\":" + call + ":[^$]*loc\\(callsite\\(\\1 at \\2\\)\\)"))
      << text;
}

TEST(Emission, TheMeshesChangeNothingButTheirList) {
  Body body = [](Choreography &c) {
    auto [d] = c.dims<1>();
    c.loop(d.size() - 1, [&, d = d](Index i) { c.send(c.output()[i]).to(c.rank().next(d)); });
  };
  std::unique_ptr<Recording> recording = recordBody(AllGather, Mesh("rank"), body);
  std::string small = emitted(*recording, {{4}}), large = emitted(*recording, {{4096}});
  size_t at = large.find("[[4096]]");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(small, large.replace(at, 8, "[[4]]"));
}

TEST(Emission, SlotsSayHowManyChunksABlockOfWhatTheyHoldIsCutInto) {
  std::unique_ptr<Recording> recording = recordBody(AllGather, Mesh("node", "gpu"), [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    Buffer in = c.input(), out = c.output();
    c.slots("blocks", out, 2); // cut only later
    c.slots("wholes", in, {2, gpu});
    out.grid(node, gpu, 5, gpu);
  });
  std::string text = emitted(*recording, {{4, 3}});
  EXPECT_EQ(occurrences(text, " scratch \""), 2u) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("(%\\w+) = kolo.dim_size 1[^$]*(%\\w+) = arith.constant 5 : index[^$]*"
                                                 "(%\\w+) = arith.muli \\2, \\1 : index[^$]*"
                                                 "scratch \"blocks\" grid\\(%\\w+\\) blocks 1 cut \\3 : ")))
      << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("(%\\w+) = arith.constant 1 : index[^$]*"
                                                 "scratch \"wholes\" grid\\(%\\w+, %\\w+\\) blocks 2 cut \\1 : ")))
      << text;
}

TEST(Emission, AStripeCutsEveryBufferAndTakesOnePartOfWhatItMoves) {
  std::unique_ptr<Recording> recording = recordBody(AllGather, Mesh("rank"), [](Choreography &c) {
    auto [d] = c.dims<1>();
    Buffer in = c.input(), out = c.output(), slots = c.slots("slots", out, 5);
    c.copy(in, out[c.rank()]);
    c.stripe(3, [&, d = d](int) { c.loop(7, [&](Index i) { c.send(out[i]).to(c.rank().next(d)).at(slots[i]); }); });
  });
  std::string text = emitted(*recording, {{4}});
  auto matches = [&](const char *pattern) { return std::regex_search(text, std::regex(pattern)); };
  EXPECT_TRUE(matches("(%\\w+) = arith.constant 3 : index[^$]*input \"input\" grid\\(\\1\\) blocks 0 :")) << text;
  EXPECT_TRUE(matches("(%\\w+) = arith.constant 3 : index[^$]*output \"output\" grid\\(%\\w+, \\1\\) blocks 1 :"))
      << text;
  EXPECT_TRUE(matches("(%\\w+) = arith.constant 3 : index[^$]*(%\\w+) = arith.muli %\\w+, \\1 : index[^$]*"
                      "scratch \"slots\" grid\\(%\\w+, %\\w+\\) blocks 2 cut \\2 :"))
      << text;
  EXPECT_EQ(occurrences(text, "kolo.transfer"), 3u);
  for (const char *variant : {"0", "1", "2"}) // on a loop and on a statement
    EXPECT_EQ(occurrences(text, "{kolo.stripe = " + std::string(variant) + " : i64}"), 2u) << text;
  EXPECT_EQ(occurrences(text, "kolo.stripe"), 6u) << text;
}

TEST(Emission, ATableIsLookedUpByTheIndexInsideOfTheStatement) {
  std::unique_ptr<Recording> recording = recordBody(AllGather, Mesh("rank"), [](Choreography &c) {
    auto [d] = c.dims<1>();
    Table ring({0, 2, 3, 1}), distances({3, -1});
    Rank me = c.rank(), peer = me.next(d, distances[0]);
    c.when(ring[me[d]] == 1, [&, d = d] { c.send(c.output()[ring[peer[d]]]).to(peer); });
  });
  std::string text = emitted(*recording, {{4}});
  EXPECT_EQ(occurrences(text, "kolo.lookup"), 4u) << text;
  EXPECT_TRUE(std::regex_search(
      text,
      std::regex("(%\\w+) = kolo.lookup %\\w+ in \\[3, -1\\][^$]*next \\1[^$]*bb0\\((%\\w+): index[^,]*, (%\\w+): "
                 "index[^$]*(%\\w+) = kolo.lookup \\3 in \\[0, 2, 3, 1\\][^$]*(%\\w+) = kolo.lookup \\2 in "
                 "\\[0, 2, 3, 1\\]")))
      << text;
}

TEST(Emission, LeavesOutWhatIsMistaken) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, Mesh("rank"), [](Choreography &c) {
    Dim d = c.dim("rank"), unknown = c.dim("gpu");
    Rank me = c.rank();
    Index escaped = 0;
    Buffer uncut = c.output().grid(unknown, c.rank()[d]), work = c.scratch("work", c.input());
    c.copy(c.input(), work);
    c.copy(uncut, work);
    c.send(work);
    c.send(work).to(me.next(d, me[d]));
    c.loop(unknown.size(), [&](Index i) { c.copy(c.input()[i], work); });
    c.loop(d.size(), [&](Index i) { escaped = i; });
    c.loop(escaped, [&](Index) { c.copy(c.input(), work); });
    c.when(me[d] == escaped, [&] { c.copy(c.input(), work); });
  });
  EXPECT_FALSE(recording->diagnostics.empty());
  std::string text = emitted(*recording, {{4}});
  EXPECT_EQ(occurrences(text, "kolo.copy"), 1u) << text;
  EXPECT_EQ(occurrences(text, "kolo.transfer"), 0u) << text;
}

TEST(Emission, OfAChoreographyWithoutAGroupIsEmpty) {
  std::unique_ptr<Recording> recording =
      recordBody(AllGather.over("gpu"), Mesh("rank"), [](Choreography &c) { c.inPlace(); });
  EXPECT_FALSE(recording->diagnostics.empty());
  EXPECT_EQ(occurrences(emitted(*recording, {{4}}), "kolo.choreography"), 0u);
}

TEST(Emission, WhatAnExpressionUsesTwiceIsComputedOnce) {
  std::unique_ptr<Recording> recording = recordBody(AllGather, Mesh("rank"), [](Choreography &c) {
    auto [d] = c.dims<1>();
    Index place = c.rank()[d];
    for (int i = 0; i < 60; ++i)
      place = place + place;
    c.copy(c.output()[place], c.output()[0]);
  });
  EXPECT_EQ(occurrences(emitted(*recording, {{4}}), " = arith.addi "), 60u);
}

TEST(Emission, OwnBlocksEnumerateTheirWholeGridAndStripesCutThem) {
  std::unique_ptr<Recording> recording = recordBody(AllGather, Mesh("rank"), [](Choreography &c) {
    auto [d] = c.dims<1>();
    Buffer stage = c.blocks("stage", {d, 3});
    c.stripe(2, [&](int) { c.copy(c.input(), stage[{0, 1}]); });
    c.copy(stage[{0, 1}], c.output()[c.rank()]);
  });
  EXPECT_TRUE(recording->diagnostics.empty());
  std::string text = emitted(*recording, {{4}});
  EXPECT_EQ(occurrences(text, " scratch \"stage\""), 1u) << text;
  EXPECT_EQ(occurrences(text, "blocks 2 : <3>"), 1u) << text;
}
