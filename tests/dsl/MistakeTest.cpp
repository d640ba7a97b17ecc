// An author's mistakes that need no mesh sizes to be seen: each is reported at its own line, all of them at once.
#include "Support.h"

#include <stdexcept>

using namespace kolo::dsl;

TEST(Mistakes, NoneInACorrectChoreography) {
  expectMistakes(AllReduce, nodes, [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    Rank me = c.rank(), peer = me.others(gpu).next(node, 2);
    Buffer out = c.inPlace().grid(gpu, node, 4), work = c.scratch("work", out);
    c.copy(out, work);
    c.loop(node.size() - 1, [&, gpu = gpu](Index i) {
      c.when(me[gpu] < 2 && i != 3, [&] { c.send(work[{peer[gpu], i, all}]).to(peer).at(out[{i, 0, all}]).reduce(); });
    });
    c.reduce(work[{range(0, 1), range(1, 2), 3}], out[{0, range(2, 2), 3}]);
  });
}

TEST(Mistakes, AnUnknownDimensionIsNamed) {
  expectMistakes(AllGather, nodes, [](Choreography &c) {
    mistakeBelow("unknown dimension 'gpus'");
    c.dim("gpus");
  });
}

TEST(Mistakes, AnUnknownDimensionInTheCollectiveIsReportedAtTheDefinition) {
  Body unreached = [](Choreography &) { FAIL() << "the body of a choreography without a group has run"; };
  std::unique_ptr<Recording> recording = recordBody(AllGather.over("gpus"), nodes, unreached);
  ASSERT_EQ(recording->diagnostics.size(), 1u);
  EXPECT_EQ(recording->diagnostics[0].message, "unknown dimension 'gpus' in the collective");
  EXPECT_EQ(recording->diagnostics[0].location.line(), unsigned(__LINE__ - 3));
}

TEST(Mistakes, AMeshHasBetweenOneAndFourDimensionsOfDifferentNames) {
  auto messageFor = [](const Mesh &mesh) {
    std::unique_ptr<Recording> recording = recordBody(AllGather, mesh, [](Choreography &) {});
    return recording->diagnostics.size() == 1 ? recording->diagnostics[0].message : "";
  };
  EXPECT_EQ(messageFor(Mesh()), "a mesh has between one and four dimensions");
  EXPECT_EQ(messageFor(Mesh("a", "b", "c", "d", "e")), "a mesh has between one and four dimensions");
  EXPECT_EQ(messageFor(Mesh("a", "b", "a")), "the mesh has two dimensions named 'a'");
}

TEST(Mistakes, TheNumberOfDimensionsMustBeThatOfTheMesh) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    mistakeBelow("dims<2> of a mesh that has 1 dimension");
    c.dims<2>();
  });
  expectMistakes(AllGather, nodes, [](Choreography &c) {
    mistakeBelow("dims<1> of a mesh that has 2 dimensions");
    c.dims<1>();
  });
}

TEST(Mistakes, ADimensionThatTheMeshDoesNotHaveIsReportedWhereverItIsUsed) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    Buffer work = c.scratch("work", c.input()).grid(4);
    mistakeBelow("unknown dimension 'gpu'");
    Dim gpu = c.dim("gpu");
    mistakeBelow("the grid of 'output' uses a dimension that the mesh does not have");
    Buffer out = c.output().grid(gpu);
    mistakeBelow("the number of iterations uses a dimension that the mesh does not have");
    c.loop(gpu.size(), [](Index) {});
    mistakeBelow("uses a dimension that the mesh does not have");
    c.copy(c.input(), work[c.rank()[gpu]]);
    mistakeBelow("next(dim, distance) goes along a dimension that the mesh does not have");
    c.send(c.input()).to(c.rank().next(gpu)).at(out);
  });
}

