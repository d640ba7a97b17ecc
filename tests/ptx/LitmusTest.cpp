// The memory of the executor is that of the PTX memory model: what the model allows is seen, what it forbids never is.
// The shapes are the classical ones; see README.md.
#include "Litmus.h"

#include <gtest/gtest.h>

using namespace kolo::ptx;

namespace {

/// Runs every load at its place, and reports races.
MemoryStyle reporting() {
  MemoryStyle style = exactMemory();
  style.delaysLoads = false, style.reportsRaces = true;
  return style;
}

std::string store(const std::string &how, const char *where, int value) {
  int address = where[0] - 'x' + 1;
  return "st." + how + ".b64 [%rd" + std::to_string(address) + "], " + std::to_string(value) + ";\n";
}
std::string load(const std::string &how, const char *where, int number = 0) {
  int address = where[0] - 'x' + 1;
  return "ld." + how + ".b64 %rd1" + std::to_string(number) + ", [%rd" + std::to_string(address) + "];\n";
}
std::string fence(const std::string &how) { return "fence." + how + ";\n"; }

const std::string weak = "global", relaxed = "relaxed.sys.global", release = "release.sys.global",
                  acquire = "acquire.sys.global";

/// Threads on devices of their own.
std::vector<LitmusThread> apart(const std::vector<std::string> &codes) {
  std::vector<LitmusThread> threads;
  for (const std::string &code : codes)
    threads.push_back({uint32_t(threads.size()), 0, 0, code});
  return threads;
}
/// In blocks of their own, on one device.
std::vector<LitmusThread> inBlocks(const std::vector<std::string> &codes) {
  std::vector<LitmusThread> threads;
  for (const std::string &code : codes)
    threads.push_back({0, uint32_t(threads.size()), 0, code});
  return threads;
}
/// In one block, in one warp.
std::vector<LitmusThread> together(const std::vector<std::string> &codes) {
  std::vector<LitmusThread> threads;
  for (const std::string &code : codes)
    threads.push_back({0, 0, uint32_t(threads.size()), code});
  return threads;
}

/// Whether an outcome that begins with `seen`, or that has these last values, was ever seen.
bool sees(const std::vector<LitmusThread> &threads, const std::string &seen, const std::string &last = "") {
  for (const std::string &outcome : runLitmus(threads, exactMemory()))
    if (outcome.starts_with(seen) && outcome.ends_with(last))
      return true;
  return false;
}

/// Message passing: data in x, a flag in y. The reader sees the flag and not the data.
const std::string stale = "0 0 1 0;";
std::vector<std::string> passing(const std::string &flagStore, const std::string &flagLoad,
                                 const std::string &dataLoad = weak) {
  return {store(weak, "x", 1) + store(flagStore, "y", 1), load(flagLoad, "y") + load(dataLoad, "x", 1)};
}

std::string scoped(const std::string &order, const std::string &scope) { return order + "." + scope + ".global"; }

} // namespace

TEST(MessagePassing, NeedsReleaseAndAcquire) {
  EXPECT_FALSE(sees(apart(passing(release, acquire)), stale));
  EXPECT_TRUE(sees(apart(passing(release, acquire)), "0 0 1 1;"));
  EXPECT_TRUE(sees(apart(passing(relaxed, acquire)), stale));
  EXPECT_TRUE(sees(apart(passing(release, relaxed)), stale));
  EXPECT_TRUE(sees(apart(passing(weak, weak)), stale));
  EXPECT_TRUE(sees(apart(passing("volatile.global", "volatile.global")), stale)) << "volatile is relaxed";
}

TEST(MessagePassing, NeedsScopesThatNameBothThreads) {
  for (const char *scope : {"gpu", "cta"}) {
    EXPECT_TRUE(sees(apart(passing(scoped("release", scope), acquire)), stale)) << scope;
    EXPECT_TRUE(sees(apart(passing(release, scoped("acquire", scope))), stale)) << scope;
  }
  EXPECT_FALSE(sees(inBlocks(passing(scoped("release", "gpu"), scoped("acquire", "gpu"))), stale));
  EXPECT_TRUE(sees(inBlocks(passing(scoped("release", "cta"), acquire)), stale));
  EXPECT_FALSE(sees(together(passing(scoped("release", "cta"), scoped("acquire", "cta"))), stale));
}

