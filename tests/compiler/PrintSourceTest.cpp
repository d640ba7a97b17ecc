// A recording that is printed and compiled again gives the same IR: for everything that is registered here.
#include "tools/compile/Compile.h"
#include "tools/compile/TemporaryFile.h"

#include "dsl/EmitChoreography.h"
#include "dsl/PrintSource.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace kolo {
namespace {

using namespace dsl;

std::string choreographyOf(const Recording &recording) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::string text;
  llvm::raw_string_ostream stream(text);
  std::vector<int64_t> sizes(recording.definition.mesh.dims.size(), 4);
  emitChoreography(context, recording, {sizes})->print(stream);
  return text;
}

/// Its body is one that no algorithm has; the rest is there to be read back.
struct OddBody {
  const char *name;
  Collective collective;
  Mesh mesh;
  void (*body)(Choreography &);
};

Index doubled(Index number) {
  for (int i = 0; i < 40; ++i)
    number = (number + number) % 7;
  return number;
}

const OddBody oddBodies[] = {
    {"oddPrecedences", AllGather, Mesh("rank"),
     [](Choreography &c) {
       auto [d] = c.dims<1>();
       Index me = c.rank()[d];
       Buffer out = c.output();
       c.copy(c.input(), out[c.rank()]);
       c.when((me ^ 1) == 2 || (me < 3 && !(me == 1 || me != 4)),
              [&] { c.copy(out[me - (me - (0 - me))], out[(me + 1) * 2 % (d / 2) / 2]); });
       c.when(me <= -1 && Index(1) + 2 < log2(d), [&] { c.copy(out[min(2, me)], out[max(Index(1), 2)]); });
       c.loop(pow2(Index(3)), [&](Index) { c.loop(log2(Index(8)), [&](Index i) { c.copy(out[i], out[1 - i]); }); });
     }},
    {"oddNames", AllReduce, Mesh("int", "2-way", "all"),
     [](Choreography &c) {
       Buffer out = c.output().grid(c.dim("int"), c.dim("2-way"));
       c.scratch("a \"quoted\" name", out).grid(7);
       Buffer slots = c.slots("in", out, {c.dim("all"), 2}), alike = c.scratch("loop", slots);
       c.copy(c.input(), c.scratch("out", c.input()));
       c.send(out[{0, 1}]).to(c.rank().mapped(c.dim("all"), {3, 2, 1, 0})).at(slots[{all, 1}]).reduce();
       c.send(out).to(c.rank());
       c.reduce(alike[{0, 0}], out[{range(0, 1), 1}]);
     }},
    {"oddStripes", AllToAll, Mesh("node", "gpu"),
     [](Choreography &c) {
       auto [node, gpu] = c.dims<2>();
       Rank peer = c.rank().others(gpu);
       Buffer in = c.input().grid(node, gpu, 3), out = c.output().grid(node, gpu, 3);
       c.stripe(3, [&, gpu = gpu](int) { c.send(in[peer]).to(peer).at(out[{0, peer[gpu], all}]); });
       c.loop(2, [&, gpu = gpu](Index) {
         c.stripe(3, [&](int variant) {
           if (variant != 1)
             c.loop(variant + 1, [&](Index i) { c.send(in[peer]).to(peer).at(out[{i, peer[gpu], all}]); });
           c.when(peer[gpu] == 1,
                  [&] { c.send(in[{1, peer[gpu], range(1, 2)}]).to(peer).at(out[{1, 0, range(0, 2)}]); });
         });
       });
     }},
    {"oddTables", AllGather, Mesh("rank"),
     [](Choreography &c) {
       auto [d] = c.dims<1>();
       Index me = c.rank()[d];
       Table order({0, 1, 3, 2}), alike({0, 1, 3, 2}), large(std::vector<int64_t>(64, -123456789));
       c.copy(c.input(), c.output()[alike[order[3]]]);
       c.loop(order[Index(1)], [&](Index step) {
         c.send(c.output()[order[(me - step) % 4] * large[me]]).to(c.rank().mapped(c.dim("rank"), {1, 3, 0, 2}));
       });
     }},
    {"oddRoot", Broadcast.over("gpu"), Mesh("node", "gpu"),
     [](Choreography &c) {
       Rank me = c.rank(), root = c.root();
       Buffer in = c.input().grid(2), out = c.inPlace();
       c.when(!(me == root), [&] { c.send(out[1]).to(root); });
       c.when(me == root && me[c.dim("node")] == 0, [&] {
         c.send(in).to(me.others(c.dim("gpu"))).at(out);
         c.copy(in[root[c.dim("gpu")]], out[0]);
       });
     }},
    {"oddInPlace", AllReduce, Mesh("rank"),
     [](Choreography &c) {
       c.stripe(2, [](int) {});
       c.reduce(c.input(), c.output());
       c.inPlace().grid(c.dim("rank"));
     }},
    {"oddParts", AllReduce, Mesh("rank"),
     [](Choreography &c) {
       auto [d] = c.dims<1>();
       Index me = c.rank()[d];
       Buffer out = c.inPlace().grid(doubled(d.size()) + 1, doubled(d.size()) + 2);
       Rank peer = c.rank().next(d, doubled(d.size()));
       c.loop(doubled(d.size()), [&, d = d](Index step) {
         Index there = doubled(step), mine = doubled(me) + there;
         Condition isThere = (there < 1 || there > 2) && there != mine;
         c.when(isThere && (!isThere || peer[d] == there),
                [&] { c.send(out[{mine * mine, doubled(peer[d])}]).to(peer); });
         c.when(isThere && !isThere, [&] { c.copy(out[{mine, 0}], out[{there * mine * mine, there}]); });
         c.send(out[{there, mine}]).to(c.rank().next(d, there));
       });
     }},
};