TEST(Mistakes, ASliceHasOneIndexPerGridDimension) {
  expectMistakes(AllGather, nodes, [](Choreography &c) {
    mistakeBelow("the destination slice has 1 indices, the grid of 'output' has 2 dimensions");
    c.copy(c.input(), c.output()[0]);
    mistakeBelow("the source slice has 3 indices, the grid of 'output' has 2 dimensions");
    c.send(c.output()[{0, 0, 0}]).to(c.rank()).at(c.output()[{0, 0}]);
    mistakeBelow("the source slice has 1 indices, the grid of 'input' has 0 dimensions");
    c.copy(c.input()[0], c.output()[{0, 0}]);
  });
}

TEST(Mistakes, RangedDimensionsArePaired) {
  expectMistakes(AllGather, nodes, [](Choreography &c) {
    mistakeBelow("the source slice has 0 ranged dimensions, the destination slice 1");
    c.copy(c.input(), c.output()[{all, 0}]);
    mistakeBelow("the source slice has 2 ranged dimensions, the destination slice 1");
    c.send(c.output()).to(c.rank()).at(c.output()[{range(0, 2), 1}]);
    c.send(c.output()[{all, 0}]).to(c.rank()).at(c.output()[{0, range(1, 2)}]); // a row may become a column
  });
}

TEST(Mistakes, ARelationMustHaveAnInverse) {
  expectMistakes(AllGather, nodes, [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    Rank me = c.rank();
    Slice block = c.output()[me];
    mistakeBelow("next(dim, distance) depends on a coordinate of the sender, so the relation has no inverse");
    c.send(block).to(me.next(node, me[gpu]));
    mistakeBelow("flip(dim, mask) depends on a coordinate of the sender");
    c.send(block).to(me.flip(gpu, me[gpu] + 1));
    mistakeBelow("at(dim, coordinate) depends on a coordinate of the sender");
    c.send(block).to(me.at(node, me[node]));
    mistakeBelow("mapped(dim, table) needs a permutation of 0 to size - 1");
    c.send(block).to(me.mapped(node, {0, 0}));
    mistakeBelow("mapped(dim, table) needs a permutation of 0 to size - 1");
    c.send(block).to(me.mapped(node, {1, 2}));
    mistakeBelow("others(dim) goes along a dimension that the relation already goes along");
    c.send(block).to(me.next(gpu).others(gpu));
    c.send(block).to(me.mapped(node, {2, 0, 1}).next(gpu, node.size() - 1));
  });
}

TEST(Mistakes, NoneInACorrectUseOfTables) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank me = c.rank();
    Table ring({0, 1, 3, 2}), distances({1, 3}), one({1});
    Buffer out = c.output();
    c.loop(distances[one[0]], [&, d = d](Index i) {
      c.when(ring[me[d]] == 1, [&] { c.send(out[ring[ring[me[d]]]]).to(me.next(d, distances[i % 2])); });
    });
  });
}

TEST(Mistakes, ATableHasEntries) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Table none(std::vector<int64_t>{});
    mistakeBelow("the number of iterations uses a table without entries");
    c.loop(none[0], [](Index) {});
    mistakeBelow("uses a table without entries");
    c.send(c.output()[none[c.rank()[d]]]).to(c.rank().next(d));
  });
}

TEST(Mistakes, ConstantsFitIntoANumberTogether) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    const std::string huge = "has constants that are together beyond 64 bits";
    mistakeBelow("the grid of 'output' " + huge);
    c.output().grid(d, pow2(62) * 4 + 2);
    mistakeBelow("the grid of 'a' " + huge);
    c.scratch("a", c.output()).grid(pow2(40) * d * pow2(24));
    mistakeBelow("the number of iterations " + huge);
    c.loop((d + pow2(62)) + (d + pow2(62)), [](Index) {});
    mistakeBelow("the number of iterations " + huge);
    c.loop(0 - pow2(62) - pow2(62) - 1, [](Index) {});
  });
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    c.loop(pow2(62) + (pow2(62) - 1) - pow2(31) * pow2(31) + pow(3, d) % 2, [](Index) {});
  });
}

