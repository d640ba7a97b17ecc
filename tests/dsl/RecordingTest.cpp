// What a correct body leaves behind: statements, loops, conditions, grids.
#include "Support.h"

#include <optional>

using namespace kolo::dsl;

static std::vector<std::string> namesOf(const std::vector<RecordedBuffer> &buffers) {
  std::vector<std::string> names;
  for (const RecordedBuffer &buffer : buffers)
    names.push_back(buffer.name);
  return names;
}

KOLO_COLLECTIVE(registeredByThisTest, Broadcast.over("gpu"), Mesh("node", "gpu")) { c.inPlace(); }

TEST(Registration, KeepsTheNameTheCollectiveTheMeshAndTheLine) {
  const std::vector<Definition> &definitions = registeredChoreographies();
  ASSERT_EQ(definitions.size(), 1u);
  EXPECT_EQ(definitions[0].name, "registeredByThisTest");
  EXPECT_EQ(definitions[0].collective.kind, kolo::dsl::CollectiveKind::Broadcast);
  EXPECT_EQ(definitions[0].collective.dims, std::vector<std::string>{"gpu"});
  EXPECT_EQ(definitions[0].mesh.dims, (std::vector<std::string>{"node", "gpu"}));
  EXPECT_EQ(definitions[0].location.line(), unsigned(__LINE__ - 9));
}

TEST(Recording, KnowsTheGroupInTheOrderOfTheMesh) {
  Body nothing = [](Choreography &) {};
  EXPECT_EQ(recordBody(AllGather, nodes, nothing)->groupDims, (std::vector<int>{0, 1}));
  EXPECT_EQ(recordBody(AllGather.over("gpu"), nodes, nothing)->groupDims, std::vector<int>{1});
  EXPECT_EQ(recordBody(AllGather.over("gpu", "node"), nodes, nothing)->groupDims, (std::vector<int>{1, 0}));
}

TEST(Recording, GivesOneBlockPerRankToTheBuffersThatHoldThem) {
  struct Case {
    Collective collective;
    bool inputHasBlocks, outputHasBlocks;
  };
  const Case cases[] = {{AllGather, false, true},  {ReduceScatter, true, false}, {AllReduce, false, false},
                        {Broadcast, false, false}, {Reduce, false, false},       {Gather, false, true},
                        {Scatter, true, false},    {AllToAll, true, true}};
  for (const Case &expected : cases) {
    std::unique_ptr<Recording> recording = recordBody(expected.collective, nodes, [](Choreography &) {});
    EXPECT_EQ(recording->buffers[0].hasBlockPerRank, expected.inputHasBlocks) << int(expected.collective.kind);
    EXPECT_EQ(recording->buffers[1].hasBlockPerRank, expected.outputHasBlocks) << int(expected.collective.kind);
    EXPECT_EQ(recording->buffers[0].grid.size(), expected.inputHasBlocks ? 2u : 0u);
    EXPECT_EQ(recording->buffers[1].grid.size(), expected.outputHasBlocks ? 2u : 0u);
  }
}

TEST(Recording, KeepsStatementsAndLoopsInOrder) {
  std::unique_ptr<Recording> recording = recordBody(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    c.copy(c.input(), c.output()[c.rank()]);
    c.loop(d.size() - 1, [&, d = d](Index i) { c.send(c.output()[i]).to(c.rank().next(d)); });
    c.copy(c.input(), c.output()[c.rank()]);
  });
  ASSERT_EQ(recording->body.size(), 3u);
  EXPECT_EQ(std::get<size_t>(recording->body[0]), 0u);
  const auto &loop = std::get<std::unique_ptr<RecordedLoop>>(recording->body[1]);
  ASSERT_EQ(loop->body.size(), 1u);
  EXPECT_EQ(std::get<size_t>(loop->body[0]), 1u);
  EXPECT_EQ(std::get<size_t>(recording->body[2]), 2u);
  EXPECT_EQ(recording->statements[1].kind, RecordedStatement::Kind::Transfer);
}

TEST(Recording, ATransferLandsAtTheSamePlaceUnlessItSaysOtherwise) {
  std::unique_ptr<Recording> recording = recordBody(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    c.send(c.output()[c.rank()[d] - 1]).to(c.rank().next(d));
  });
  const RecordedStatement &statement = recording->statements[0];
  EXPECT_EQ(statement.destination.buffer, 1);
  ASSERT_EQ(statement.destination.axes.size(), 1u);
  EXPECT_TRUE(isSame(statement.destination.axes[0].start, statement.source.axes[0].start));
}