TEST(PrintSource, TextCompiledAgainGivesTheIrOfTheRecording) {
  std::vector<Definition> definitions = registeredChoreographies();
  for (const OddBody &odd : oddBodies)
    definitions.push_back({odd.name, odd.collective, odd.mesh, odd.body, std::source_location::current()});
  for (Definition &definition : definitions)
    definition.name += "Printed"; // loading registers it in this process, where other tests need names that differ
  std::vector<std::unique_ptr<Recording>> recordings;
  tools::TemporaryFile source("cpp");
  std::ofstream file(source.path());
  file << "#include <kolo/dsl/Language.h>\nusing namespace kolo::dsl;\n";
  for (const Definition &definition : definitions) {
    std::unique_ptr<Recording> recording = record(definition);
    if (!recording->diagnostics.empty())
      continue; // there to be refused
    file << printDefinition(*recording);
    recordings.push_back(std::move(recording));
  }
  file.close();
  EXPECT_EQ(recordings.back()->definition.name, std::string("oddPartsPrinted"));
  EXPECT_LT(printDefinition(*recordings.back()).size(), 1u << 15);
  std::vector<Definition> again = tools::loadUserSource(source.path());
  ASSERT_EQ(again.size(), recordings.size());
  for (size_t i = 0; i < again.size(); ++i) {
    std::unique_ptr<Recording> recording = record(again[i]);
    EXPECT_TRUE(recording->diagnostics.empty()) << again[i].name << ": " << recording->diagnostics.front().message;
    EXPECT_EQ(choreographyOf(*recordings[i]), choreographyOf(*recording)) << printDefinition(*recordings[i]);
    EXPECT_EQ(printDefinition(*recordings[i]), printDefinition(*recording));
  }
}

TEST(PrintSource, AnAlgorithmReadsAsItsAuthorWroteIt) {
  Definition definition{"railAllGather", AllGather, Mesh("node", "gpu"),
                        [](Choreography &c) {
                          auto [node, gpu] = c.dims<2>();
                          Rank me = c.rank();
                          Buffer out = c.output();
                          c.copy(c.input(), out[me]);
                          c.loop(node.size() - 1, [&, node = node, gpu = gpu](Index step) {
                            c.send(out[{me[node] - step, me[gpu]}]).to(me.next(node));
                          });
                          c.send(out[{all, me[gpu]}]).to(me.others(gpu));
                        },
                        std::source_location::current()};
  PrintedSource printed = printSource(*record(definition), "First line.\n\nThird line.");
  EXPECT_EQ(printed.lines, (std::vector<unsigned>{14, 16, 18}));
  EXPECT_EQ(printed.text, R"(// First line.
//
// Third line.
#include <kolo/dsl/Language.h>

using namespace kolo::dsl;

KOLO_COLLECTIVE(railAllGather, AllGather, Mesh("node", "gpu")) {
  auto [node, gpu] = c.dims<2>();
  Rank me = c.rank();
  Buffer in = c.input();
  Buffer out = c.output();

  c.copy(in, out[me]);
  c.loop(node.size() - 1, [&](Index step) {
    c.send(out[{me[node] - step, me[gpu]}]).to(me.next(node));
  });
  c.send(out[{all, me[gpu]}]).to(me.others(gpu));
}
)");
}

TEST(PrintSource, WhatAnExpressionUsesTwiceHasAName) {
  Definition definition{"parts", AllGather, Mesh("rank"),
                        [](Choreography &c) {
                          auto [d] = c.dims<1>();
                          Index back = c.rank()[d] - 1, half = back / 2;
                          c.when(half == half * half, [&] { c.copy(c.output()[back * back], c.output()[0]); });
                        },
                        std::source_location::current()};
  EXPECT_EQ(printDefinition(*record(definition)), R"(KOLO_COLLECTIVE(parts, AllGather, Mesh("rank")) {
  auto [rank] = c.dims<1>();
  Rank me = c.rank();
  Buffer out = c.output();

  Index part = (me[rank] - 1) / 2;
  c.when(part == part * part, [&] {
    Index part2 = me[rank] - 1;
    c.copy(out[part2 * part2], out[0]);
  });
}
)");
}

TEST(PrintSource, EveryStatementHasItsLine) {
  Definition definition{"stripes", AllReduce, Mesh("rank"),
                        [](Choreography &c) {
                          Rank me = c.rank();
                          Buffer out = c.inPlace();
                          c.stripe(2, [&](int) { c.loop(2, [&](Index) { c.send(out).to(me.next(c.dim("rank"))); }); });
                          c.stripe(2, [&](int variant) { c.send(out).to(me.next(c.dim("rank"), variant)); });
                        },
                        std::source_location::current()};
  PrintedSource printed = printSource(*record(definition), "");
  EXPECT_EQ(printed.lines, (std::vector<unsigned>{8, 12, 12, 17, 20})) << printed.text;
}

} // namespace
} // namespace kolo