TEST(MessagePassing, WorksByFencesOfSufficientScope) {
  auto fenced = [](const std::string &how, const std::string &other) {
    return std::vector<std::string>{store(weak, "x", 1) + fence(how) + store(relaxed, "y", 1),
                                    load(relaxed, "y") + fence(other) + load(weak, "x", 1)};
  };
  EXPECT_FALSE(sees(apart(fenced("acq_rel.sys", "acq_rel.sys")), stale));
  EXPECT_FALSE(sees(apart(fenced("sc.sys", "acq_rel.sys")), stale));
  EXPECT_TRUE(sees(apart(fenced("acq_rel.gpu", "acq_rel.sys")), stale));
  EXPECT_TRUE(sees(apart(fenced("acq_rel.sys", "acq_rel.cta")), stale));
  EXPECT_FALSE(sees(inBlocks(fenced("acq_rel.gpu", "acq_rel.gpu")), stale));
}

TEST(MessagePassing, FailsWhereDataIsReadNonCoherently) {
  EXPECT_TRUE(sees(apart(passing(release, acquire, "global.nc")), stale));
}

TEST(MessagePassing, WorksByALaterStoreToTheFlag) {
  EXPECT_FALSE(sees(apart({store(weak, "x", 1) + store(release, "y", 1) + store(relaxed, "y", 2),
                           load(acquire, "y") + load(weak, "x", 1)}),
                    "0 0 2 0;"));
}

TEST(MessagePassing, WorksByBarriers) {
  auto meeting = [](const std::string &barrier) {
    return std::vector<LitmusThread>{{0, 0, 0, store(weak, "x", 1) + barrier}, {0, 0, 1, barrier + load(weak, "x")}};
  };
  EXPECT_TRUE(sees(meeting(""), "0 0 0 0;"));
  EXPECT_FALSE(sees(meeting("bar.warp.sync 3;\n"), "0 0 0 0;"));
  // All 32 threads of a block.
  std::vector<LitmusThread> block = meeting("bar.sync 0;\n");
  for (uint32_t thread = 2; thread < warpThreads; ++thread)
    block.push_back({0, 0, thread, "bar.sync 0;\n"});
  EXPECT_FALSE(sees(block, "0 0 0 0 "));
  EXPECT_TRUE(sees(block, "0 0 1 0 "));
}

TEST(StoreBuffering, IsForbiddenByFencesThatAreSequentiallyConsistent) {
  auto buffering = [](const std::string &between, const std::string &stores = relaxed) {
    return apart(
        {store(stores, "x", 1) + between + load(relaxed, "y"), store(stores, "y", 1) + between + load(relaxed, "x")});
  };
  EXPECT_TRUE(sees(buffering(""), "0 0 0 0;"));
  EXPECT_TRUE(sees(buffering("", release), "0 0 0 0;"));
  EXPECT_TRUE(sees(buffering(fence("acq_rel.sys")), "0 0 0 0;"));
  EXPECT_TRUE(sees(buffering(fence("sc.gpu")), "0 0 0 0;"));
  EXPECT_FALSE(sees(buffering(fence("sc.sys")), "0 0 0 0;"));
}

TEST(IndependentReads, MaySeeStoresInDifferentOrders) {
  auto reads = [](const std::string &between) {
    return apart({store(relaxed, "x", 1), store(relaxed, "y", 1), load(acquire, "x") + between + load(acquire, "y", 1),
                  load(acquire, "y") + between + load(acquire, "x", 1)});
  };
  EXPECT_TRUE(sees(reads(""), "0 0 0 0 1 0 1 0;"));
  EXPECT_TRUE(sees(reads(fence("acq_rel.sys")), "0 0 0 0 1 0 1 0;"));
  EXPECT_FALSE(sees(reads(fence("sc.sys")), "0 0 0 0 1 0 1 0;"));
}

