// An author's mistakes with buffers: their grids, slots and stripes.
#include "Support.h"

using namespace kolo::dsl;

TEST(Mistakes, TheInputMayNotBeWritten) {
  expectMistakes(AllToAll, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    mistakeBelow("the input may not be written");
    c.copy(c.output(), c.input());
    mistakeBelow("the input may not be written");
    c.send(c.input()[0]).to(c.rank().next(d));
  });
}

TEST(Mistakes, InPlaceNeedsAnInputAndAnOutputOfOneSize) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    mistakeBelow("inPlace() needs an input and an output of the same size");
    c.inPlace();
  });
}

TEST(Mistakes, ABufferHasOneGrid) {
  expectMistakes(AllReduce, nodes, [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    c.output().grid(node);
    c.output().grid(node);
    mistakeBelow("'output' is cut into a second, different grid");
    c.output().grid(gpu);
    mistakeBelow("the grid of 'input' depends on the rank");
    c.input().grid(c.rank()[node] + 1);
  });
}

TEST(Mistakes, AGridDoesNotDependOnALoop) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    c.loop(4, [&](Index i) {
      mistakeBelow("the grid of 'output' depends on a loop index");
      c.output().grid(i + 1);
    });
  });
}

TEST(Mistakes, BlocksPerRankComeFirstInAGrid) {
  expectMistakes(AllGather, nodes, [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    mistakeBelow("the grid of 'output', which holds one block per rank, must start with the collective's dimensions");
    c.output().grid(gpu, node);
  });
  expectMistakes(AllGather.over("gpu"), nodes, [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    c.output().grid(gpu, node);
  });
}

TEST(Mistakes, TheNumberOfIterationsIsTheSameOnEveryRank) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    mistakeBelow("the number of iterations depends on the rank");
    c.loop(c.rank()[d], [&](Index i) {
      mistakeBelow("send() without to()");
      c.send(c.output()[i]);
    });
  });
}

TEST(Mistakes, ALoopIndexBelongsToItsLoop) {
  expectMistakes(AllGather, line, [](Choreography &c) {
    Index last = 0;
    c.loop(4, [&](Index i) {
      last = i;
      c.copy(c.input(), c.output()[last]);
      c.loop(last, [&](Index j) { c.copy(c.input(), c.output()[i + j]); });
    });
    mistakeBelow("uses the index of a loop that it is not in");
    c.copy(c.input(), c.output()[last]);
    mistakeBelow("the number of iterations uses the index of a loop that it is not in");
    c.loop(last + 1, [](Index) {});
  });
}

TEST(Mistakes, ScratchBuffersHaveNamesOfTheirOwn) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    c.scratch("work", c.input());
    mistakeBelow("there is a buffer named 'work' already");
    c.scratch("work", c.input());
    mistakeBelow("there is a buffer named 'input' already");
    c.scratch("input", c.input());
  });
}

TEST(Mistakes, NoneInACorrectUseOfSlots) {
  expectMistakes(AllReduce, nodes, [](Choreography &c) {
    auto [node, gpu] = c.dims<2>();
    Rank me = c.rank();
    Buffer out = c.inPlace().grid(gpu, node), two = c.slots("two", out, 2), one = c.slots("one", out, {});
    Buffer matrix = c.slots("matrix", two, {node.size() - 1, gpu}), more = c.scratch("more", matrix);
    c.loop(node.size() - 1, [&, node = node, gpu = gpu](Index i) {
      c.send(out[{i, 0}]).to(me.next(node)).at(two[i % 2]);
      c.reduce(two[i % 2], out[{i, 0}]);
      c.send(out[{all, 0}]).to(me.next(node)).at(matrix[{i, all}]);
      c.reduce(matrix[{i, 0}], out[{0, 0}]);
      c.copy(out[{0, 0}], more[{i, me[gpu]}]);
    });
    c.send(out[{0, 0}]).to(me.next(gpu)).at(one);
    c.reduce(one, out[{0, 0}]);
  });
}