TEST(Recording, ConditionsAroundAStatementAreJoined) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    c.when(c.rank()[d] > 0, [&, d = d] {
      c.copy(c.input(), c.output());
      c.when(c.rank()[d] > 1, [&] { c.copy(c.input(), c.output()); });
    });
    c.copy(c.input(), c.output());
  });
  ASSERT_EQ(recording->statements.size(), 3u);
  EXPECT_EQ(recording->statements[0].condition->kind, Expression::Kind::Less);
  EXPECT_EQ(recording->statements[1].condition->kind, Expression::Kind::And);
  EXPECT_EQ(recording->statements[2].condition, nullptr);
}

TEST(Recording, ScratchTakesTheGridThatItsModelHasInTheEnd) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, nodes, [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    Buffer first = c.scratch("first", c.output());
    c.scratch("second", first);
    c.output().grid(node, gpu);
  });
  EXPECT_EQ(namesOf(recording->buffers), (std::vector<std::string>{"input", "output", "first", "second"}));
  EXPECT_EQ(recording->buffers[0].grid.size(), 0u);
  for (size_t buffer : {1, 2, 3})
    EXPECT_EQ(recording->buffers[buffer].grid.size(), 2u) << recording->buffers[buffer].name;
}

TEST(Recording, ScratchMayBeCutInItsOwnWay) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, nodes, [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    Buffer out = c.output().grid(node), work = c.scratch("work", out).grid(node, gpu);
    c.scratch("more", work);
  });
  EXPECT_TRUE(recording->diagnostics.empty());
  EXPECT_EQ(recording->buffers[1].grid.size(), 1u);
  EXPECT_EQ(recording->buffers[2].grid.size(), 2u);
  EXPECT_EQ(recording->buffers[3].grid.size(), 2u);
}

TEST(Recording, InPlaceGivesInputAndOutputOneGridWhicheverIsCut) {
  Body cutBefore = [](Choreography &c) {
    c.input().grid(c.dim("node"));
    c.inPlace();
  };
  Body cutInput = [](Choreography &c) {
    c.inPlace();
    c.input().grid(c.dim("node"));
  };
  Body cutOutput = [](Choreography &c) { c.inPlace().grid(c.dim("node")); };
  for (Body body : {cutBefore, cutInput, cutOutput}) {
    std::unique_ptr<Recording> recording = recordBody(AllReduce, nodes, body);
    EXPECT_TRUE(recording->diagnostics.empty());
    EXPECT_EQ(recording->buffers[0].grid.size(), 1u);
    EXPECT_EQ(recording->buffers[1].grid.size(), 1u);
  }
}

TEST(Recording, InPlaceCopiesOnTheRootOnlyInABroadcast) {
  Body body = [](Choreography &c) { c.inPlace(); };
  EXPECT_EQ(recordBody(AllReduce, line, body)->statements.at(0).condition, nullptr);
  EXPECT_NE(recordBody(Broadcast, line, body)->statements.at(0).condition, nullptr);
}

TEST(Recording, AStripeRunsItsBodyOncePerVariant) {
  std::unique_ptr<Recording> recording = recordBody(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Buffer out = c.output();
    c.copy(c.input(), out[c.rank()]);
    c.stripe(3, [&, d = d](int variant) {
      c.loop(d.size() - 1, [&](Index) { c.send(out[variant]).to(c.rank().next(d)); });
    });
    c.copy(c.input(), out[c.rank()]);
    c.stripe(3, [&](int) { c.copy(c.input(), out[c.rank()]); });
  });
  EXPECT_TRUE(recording->diagnostics.empty());
  EXPECT_EQ(recording->numVariants, 3);
  std::vector<int> variants;
  for (const RecordedStatement &statement : recording->statements)
    variants.push_back(statement.variant);
  EXPECT_EQ(variants, (std::vector<int>{-1, 0, 1, 2, -1, 0, 1, 2}));
  ASSERT_EQ(recording->body.size(), 8u);
  for (int variant : {0, 1, 2}) {
    const auto &loop = std::get<std::unique_ptr<RecordedLoop>>(recording->body[1 + size_t(variant)]);
    EXPECT_EQ(loop->variant, variant);
    const RecordedStatement &send = recording->statements[std::get<size_t>(loop->body.at(0))];
    EXPECT_EQ(send.source.axes.at(0).start->value, variant);
  }
}

TEST(Recording, AStripeLeavesTheGridsThatAuthorsKnow) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, nodes, [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    Buffer out = c.inPlace().grid(node, gpu), slots = c.slots("slots", out, 2);
    c.stripe(2, [&](int variant) {
      c.copy(out[{0, variant}], slots[variant]);
      c.reduce(slots[variant], out[{0, variant}]);
    });
    c.stripe(2, [&, node = node, gpu = gpu](int) { out.grid(node, gpu); });
  });
  EXPECT_TRUE(recording->diagnostics.empty());
  EXPECT_EQ(recording->buffers[1].grid.size(), 2u);
  EXPECT_EQ(recording->buffers[2].grid.size(), 1u);
}

