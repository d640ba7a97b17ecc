// An author's mistakes are refused with all of them at once, each at its own line of C++.
#include "Support.h"

#include "tools/compile/Compile.h"

#include <functional>
#include <sstream>

using namespace kolo::dsl;
using kolo::test::TemporaryFolder;
using kolo::tools::ExitCode;
using kolo::tools::ToolError;

namespace {

/// What is to be reported, as "line: message", noted while the body runs.
std::vector<std::string> expected;
void mistakeBelow(const std::string &message, unsigned line = unsigned(__builtin_LINE())) {
  expected.push_back(std::to_string(line + 1) + ": error: " + message);
}

Definition define(const Collective &collective, const Mesh &mesh, void (*body)(Choreography &)) {
  return {"mistaken", collective, mesh, body, std::source_location::current()};
}

/// The lines of the refusal, without file and column.
std::vector<std::string> reportOf(const Definition &definition, const std::vector<std::string> &meshes) {
  TemporaryFolder folder;
  std::vector<kolo::runtime::Mesh> parsed;
  for (const std::string &mesh : meshes)
    parsed.push_back(*kolo::runtime::Mesh::parse(mesh));
  std::vector<std::string> report;
  try {
    kolo::tools::compile({{definition}, parsed, folder.file("mistaken.so")});
    ADD_FAILURE() << "was not refused";
  } catch (const ToolError &error) {
    EXPECT_EQ(error.code(), ExitCode::Refused);
    std::istringstream text(error.what());
    for (std::string line; std::getline(text, line);) {
      std::string file = std::string(__FILE__) + ":";
      EXPECT_TRUE(line.starts_with(file)) << line;
      line = line.substr(file.size());
      size_t number = line.find(':'), column = line.find(':', number + 1);
      report.push_back(line.substr(0, number) + line.substr(column));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder.file("mistaken.so")));
  return report;
}

/// Every message that was noted is a beginning of one that was reported, at its line, and nothing else was reported.
void expectReport(const Definition &definition, const std::vector<std::string> &meshes) {
  expected.clear();
  std::vector<std::string> report = reportOf(definition, meshes);
  EXPECT_EQ(report.size(), expected.size()) << testing::PrintToString(report);
  for (size_t i = 0; i < std::min(report.size(), expected.size()); ++i)
    EXPECT_TRUE(report[i].starts_with(expected[i])) << report[i] << "\nis not\n" << expected[i];
}

} // namespace

TEST(Mistakes, OfTheLanguageAreAllReportedAtOnce) {
  expectReport(define(AllGather, Mesh("node", "gpu"),
                      [](Choreography &c) {
                        auto [node, gpu] = c.dims<2>();
                        Rank me = c.rank();
                        Buffer in = c.input(), out = c.output();
                        c.copy(in, out[me]);
                        mistakeBelow("the source slice has 1 indices, the grid of 'output' has 2 dimensions");
                        c.send(out[me[gpu]]).to(me.next(gpu)).at(out[me]);
                        mistakeBelow("send() without to(): it does not say where");
                        c.send(out[me]);
                        mistakeBelow("the input may not be written; use inPlace() or a scratch buffer");
                        c.send(out[me]).to(me.next(node)).at(in);
                        mistakeBelow("this collective has no reduction; reduce() belongs to");
                        c.send(out[me]).to(me.next(node)).reduce();
                      }),
               {"node=2,gpu=2"});
}

TEST(Mistakes, ThatNeedAMeshAreAllReportedAtOnce) {
  expectReport(define(AllReduce, Mesh("rank"),
                      [](Choreography &c) {
                        auto [d] = c.dims<1>();
                        Rank me = c.rank();
                        Buffer out = c.inPlace().grid(d), work = c.scratch("work", out), rest = c.scratch("rest", out);
                        mistakeBelow("a slice takes 4 chunks along dimension 0 of 'output', which has 3 there");
                        c.copy(out[range(0, d.size() + 1)], work[range(0, d.size() + 1)]);
                        c.copy(work[0], out[0]); // that it holds nothing follows from the mistake before
                        mistakeBelow("rank 0 reads chunk [0] of 'rest' before anything wrote it (mesh rank=3)");
                        c.send(rest[0]).to(me.next(d)).at(out[0]);
                        mistakeBelow("flip(rank, 1) leads from coordinate 2 to 3, but rank has 3 ranks");
                        c.send(out[me[d]]).to(me.flip(d, 1)).reduce();
                        mistakeBelow("several senders write chunk [0] of 'output' on rank");
                        c.send(out[0]).to(me.others(d));
                      }),
               {"rank=3"});
}

/// Rank r combines what rank r - 1 has, but not what that one got from others.
TEST(Mistakes, AScanThatMissesRanksIsRefusedWithThem) {
  Definition wrong = define(Scan, Mesh("rank"), [](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank me = c.rank();
    Buffer out = c.inPlace();
    c.when(me[d] + 1 < d.size(), [&, d = d] { c.send(out).to(me.next(d)).reduce(); });
  });
  std::vector<std::string> report = reportOf(wrong, {"rank=4"});
  ASSERT_EQ(report.size(), 1u);
  EXPECT_EQ(report[0], std::to_string(wrong.location.line()) +
                           ": error: the result is not scan: on rank 2, chunk 0 of the output holds input chunk 0 of "
                           "ranks 1 2 instead of input chunk 0 of ranks 0 1 2 (mesh rank=4)");
}