TEST(Coherence, HoldsOfOnePlace) {
  // Read, read; write, read; read, write.
  EXPECT_FALSE(sees(apart({store(relaxed, "x", 1), load(relaxed, "x") + load(relaxed, "x", 1)}), "0 0 1 0;"));
  EXPECT_FALSE(
      sees(apart({store(relaxed, "x", 1) + store(relaxed, "x", 2), load(relaxed, "x") + load(relaxed, "x", 1)}),
           "0 0 2 1;"));
  EXPECT_FALSE(sees(apart({store(relaxed, "x", 1) + load(relaxed, "x"), store(relaxed, "x", 2)}), "0 0"));
  EXPECT_FALSE(sees(apart({store(relaxed, "x", 1), load(relaxed, "x") + store(relaxed, "x", 2)}), "0 0 1 0;", " 1 0"));
}

TEST(Causality, GoesOnThroughAThirdThread) {
  auto chain = [](const std::string &first, const std::string &second, const std::string &third) {
    return apart(
        {store(first, "x", 1), load(second, "x") + store(third, "y", 1), load(acquire, "y") + load(weak, "x", 1)});
  };
  EXPECT_FALSE(sees(chain(release, acquire, release), "0 0 1 0 1 0;"));
  EXPECT_FALSE(sees(chain(relaxed, relaxed, release), "0 0 1 0 1 0;")) << "what is observed is passed on";
  EXPECT_TRUE(sees(chain(relaxed, relaxed, relaxed), "0 0 1 0 1 0;"));
  EXPECT_TRUE(sees(chain(weak, weak, release), "0 0 1 0 1 0;")) << "a weak store is not observed";
  // Two flags, one after the other: y, then z.
  auto twoFlags = [](const std::string &last) {
    return apart({store(weak, "x", 1) + store(release, "y", 1), load(acquire, "y") + store(last, "z", 1),
                  load(acquire, "z") + load(weak, "x", 1)});
  };
  EXPECT_FALSE(sees(twoFlags(release), "0 0 1 0 1 0;"));
  EXPECT_TRUE(sees(twoFlags(scoped("release", "gpu")), "0 0 1 0 1 0;"));
  EXPECT_TRUE(sees(twoFlags(relaxed), "0 0 1 0 1 0;"));
}

TEST(Stores, AreOrderedAsLittleAsTheModelSays) {
  // 2+2W: the first store of each thread comes last.
  auto crossing = [](const std::string &between) {
    return apart({store(relaxed, "x", 1) + between + store(relaxed, "y", 2),
                  store(relaxed, "y", 1) + between + store(relaxed, "x", 2)});
  };
  EXPECT_TRUE(sees(crossing(""), "", "; 1 1"));
  EXPECT_FALSE(sees(crossing(fence("sc.sys")), "", "; 1 1"));
  // S: a store after an acquire comes after what was released.
  auto overwriting = [](const std::string &released) {
    return apart({store(relaxed, "x", 2) + store(released, "y", 1), load(acquire, "y") + store(relaxed, "x", 1)});
  };
  EXPECT_FALSE(sees(overwriting(release), "0 0 1 0;", "; 2 1"));
  EXPECT_TRUE(sees(overwriting(relaxed), "0 0 1 0;", "; 2 1"));
  // R: a store is first, and yet the load before it sees nothing.
  auto racing = [](const std::string &between) {
    return apart({store(relaxed, "x", 1) + between + store(relaxed, "y", 1),
                  store(relaxed, "y", 2) + between + load(relaxed, "x")});
  };
  EXPECT_TRUE(sees(racing(""), "0 0 0 0;", "; 1 2"));
  EXPECT_FALSE(sees(racing(fence("sc.sys")), "0 0 0 0;", "; 1 2"));
}

/// Each thread loads what the other one stores later.
TEST(LoadBuffering, IsSeenUnlessSomethingOrdersIt) {
  auto buffering = [](const std::string &loads, const std::string &stores, const std::string &between = "") {
    return apart(
        {load(loads, "x") + between + store(stores, "y", 1), load(loads, "y") + between + store(stores, "x", 1)});
  };
  const std::string both = "1 0 1 0;";
  EXPECT_TRUE(sees(buffering(relaxed, relaxed), both));
  EXPECT_TRUE(sees(buffering(weak, weak), both));
  EXPECT_TRUE(sees(buffering(weak, relaxed), both));
  EXPECT_FALSE(sees(buffering(acquire, release), both));
  EXPECT_TRUE(sees(buffering(weak, weak, fence("acq_rel.sys")), both)) << "weak accesses are in no pattern";
  EXPECT_FALSE(sees(buffering(relaxed, relaxed, fence("acq_rel.sys")), both));
  EXPECT_TRUE(sees(buffering(weak, scoped("release", "cta")), both));
}