TEST(Mistakes, ATableDoesNotHideACoordinate) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank me = c.rank();
    Table table({1, 2, 3, 0});
    mistakeBelow("next(dim, distance) depends on a coordinate of the sender, so the relation has no inverse");
    c.send(c.output()[0]).to(me.next(d, table[me[d]]));
    mistakeBelow("the number of iterations depends on the rank; it must be the same on every rank");
    c.loop(table[me[d]], [](Index) {});
    Rank peer = me.next(d);
    mistakeBelow("uses the coordinate of a peer that this statement does not send to");
    c.send(c.output()[table[peer[d]]]).to(me.others(d));
  });
}

TEST(Mistakes, GridsOfEqualTablesAreTheSame) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    auto cut = [&](std::vector<int64_t> entries, Location location) {
      c.output().grid(Table(std::move(entries))[c.size()], location);
    };
    cut({1, 2, 3}, Location::current());
    cut({1, 2, 3}, Location::current());
    mistakeBelow("'output' is cut into a second, different grid; a buffer has one");
    cut({1, 2, 4}, Location::current());
  });
}

TEST(Mistakes, ASendSaysWhereToOnce) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    mistakeBelow("send() without to()");
    c.send(c.output()[0]);
    mistakeBelow("sends to one relation; this one has two");
    c.send(c.output()[0]).to(c.rank().next(d)).to(c.rank().next(d, 2));
    mistakeBelow("lands at one slice; this one has two");
    c.send(c.output()[0]).to(c.rank().next(d)).at(c.output()[1]).at(c.output()[2]);
  });
}

TEST(Mistakes, OnlyThePeersOfTheStatementItselfHaveCoordinates) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank me = c.rank(), peer = me.others(d), other = me.next(d);
    Buffer out = c.output();
    c.send(out[peer]).to(peer);
    mistakeBelow("uses the coordinate of a peer that this statement does not send to");
    c.send(out[other]).to(peer);
    mistakeBelow("uses the coordinate of a peer that this statement does not send to");
    c.copy(c.input(), out[peer]);
    c.when(peer[d] == 0, [&] {
      c.send(out[me]).to(peer);
      mistakeBelow("uses the coordinate of a peer that this statement does not send to");
      c.send(out[me]).to(other);
    });
    c.copy(c.input(), out[me.at(d, 3)]); // a fixed coordinate is known to all
  });
}

TEST(Mistakes, OnlyCollectivesThatReduceHaveAReduction) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    mistakeBelow("this collective has no reduction");
    c.send(c.output()[0]).to(c.rank().next(d)).reduce();
    mistakeBelow("this collective has no reduction");
    c.reduce(c.input(), c.output()[0]);
  });
}

TEST(Mistakes, OnlyRootedCollectivesHaveARoot) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Rank root = c.root();
    mistakeBelow("uses the root of a collective that has none");
    c.copy(c.input(), c.output()[root]);
    mistakeBelow("uses the root of a collective that has none");
    c.send(c.input()).to(c.rank().at(d, root[d])).at(c.output()[0]);
    mistakeBelow("the number of iterations uses the root of a collective that has none");
    c.loop(root[d], [](Index) {});
  });
}

TEST(Mistakes, ABodyThatThrowsIsReportedAtItsDefinition) {
  Body throwing = [](Choreography &c) {
    c.send(c.output());
    c.loop(2, [](Index) { throw std::runtime_error("out of luck"); });
  };
  std::unique_ptr<Recording> recording = recordBody(AllReduce, line, throwing);
  unsigned definitionLine = __LINE__ - 1;
  ASSERT_EQ(recording->diagnostics.size(), 2u) << "what was recorded before is still looked at";
  EXPECT_EQ(recording->diagnostics[0].message, "send() without to(): it does not say where");
  EXPECT_EQ(recording->diagnostics[1].message, "the body threw an exception: out of luck");
  EXPECT_EQ(recording->diagnostics[1].location.line(), definitionLine);

  recording = recordBody(AllReduce, line, [](Choreography &) { throw 1; });
  ASSERT_EQ(recording->diagnostics.size(), 1u);
  EXPECT_EQ(recording->diagnostics[0].message, "the body threw an exception");
}