TEST(Mistakes, AnExscanThatWritesTheFirstRanksOutputIsRefused) {
  expectReport(define(Exscan, Mesh("rank"),
                      [](Choreography &c) {
                        auto [d] = c.dims<1>();
                        mistakeBelow("writes the output of rank 0, but the first rank has no output (mesh rank=3)");
                        c.send(c.input()).to(c.rank().next(d)).at(c.output());
                      }),
               {"rank=3"});
}

TEST(Mistakes, AnIndexOutsideOfATableIsReportedAtItsStatement) {
  expectReport(define(AllReduce, Mesh("rank"),
                      [](Choreography &c) {
                        auto [d] = c.dims<1>();
                        Rank me = c.rank();
                        Buffer out = c.inPlace().grid(d), work = c.scratch("work", out);
                        Table table({0, 1, 2});
                        mistakeBelow("index 3 is outside of the table of 3");
                        c.copy(out[me[d]], work[table[me[d]]]);
                        mistakeBelow("index -1 is outside of the table of 3");
                        c.when(me[d] > 0, [&, d = d] { c.copy(out[0], work[table[min(me[d], 2) - 1]]); });
                        mistakeBelow("index 4 is outside of the table of 3");
                        c.send(out[0]).to(me.next(d, table[d.size()]));
                      }),
               {"rank=4"});
}

/// A smaller mesh would not show it.
TEST(Mistakes, AnIndexOutsideOfATableIsReportedOnALargeMesh) {
  expectReport(define(AllGather, Mesh("rank"),
                      [](Choreography &c) {
                        auto [d] = c.dims<1>();
                        Rank me = c.rank();
                        c.copy(c.input(), c.output()[me]);
                        c.send(c.output()[me]).to(me.others(d));
                        Table table(std::vector<int64_t>(99, 0));
                        mistakeBelow("index 99 is outside of the table of 99");
                        c.copy(c.output()[table[me[d]]], c.output()[table[me[d]]]);
                      }),
               {"rank=100"});
}

TEST(Mistakes, OfBothKindsAreReportedTogether) {
  expectReport(define(AllReduce, Mesh("rank"),
                      [](Choreography &c) {
                        auto [d] = c.dims<1>();
                        Rank me = c.rank();
                        Buffer out = c.inPlace().grid(d);
                        mistakeBelow("send() without to(): it does not say where");
                        c.send(out[me[d]]);
                        mistakeBelow("at(rank, 7), but rank has 4 ranks");
                        c.send(out[me[d]]).to(me.at(d, 7));
                        mistakeBelow("the table mapped along rank has 2 entries, but rank has 4 ranks");
                        c.send(out[me[d]]).to(me.mapped(d, {1, 0}));
                        mistakeBelow("divides by zero on this mesh");
                        c.send(out[me[d] / (d.size() - 4)]).to(me.next(d)).reduce();
                      }),
               {"rank=4"});
}

TEST(Mistakes, InTheResultAreReportedAtTheDefinition) {
  Definition definition = define(AllReduce, Mesh("rank"), [](Choreography &c) { c.inPlace(); });
  std::vector<std::string> report = reportOf(definition, {"rank=2"});
  ASSERT_EQ(report.size(), 1u);
  EXPECT_EQ(report[0],
            std::to_string(definition.location.line()) +
                ": error: the result is not all_reduce: on rank 0, chunk 0 of the output holds input chunk 0 of "
                "rank 0 instead of input chunk 0 of ranks 0 1 (mesh rank=2)");
}

TEST(Mistakes, ListFewRanks) {
  std::vector<std::string> report =
      reportOf(define(AllReduce, Mesh("rank"), [](Choreography &c) { c.inPlace(); }), {"rank=12"});
  ASSERT_EQ(report.size(), 1u);
  EXPECT_NE(report[0].find("input chunk 0 of ranks 0 1 2 3 4 5 6 7 and 4 more (mesh rank=12)"), std::string::npos);
}

TEST(Mistakes, OnOneOfTheMeshesAreEnough) {
  expectReport(define(AllGather, Mesh("rank"),
                      [](Choreography &c) {
                        auto [d] = c.dims<1>();
                        Rank me = c.rank();
                        Buffer out = c.output();
                        c.copy(c.input(), out[me]);
                        c.loop(log2(d), [&, d = d](Index step) {
                          Index have = pow2(step);
                          mistakeBelow("flip(rank, 2) leads from coordinate 4 to 6, but rank has 6 ranks");
                          c.send(out[range(me[d] / have * have, have)]).to(me.flip(d, have));
                        });
                      }),
               {"rank=4", "rank=6", "rank=8"});
}

TEST(Mistakes, AMeshOfOtherDimensionsIsAUsageError) {
  TemporaryFolder folder;
  try {
    kolo::tools::compile({{kolo::test::definitionOf("ringAllGather")},
                          {*kolo::runtime::Mesh::parse("node=2,gpu=2")},
                          folder.file("plugin.so")});
    FAIL() << "was not refused";
  } catch (const ToolError &error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    EXPECT_STREQ(error.what(), "ringAllGather runs on meshes rank=N, not on node=2,gpu=2");
  }
}
