// Correct choreographies give what their collective is defined to give, whatever the mesh, the count and the type.
#include "Support.h"

#include <cstring>

using namespace kolo::reference;

static const int64_t awkwardCounts[] = {0, 1, 5, 17, 100};

static const std::string ringAllGather = choreography("all_gather", wholeIn + blocksOut + R"(
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  scf.for %s = %c0 to %n1 step %c1 {
    kolo.transfer %out -> %out to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %i = arith.subi %me, %s : index
      kolo.slices from [%i] size [%c1] to [%i] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  })");

static const std::string ringAllReduce =
    choreography("all_reduce", "%in = kolo.buffer input \"in\" grid(%n) blocks 0 : !kolo.buffer<1>\n" + chunksOut + R"(
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c0] size [%n] to [%c0] size [%n]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %s = %c0 to %n1 step %c1 {
    kolo.transfer reducing %out -> %out to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %i = arith.subi %me, %s : index
      kolo.slices from [%i] size [%c1] to [%i] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  }
  scf.for %s = %c0 to %n1 step %c1 {
    kolo.transfer %out -> %out to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %up = arith.addi %me, %c1 : index
      %i = arith.subi %up, %s : index
      kolo.slices from [%i] size [%c1] to [%i] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  })");

static const std::string recursiveDoubling = choreography("all_reduce", wholeIn + wholeOut + R"(
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [] size []
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  %wide = arith.index_cast %n : index to i64
  %zeros = math.ctlz %wide : i64
  %lead = arith.index_cast %zeros : i64 to index
  %c63 = arith.constant 63 : index
  %levels = arith.subi %c63, %lead : index
  scf.for %k = %c0 to %levels step %c1 {
    %mask = arith.shli %c1, %k : index
    kolo.transfer reducing %out -> %out to [flip %mask] {
    ^bb0(%me: index, %peer: index):
      kolo.slices from [] size [] to [] size []
    } : !kolo.buffer<0> -> !kolo.buffer<0>
  })");

/// The root keeps its own input, everybody else sends to it.
static const std::string directReduce = choreography("reduce", wholeIn + wholeOut + R"(
  %root = kolo.root
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    %is = arith.cmpi eq, %me, %root : index
    kolo.slices from [] size [] to [] size [] when %is
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer reducing %in -> %out to [at %root] {
  ^bb0(%me: index, %peer: index):
    %sends = arith.cmpi ne, %me, %peer : index
    kolo.slices from [] size [] to [] size [] when %sends
  } : !kolo.buffer<0> -> !kolo.buffer<0>)");

TEST(Choreography, RingAllGatherIsRightForEveryTypeMeshAndCount) {
  ParsedChoreography ring(ringAllGather);
  for (ElementType type : allElementTypes)
    for (int64_t numRanks : {1, 2, 3, 5, 8})
      for (int64_t count : awkwardCounts)
        EXPECT_EQ(outcome(ring, ring.callOn({numRanks}, count, type)), "")
            << nameOf(type).str() << ' ' << numRanks << " ranks, count " << count;
}

TEST(Choreography, RingAllReduceIsRightForEveryTypeReductionAndCount) {
  ParsedChoreography ring(ringAllReduce);
  for (ElementType type : allElementTypes)
    for (Reduction reduction : allReductions)
      for (int64_t numRanks : {1, 2, 3, 7})
        for (int64_t count : awkwardCounts)
          EXPECT_EQ(outcome(ring, ring.callOn({numRanks}, count, type, reduction)), "")
              << nameOf(type).str() << ' ' << nameOf(reduction).str() << ' ' << numRanks << " ranks, count " << count;
}