TEST(Mistakes, AllOfThemAreReportedTogetherInTheOrderOfLines) {
  expectMistakes(AllReduce, nodes, [](Choreography &c) {
    mistakeBelow("dims<3> of a mesh that has 2 dimensions");
    c.dims<3>();
    auto [node, gpu] = c.dims<2>();
    Rank me = c.rank();
    Buffer in = c.input().grid(gpu), out = c.output().grid(gpu);
    mistakeBelow("the input may not be written");
    c.copy(out, in);
    c.when(me[node] == 0, [&, gpu = gpu] {
      c.send(out[me[gpu]]).to(me.next(gpu));
      mistakeBelow("send() without to()");
      c.send(out[0]);
    });
    mistakeBelow("the number of iterations depends on the rank");
    c.loop(me[gpu] + 1, [&](Index) {
      mistakeBelow("the source slice has 2 indices");
      c.copy(in[{0, 0}], out[0]);
    });
    mistakeBelow("next(dim, distance) depends on a coordinate");
    c.send(out[all]).to(me.next(gpu, me[node]));
  });
}

static void sendsNowhere(Choreography &c, Location caller = Location::current()) {
  CalledFrom scope(c, caller);
  c.send(c.output());
}

static void callsBoth(Choreography &c, Location caller = Location::current()) {
  CalledFrom scope(c, caller);
  c.dim("nowhere");
  sendsNowhere(c);
}

static std::vector<unsigned> callerLines(const Diagnostic &diagnostic) {
  std::vector<unsigned> lines;
  for (const Location &caller : diagnostic.callers)
    lines.push_back(caller.line());
  return lines;
}

TEST(Mistakes, AMistakeInABuildingBlockKnowsTheLinesThatCalledIt) {
  std::unique_ptr<Recording> recording = recordBody(AllReduce, line, [](Choreography &c) {
    sendsNowhere(c);
    callsBoth(c);
    for (int time = 0; time < 2; ++time) // a mistake of one statement and one call is reported once
      sendsNowhere(c);
    c.send(c.output());
  });
  unsigned last = __LINE__ - 2;
  ASSERT_EQ(recording->diagnostics.size(), 5u);
  using Lines = std::vector<unsigned>;
  const std::vector<Diagnostic> &found = recording->diagnostics;
  unsigned block = found[0].location.line(), nested = found[3].location.line() + 1; // where callsBoth calls the other
  for (int i : {0, 1, 2})
    EXPECT_EQ(found[size_t(i)].location.line(), block);
  EXPECT_EQ(callerLines(found[0]), (Lines{nested, last - 3}));
  EXPECT_EQ(callerLines(found[1]), Lines{last - 4});
  EXPECT_EQ(callerLines(found[2]), Lines{last - 1});
  EXPECT_EQ(callerLines(found[3]), Lines{last - 3}) << "reported while the block is recorded";
  EXPECT_EQ(found[4].location.line(), last);
  EXPECT_EQ(callerLines(found[4]), Lines{}) << "no block is open any more";
}

TEST(Mistakes, ARequirementIsOfSizesAlone) {
  expectMistakes(Broadcast, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    c.require(d.size() > 1, "two ranks");
    mistakeBelow("what the choreography requires depends on more than sizes of the mesh");
    c.require(c.rank()[d] < 4, "few ranks");
    mistakeBelow("what the choreography requires depends on more than sizes of the mesh");
    c.require(c.root()[d] < 4, "an early root");
    mistakeBelow("what the choreography requires uses a dimension that the mesh does not have");
    c.require(Dim().size() > 1, "more");
  });
}

TEST(Mistakes, BlocksAreNotCut) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Buffer stage = c.blocks("stage", {d, 2});
    c.copy(c.input(), stage[{c.rank()[d], 1}]);
    c.copy(stage[{0, 1}], c.output()[0]);
    mistakeBelow("the grid of 'stage' is that of its blocks, which are not cut");
    stage.grid(d);
    mistakeBelow("the grid of 'bad' depends on the rank; it must be the same on every rank");
    c.blocks("bad", c.rank()[d]);
    mistakeBelow("there is a buffer named 'stage' already");
    c.blocks("stage", 2);
  });
}
