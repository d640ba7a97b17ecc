// Choreographies whose tables say who sends what, compiled, give what their collective is defined to give.
#include "Shipped.h"

#include "tools/compile/Compile.h"

using namespace kolo::conformance;
using namespace kolo::dsl;
using kolo::test::Launch;

namespace {

/// Two rings side by side, both in an order of their own.
void ringsInOrder(Choreography &c) {
  const std::vector<int64_t> order = {0, 1, 5, 4, 6, 7, 3, 2};
  std::vector<int64_t> positions(8), next(8), previous(8);
  for (size_t i = 0; i < 8; ++i) {
    positions[size_t(order[i])] = int64_t(i);
    next[size_t(order[i])] = order[(i + 1) % 8];
    previous[size_t(order[(i + 1) % 8])] = order[i];
  }
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Table ring(order), position(positions);
  Buffer out = c.output();
  c.copy(c.input(), out[me]);
  c.stripe(2, [&, d = d](int variant) {
    int direction = variant == 0 ? 1 : -1;
    c.loop(d.size() - 1, [&](Index step) {
      c.send(out[ring[(position[me[d]] - direction * step) % d.size()]])
          .to(me.mapped(d, variant == 0 ? next : previous));
    });
  });
}

/// In every round, some ranks send first, and then the others; how far, says a table too, and how many chunks a block
/// has.
void roundsByTables(Choreography &c) {
  auto [d] = c.dims<1>();
  Rank me = c.rank();
  Table sends({1, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 1}), distances({1, 2, 3}), extents({7, 7, 7, 7, 4});
  Index pieces = extents[d.size()];
  Buffer in = c.input().grid(pieces), out = c.output().grid(d, pieces), work = c.scratch("work", out);
  c.copy(in, work[me]);
  c.copy(work[me], out[me]);
  c.loop(3, [&, d = d](Index round) {
    for (int64_t wanted : {1, 0})
      c.when(sends[round * d.size() + me[d]] == wanted, [&] { c.send(out[me]).to(me.next(d, distances[round])); });
  });
}

class CompiledLookups {
public:
  CompiledLookups(const std::string &name, void (*body)(Choreography &), int numRanks, kolo::Schedule schedule)
      : context(mlir::MLIRContext::Threading::DISABLED), mesh(*kolo::runtime::Mesh::create({{"rank", numRanks}})) {
    context.loadDialect<kolo::KoloDialect>();
    kolo::test::TemporaryFolder folder;
    std::string path = folder.file(name + ".so");
    Definition definition{name, AllGather, Mesh("rank"), body, std::source_location::current()};
    kolo::tools::compile({{definition}, {mesh}, path, /*optimize=*/true, schedule});
    auto loaded = kolo::runtime::Plugin::load(path);
    EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
    plugin.emplace(std::move(loaded).value());
  }

  std::string run(llvm::ArrayRef<int64_t> counts) {
    auto collective = kolo::CollectiveAttr::get(&context, kolo::CollectiveKind::AllGather, {0});
    std::vector<PreparedCase> prepared;
    for (int64_t count : counts)
      prepared.push_back(prepare({kolo::reference::ElementType::I32, count, kolo::reference::Reduction::Sum, 0, 2},
                                 collective, {mesh.numRanks()}, testSeed() + uint64_t(count)));
    auto body = [&](kolo::runtime::Communicator &communicator) -> std::string {
      Caller caller(communicator, *plugin, mesh, testSeed());
      std::string wrong = caller.allocate(prepared);
      for (size_t call = 0; wrong.empty() && call < prepared.size(); ++call)
        wrong = caller.call(prepared[call]);
      return wrong + communicator.barrier().message();
    };
    return kolo::test::runRanks(Launch::Threads, mesh.numRanks(), {60000, 2}, body);
  }

private:
  mlir::MLIRContext context;
  kolo::runtime::Mesh mesh;
  std::optional<kolo::runtime::Plugin> plugin;
};

} // namespace

TEST(Lookups, OrderTheRanksOfRings) {
  for (int depth : {1, 3})
    EXPECT_EQ(CompiledLookups("ringsInOrder", ringsInOrder, 8, {.pipelineDepth = depth}).run({0, 1, 3, 1000, 5003}),
              "");
}

TEST(Lookups, SayWhoSendsAndHowFar) {
  for (auto transfers : {kolo::Transfers::Push, kolo::Transfers::Pull})
    EXPECT_EQ(CompiledLookups("roundsByTables", roundsByTables, 4, {.transfers = transfers}).run({0, 1, 3, 1000, 5003}),
              "");
}