TEST(Choreography, ARingThroughTwoSlotsIsRightForEveryTypeMeshAndCount) {
  // In-place all-reduce: every chunk that arrives is combined from the slot that it arrived in.
  ParsedChoreography ring(choreography(
      "all_reduce", "%in = kolo.buffer input \"in\" grid(%n) blocks 0 : !kolo.buffer<1>\n" + chunksOut + R"(
  %slots = kolo.buffer scratch "slots" grid(%c2) blocks 1 cut %n : !kolo.buffer<1>
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c0] size [%n] to [%c0] size [%n]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  scf.for %s = %c0 to %n1 step %c1 {
    kolo.transfer %out -> %slots to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %i = arith.subi %me, %s : index
      kolo.slices from [%i] size [%c1] to [%s] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
    kolo.reduce %slots -> %out {
    ^bb0(%me: index):
      %i = arith.subi %me, %s : index
      %j = arith.subi %i, %c1 : index
      kolo.slices from [%s] size [%c1] to [%j] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  }
  scf.for %s = %c0 to %n1 step %c1 {
    kolo.transfer %out -> %out to [next %c1] {
    ^bb0(%me: index, %peer: index):
      %up = arith.addi %me, %c1 : index
      %i = arith.subi %up, %s : index
      kolo.slices from [%i] size [%c1] to [%i] size [%c1]
    } : !kolo.buffer<1> -> !kolo.buffer<1>
  })"));
  for (ElementType type : allElementTypes)
    for (int64_t numRanks : {1, 2, 3, 7})
      for (int64_t count : awkwardCounts)
        EXPECT_EQ(outcome(ring, ring.callOn({numRanks}, count, type)), "") << numRanks << " ranks, count " << count;
}

TEST(Choreography, RecursiveDoublingIsRightBecauseAStatementReadsEverythingBeforeItWrites) {
  ParsedChoreography doubling(recursiveDoubling);
  for (int64_t numRanks : {1, 2, 4, 16})
    for (ElementType type : allElementTypes)
      EXPECT_EQ(outcome(doubling, doubling.callOn({numRanks}, 17, type)), "");
}

TEST(Choreography, AMaskThatLeavesTheMeshIsAnError) {
  ParsedChoreography doubling(recursiveDoubling);
  EXPECT_NE(outcome(doubling, doubling.callOn({6}, 17)).find("sends to coordinate"), std::string::npos);
}

TEST(Choreography, ReduceLeavesTheOtherOutputsAlone) {
  ParsedChoreography reduce(directReduce);
  for (Reduction reduction : allReductions)
    for (int64_t root : {0, 3}) {
      SimulatedCall simulated = reduce.callOn({5}, 17, ElementType::F16, reduction);
      simulated.root = root;
      EXPECT_EQ(outcome(reduce, simulated), "");
    }
}

TEST(Choreography, SeveralSendersReduceInIncreasingOrderOfTheirRanks) {
  ParsedChoreography reduce(directReduce);
  SimulatedCall simulated = reduce.callOn({3}, 1);
  const float values[] = {1, 16777216, -16777216}; // (1 + 2^24) - 2^24 is 0 in f32, (1 - 2^24) + 2^24 is 1
  for (int rank = 0; rank < 3; ++rank)
    std::memcpy(simulated.inputs[rank].data(), &values[rank], sizeof(float));
  ASSERT_EQ(messageOf(interpretChoreography(*reduce, simulated)), "");
  EXPECT_EQ(show(simulated.type, simulated.outputs[0].data()), "0.000000");
}

TEST(Choreography, SlicesWrapAndNegativeOffsetsCountFromTheEnd) {
  ParsedChoreography direct(choreography("all_gather", wholeIn + blocksOut + R"(
  %stage = kolo.buffer scratch "stage" grid(%n) blocks 1 : !kolo.buffer<1>
  kolo.copy %in -> %stage {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%n] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.transfer %in -> %stage to [others] {
  ^bb0(%me: index, %peer: index):
    %distance = arith.subi %me, %peer : index
    kolo.slices from [] size [] to [%distance] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  kolo.copy %stage -> %out {
  ^bb0(%me: index):
    kolo.slices from [%c0] size [%n] to [%me] size [%n]
  } : !kolo.buffer<1> -> !kolo.buffer<1>)"));
  for (int64_t numRanks : {1, 2, 5})
    EXPECT_EQ(outcome(direct, direct.callOn({numRanks}, 17)), "");
}

TEST(Choreography, ScatterAndGatherTouchTheRootsBuffersOnly) {
  ParsedChoreography scatter(choreography("scatter", blocksIn + wholeOut + R"(
  %root = kolo.root
  scf.for %d = %c0 to %n step %c1 {
    kolo.transfer %in -> %out to [next %d] {
    ^bb0(%me: index, %peer: index):
      %is = arith.cmpi eq, %me, %root : index
      kolo.slices from [%peer] size [%c1] to [] size [] when %is
    } : !kolo.buffer<1> -> !kolo.buffer<0>
  })"));
  ParsedChoreography gather(choreography("gather", wholeIn + blocksOut + R"(
  %root = kolo.root
  kolo.transfer %in -> %out to [at %root] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>)"));
  for (ParsedChoreography *collective : {&scatter, &gather}) {
    SimulatedCall simulated = collective->callOn({5}, 17);
    simulated.root = 2;
    EXPECT_EQ(outcome(*collective, simulated), "");
  }
}

/// Two dimensions: rings along the first, everybody at once along the second.
static std::string railAllGather(const std::string &over) {
  return "kolo.choreography @rail #kolo.collective<all_gather over " + over +
         R"(> mesh ["node", "gpu"] meshes [[2, 2]] {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %nodes = kolo.dim_size 0
  %gpus = kolo.dim_size 1
  %last = arith.subi %nodes, %c1 : index
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid(%nodes, %gpus) blocks 2 : !kolo.buffer<2>
  kolo.copy %in -> %out {
  ^bb0(%node: index, %gpu: index):
    kolo.slices from [] size [] to [%node, %gpu] size [%c1, %c1]
  } : !kolo.buffer<0> -> !kolo.buffer<2>
  scf.for %s = %c0 to %last step %c1 {
    kolo.transfer %out -> %out to [next %c1, keep] {
    ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
      %i = arith.subi %node, %s : index
      kolo.slices from [%i, %gpu] size [%c1, %c1] to [%i, %gpu] size [%c1, %c1]
    } : !kolo.buffer<2> -> !kolo.buffer<2>
  }
  kolo.transfer %out -> %out to [keep, others] {
  ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
    kolo.slices from [%c0, %gpu] size [%nodes, %c1] to [%c0, %gpu] size [%nodes, %c1]
  } : !kolo.buffer<2> -> !kolo.buffer<2>
})";
}

TEST(Choreography, HierarchicalAllGatherIsRightOnTwoDimensionalMeshes) {
  ParsedChoreography rail(railAllGather("0, 1"));
  for (const std::vector<int64_t> &mesh : {std::vector<int64_t>{2, 3}, {3, 2}, {4, 1}, {1, 4}, {1, 1}})
    EXPECT_EQ(outcome(rail, rail.callOn(mesh, 5, ElementType::I8)), "");
}

TEST(Choreography, ACollectiveOverOneDimensionRunsInEveryGroup) {
  ParsedChoreography groups(
      R"(kolo.choreography @groups #kolo.collective<broadcast over 1> mesh ["node", "gpu"] meshes [] {
  %in = kolo.buffer input "in" grid() blocks 0 : !kolo.buffer<0>
  %out = kolo.buffer output "out" grid() blocks 0 : !kolo.buffer<0>
  %root = kolo.root
  kolo.copy %in -> %out {
  ^bb0(%node: index, %gpu: index):
    %is = arith.cmpi eq, %gpu, %root : index
    kolo.slices from [] size [] to [] size [] when %is
  } : !kolo.buffer<0> -> !kolo.buffer<0>
  kolo.transfer %out -> %out to [keep, others] {
  ^bb0(%node: index, %gpu: index, %peerNode: index, %peerGpu: index):
    %is = arith.cmpi eq, %gpu, %root : index
    kolo.slices from [] size [] to [] size [] when %is
  } : !kolo.buffer<0> -> !kolo.buffer<0>
})");
  SimulatedCall simulated = groups.callOn({2, 3}, 17);
  simulated.root = 1;
  EXPECT_EQ(outcome(groups, simulated), "");
}

TEST(Choreography, AMappedStepSendsAlongItsTable) {
  ParsedChoreography exchange(choreography("all_to_all", blocksIn + blocksOut + R"(
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [%me] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.transfer %in -> %out to [mapped [2, 0, 1]] {
  ^bb0(%me: index, %peer: index):
    kolo.slices from [%peer] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>
  kolo.transfer %in -> %out to [mapped [1, 2, 0]] {
  ^bb0(%me: index, %peer: index):
    %same = kolo.lookup %me in [1, 2, 0]
    kolo.slices from [%same] size [%c1] to [%me] size [%c1]
  } : !kolo.buffer<1> -> !kolo.buffer<1>)"));
  EXPECT_EQ(outcome(exchange, exchange.callOn({3}, 5)), "");
}

TEST(Choreography, LoopsCarryValuesAndBranchesGiveThem) {
  ParsedChoreography ring(choreography("all_gather", wholeIn + blocksOut + R"(
  kolo.copy %in -> %out {
  ^bb0(%me: index):
    kolo.slices from [] size [] to [%me] size [%c1]
  } : !kolo.buffer<0> -> !kolo.buffer<1>
  %end = scf.for %s = %c0 to %n1 step %c1 iter_args(%d = %c1) -> index {
    %isLast = arith.cmpi sge, %d, %n : index
    %k = scf.if %isLast -> index {
      scf.yield %c0 : index
    } else {
      scf.yield %d : index
    }
    kolo.transfer %in -> %out to [next %k] {
    ^bb0(%me: index, %peer: index):
      kolo.slices from [] size [] to [%me] size [%c1]
    } : !kolo.buffer<0> -> !kolo.buffer<1>
    %more = arith.addi %d, %c1 : index
    scf.yield %more : index
  })"));
  EXPECT_EQ(outcome(ring, ring.callOn({5}, 5)), "");
}
