// Programs of candidates: proved on all nodes, and inferred again where few nodes show too little.
#include "tools/explore/CandidatePrograms.h"

#include <gtest/gtest.h>
#include <kolo/dsl/Choreography.h>

#include <algorithm>

namespace kolo::tools {
namespace {

using namespace kolo::dsl;

/// An all-gather whose last statements move on more than four nodes only, where they send what the others brought.
PlacedCandidate longerOnManyNodes(int64_t nodes) {
  auto body = [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    Rank me = c.rank();
    Buffer in = c.input(), out = c.output(), again = c.scratch("again", out), read = c.scratch("read", out);
    c.copy(in, out[me]);
    c.send(out[me]).to(me.others(gpu));
    c.loop(node.size() - 1, [&](Index step) { c.send(out[{me[node] - step, all}]).to(me.next(node)); });
    c.when(node.size() > 4, [&] {
      c.send(out[{all, all}]).to(me.next(gpu)).at(again[{all, all}]);
      c.copy(again[{all, all}], read[{all, all}]);
    });
  };
  Definition definition{"longerOnManyNodes", AllGather, Mesh("node", "gpu"), body, std::source_location::current()};
  return {Origin::Explored, definition, "", {{"node", "gpu"}, {nodes, 8}}, "", {}, {}};
}

int64_t numWaits(CandidatePrograms::Compiled &compiled) {
  int64_t number = 0;
  compiled.program->walk([&](WaitOp) { ++number; });
  return number;
}

/// Of the proof, and of the programs before and after it.
struct Outcome {
  CandidatePrograms::Proof proof;
  int64_t waitsBefore = 0, waitsAfter = 0;
};

Outcome outcomeOn(int64_t nodes) {
  const cost::Machine machine = std::get<cost::Machine>(cost::Machine::read(MACHINES "/frontier.json"));
  ExploreRequest request{KOLO_ALL_GATHER, machine, nodes, {1 << 20}, cost::Rates::Peak, {.numThreads = 1}, 0};
  Coster coster(request, {{}});
  CandidatePrograms programs(request, coster);
  PlacedCandidate candidate = longerOnManyNodes(nodes);
  CandidatePrograms::Compiled before, after;
  Outcome outcome;
  EXPECT_EQ(programs.compile(0, candidate, before), "");
  outcome.waitsBefore = numWaits(before);
  outcome.proof = programs.prove(0, candidate);
  EXPECT_EQ(programs.compile(0, candidate, after), "");
  outcome.waitsAfter = numWaits(after);
  return outcome;
}

TEST(ShippedAlgorithms, StandInOrderOfNamesHoweverTheyWereLinked) {
  auto body = [](Choreography &) {};
  for (const char *name : {"zOfFourDimensions", "aOfFourDimensions"}) // no machine has a mesh for them
    Registration(name, Broadcast, Mesh("a", "b", "c", "d"), body);
  const std::vector<Definition> all = shippedAlgorithms();
  EXPECT_GT(all.size(), 50u);
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &Definition::name));
}

TEST(CandidatePrograms, AreInferredAgainWhereManyNodesNeedMore) {
  Outcome many = outcomeOn(8);
  EXPECT_EQ(many.proof.refusal, "");
  EXPECT_TRUE(many.proof.isOfAllNodes);
  EXPECT_GT(many.waitsAfter, many.waitsBefore) << "what is simulated again is the program that was proved";
}

TEST(CandidatePrograms, AreKeptWhereFewNodesShowWhatAllNeed) {
  Outcome few = outcomeOn(4);
  EXPECT_EQ(few.proof.refusal, "");
  EXPECT_FALSE(few.proof.isOfAllNodes);
  EXPECT_EQ(few.waitsAfter, few.waitsBefore);
}

} // namespace
} // namespace kolo::tools