/// A store of what a load gave waits for the load, so that no value comes out of thin air.
TEST(LoadBuffering, EndsWhereValuesDependOnEachOther) {
  auto copy = [](const char *from, const std::string &to) {
    return load(relaxed, from) + "st.relaxed.sys.global.b64 [%rd" + to + "], %rd10;\n";
  };
  EXPECT_EQ(runLitmus(apart({copy("x", "2"), copy("y", "1")}), exactMemory()), Outcomes{"0 0 0 0; 0 0"});
  auto branch = [](const char *from, const char *to) {
    return load(relaxed, from) + "setp.eq.b64 %p2, %rd10, 0;\n@%p2 bra $S" + std::string(from) + ";\n" +
           store(relaxed, to, 1) + "$S" + from + ":\n";
  };
  EXPECT_EQ(runLitmus(apart({branch("x", "y"), branch("y", "x")}), exactMemory()), Outcomes{"0 0 0 0; 0 0"});
}

/// What the model allows and no schedule shows: strong loads take place before a later release or fence of their
/// threads, even if neither thread acquires anything.
TEST(LoadBuffering, IsNotSeenAcrossReleasesOfStrongLoads) {
  auto buffering = [](const std::string &first, const std::string &second) {
    return apart({load(relaxed, "x") + store(first, "y", 1), load(relaxed, "y") + store(second, "x", 1)});
  };
  EXPECT_TRUE(sees(buffering(release, relaxed), "1 0 1 0;"));
  EXPECT_FALSE(sees(buffering(release, release), "1 0 1 0;"));
}

/// Calls run every load at its place. Where a weak load may see a later store, the executor reports a race.
TEST(LoadBuffering, IsReportedAsARace) {
  auto buffering = [](const std::string &how) {
    return apart({load(how, "x") + store(relaxed, "y", 1), load(relaxed, "y") + store(how, "x", 1)});
  };
  EXPECT_THROW(runLitmus(buffering(weak), reporting()), Problem);
  EXPECT_NO_THROW(runLitmus(buffering(relaxed), reporting()));
}

TEST(Races, AreReportedWhereNothingOrdersWeakAccesses) {
  EXPECT_NO_THROW(runLitmus(apart({store(relaxed, "x", 1), store(relaxed, "x", 2)}), reporting()));
  EXPECT_THROW(runLitmus(apart({store(weak, "x", 1), store(weak, "x", 2)}), reporting()), Problem);
  EXPECT_THROW(runLitmus(apart({store(relaxed, "x", 1), load(weak, "x")}), reporting()), Problem);
  EXPECT_THROW(runLitmus(apart({store(scoped("relaxed", "gpu"), "x", 1), load(relaxed, "x")}), reporting()), Problem);
  EXPECT_THROW(runLitmus(apart(passing(relaxed, acquire)), reporting()), Problem);
}

TEST(Directed, DelaysWhatOneLineStores) {
  constexpr uint64_t address = 4096;
  constexpr uint32_t line = 7;
  Memory memory({{0, 0}, {1, 1}});
  memory.addRegion(address, 8, nullptr, false);
  auto seen = [&](uint32_t delayedLine) {
    MemoryStyle style;
    style.staleIn8 = 0, style.delayedLine = delayedLine, style.delay = 2;
    memory.reset(style);
    const Access access{Space::Global, Order::Relaxed, Scope::System, false};
    uint64_t value = 1;
    memory.store(0, address, 8, access, line, reinterpret_cast<const std::byte *>(&value));
    std::string text;
    for (int i = 0; i < 3; ++i) {
      memory.load(1, address, 8, access, 0, reinterpret_cast<std::byte *>(&value));
      text += std::to_string(value);
    }
    return text;
  };
  EXPECT_EQ(seen(0), "111");
  EXPECT_EQ(seen(line), "011");
}