TEST(Recording, AStatementBelongsToTheVariantInWhichItWasMade) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    std::optional<Transfer> pending;
    c.stripe(2, [&](int variant) {
      if (variant == 1)
        pending = c.send(c.input());
    });
    pending->to(c.rank().next(d)).at(c.output());
  });
  EXPECT_TRUE(recording->diagnostics.empty());
  ASSERT_EQ(recording->statements.size(), 1u);
  EXPECT_EQ(recording->statements[0].variant, 1);
}

/// 60 doublings: 2^60 paths from the last to the first.
static Index doubled(Index number, const Dim &d) {
  for (int i = 0; i < 60; ++i)
    number = (number + number) % d;
  return number;
}

TEST(Expressions, ThatShareTheirPartsAreGoneThroughOnce) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, Mesh("rank"), [](Choreography &c) {
    auto [d] = c.dims<1>();
    Index me = doubled(c.rank()[d], d), size = doubled(d.size(), d) + 1;
    Buffer out = c.inPlace().grid(size);
    c.inPlace().grid(doubled(d.size(), d) + 1); // the same, of other nodes
    c.loop(size, [&](Index step) { c.send(out[doubled(step, d) + me]).to(c.rank().next(c.dim("rank"), size)); });
  });
  EXPECT_TRUE(recording->diagnostics.empty());
  const ExpressionRef &start = recording->statements.back().source.axes.front().start;
  EXPECT_TRUE(dependsOnRank(start));
  EXPECT_FALSE(anyNode(start, [](const Expression &node) { return node.kind == Expression::Kind::Root; }));
  EXPECT_FALSE(isSame(start, recording->statements.back().relation->steps.front().amount));
}

TEST(Requirements, AreOfTheSizesForWhichTheConditionHolds) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, Mesh("row", "column"), [](Choreography &c) {
    auto [row, column] = c.dims<2>();
    c.require(row.size() == pow2(log2(row)), "a power of two of rows");
    c.require((column + 1) % 3 != 0 && !(column > 6), "at most 6 columns, not 2 or 5");
    c.inPlace();
  });
  EXPECT_TRUE(recording->diagnostics.empty());
  for (int64_t rows = 1; rows < 20; ++rows)
    for (int64_t columns = 1; columns < 10; ++columns) {
      const Requirement *unmet = findUnmet(*recording, {rows, columns});
      const bool isFirst = (rows & (rows - 1)) != 0, isSecond = columns % 3 == 2 || columns > 6;
      ASSERT_EQ(unmet != nullptr, isFirst || isSecond) << rows << " " << columns;
      if (unmet)
        EXPECT_EQ(unmet->what, isFirst ? "a power of two of rows" : "at most 6 columns, not 2 or 5");
    }
  EXPECT_EQ(describeUnmet(*recording, *findUnmet(*recording, {6, 1}), {6, 1}),
            "test needs a power of two of rows, which row=6,column=1 is not");
}

TEST(Requirements, AreNotMetWhereTheirConditionHasNoValue) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    c.require(12 / (d - 3) > 0, "more than 3 ranks");
  });
  EXPECT_NE(findUnmet(*recording, {3}), nullptr);
  EXPECT_EQ(findUnmet(*recording, {4}), nullptr);
  std::unique_ptr<Recording> huge = recordBody(AllReduce, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    c.require(pow2(62) * d % 4 == 0, "a number of 64 bits");
  });
  EXPECT_EQ(findUnmet(*huge, {1}), nullptr);
  EXPECT_NE(findUnmet(*huge, {4}), nullptr);
}

TEST(Expressions, OfPowersAndLogarithmsHaveTheirValues) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    for (int64_t base : {2, 3, 4, 7, 10, 16, 1000}) {
      c.require(pow(base, log(base, d)) <= d.size() && d.size() < pow(base, log(base, d) + 1), "the logarithm");
      c.require(log(base, pow(base, d % 7)) == d % 7, "the inverse");
      c.require(pow(base, Index(1)) == base && pow(base, Index(0)) == 1 && pow(base, Index(2)) == base * base,
                "small powers");
    }
  });
  for (int64_t size = 1; size < 3000; ++size)
    ASSERT_EQ(findUnmet(*recording, {size}), nullptr) << size;
}

TEST(Expressions, OfReversedBitsHaveTheirValues) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Index bits = log2(d) + 1, reversed = reverseBits(d, bits);
    c.require(reverseBits(reversed, bits) == d.size(), "the inverse");
    c.require(reversed % 2 == 1 && reversed < pow2(bits), "the highest bit first");
    c.require(reverseBits(d, 0) == 0 && reverseBits(6, 3) == 3 && reverseBits(1, 20) == pow2(19), "known ones");
  });
  for (int64_t size = 1; size < 3000; ++size)
    ASSERT_EQ(findUnmet(*recording, {size}), nullptr) << size;
}