TEST(Mistakes, OneSideOfAStatementHasNoSlots) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Buffer out = c.inPlace().grid(d), a = c.slots("a", out, 2), b = c.slots("b", a, 2);
    mistakeBelow("goes from a slot of 'a' to a slot of 'b'; one side must be a chunk of 'output'");
    c.copy(a[0], b[1]);
    mistakeBelow("goes from a slot of 'b' to a slot of 'b'; one side must be a chunk of 'output'");
    c.send(b[0]).to(c.rank().next(d));
    mistakeBelow("the source slice has 0 ranged dimensions, the destination slice 1");
    c.copy(out[0], a);
  });
}

TEST(Mistakes, SlotsAreNotCutAndTheirNumberIsTheSameEverywhere) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Buffer out = c.output().grid(d);
    mistakeBelow("the grid of 'cut' is that of its slots, which are not cut");
    c.copy(out, c.slots("cut", out, 2).grid(d));
    mistakeBelow("the grid of 'copied' is that of its slots, which are not cut");
    c.scratch("copied", c.slots("model", out, 2)).grid(d);
    mistakeBelow("the grid of 'ranked' depends on the rank; it must be the same on every rank");
    c.slots("ranked", out, c.rank()[d]);
    mistakeBelow("there is a buffer named 'model' already");
    c.slots("model", out, 2);
    c.loop(3, [&](Index i) {
      mistakeBelow("the grid of 'looped' depends on a loop index; a buffer has one grid");
      c.slots("looped", out, {2, i});
    });
    mistakeBelow("the grid of 'uncut' depends on the rank");
    Buffer uncut = c.scratch("uncut", out).grid(c.rank()[d]);
    c.copy(out[0], c.slots("unknown", uncut, 1)[0]); // reported where it was made
  });
}

TEST(Mistakes, TheSizeOfScratchMemoryDoesNotDependOnTheRoot) {
  expectMistakes(Broadcast, line, [](Choreography &c) {
    auto [d] = c.dims<1>();
    Index root = c.root()[d];
    Buffer in = c.input().grid(root + 1);
    mistakeBelow("the grid of 'work' depends on the root; that of scratch memory is the same at every call");
    c.copy(in, c.scratch("work", in));
    mistakeBelow("the grid of 'fine' depends on the root");
    c.scratch("fine", c.output()).grid(d, root);
    mistakeBelow("the grid of 'slots' depends on the root");
    c.slots("slots", c.output(), root);
    mistakeBelow("the grid of 'large' depends on the root");
    c.copy(in[0], c.slots("large", in, 2)[0]);
  });
}

TEST(Mistakes, AStripeHasBetweenOneAndSixteenVariants) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    Buffer out = c.inPlace();
    mistakeBelow("stripe(k) cuts every chunk in 1 to 16 parts, not in 0");
    c.stripe(0, [&](int) {
      mistakeBelow("send() without to()"); // the body is looked at all the same
      c.send(out);
    });
    mistakeBelow("stripe(k) cuts every chunk in 1 to 16 parts, not in 17");
    c.stripe(17, [](int variant) { EXPECT_EQ(variant, 0); });
    c.stripe(16, [](int) {});
  });
  expectMistakes(AllReduce, line, [](Choreography &c) { c.stripe(1, [](int) {}); });
}

TEST(Mistakes, AllStripesHaveTheSameNumberOfVariants) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    std::string place = std::string("BufferMistakeTest.cpp:") + std::to_string(__LINE__ + 1) + " in 2";
    c.stripe(2, [](int) {});
    mistakeBelow("cuts every chunk in 3 parts, but the stripe at ");
    c.stripe(3, [](int) {});
    mistakeBelow(place);
    c.stripe(4, [](int) {});
    c.stripe(2, [](int) {});
  });
}

TEST(Mistakes, AStripeIsInNoOtherOne) {
  expectMistakes(AllReduce, line, [](Choreography &c) {
    std::string place = "BufferMistakeTest.cpp:" + std::to_string(__LINE__ + 1);
    c.stripe(2, [&](int variant) {
      if (variant == 0) // reported once, though both variants make it
        mistakeBelow(place);
      c.stripe(2, [](int) {});
    });
    c.loop(2, [&](Index) { c.stripe(2, [](int) {}); });
  });
}
