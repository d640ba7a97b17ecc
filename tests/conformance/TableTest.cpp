// A plugin made from a table gives what the collectives are defined to give, whatever it selects: programs with
// different schedules lie in one plugin, and follow each other in the same memory.
#include "Shipped.h"

#include "tests/support/Reductions.h"

#include "tools/compile/TuningTable.h"

#include <unistd.h>

#include <filesystem>

using namespace kolo::conformance;
using namespace kolo::reference;
using kolo::test::Launch;
using kolo::tools::TableEntry;

namespace {

struct TableRow {
  const char *small, *large;
  kolo::Protocol smallProtocol;
};
constexpr kolo::Protocol published = kolo::Protocol::Published, bulk = kolo::Protocol::Bulk;
// In the order of the collectives.
constexpr TableRow rows[] = {{"allPairsAllGather", "ringAllGather", published},
                             {"allPairsReduceScatter", "ringReduceScatter", published},
                             {"oneShotAllReduce", "twoShotAllReduce", published},
                             {"directBroadcast", "scatterAllGatherBroadcast", published},
                             {"directReduce", "binomialReduce", bulk},
                             {"directGather", "binomialGather", bulk},
                             {"directScatter", "binomialScatter", bulk},
                             {"directAllToAll", "bruckAllToAll", published},
                             {"oneShotScan", "chainScan", published},
                             {"oneShotExscan", "chainExscan", published}};
constexpr int64_t boundaryBytes = 2000;
constexpr int64_t counts[] = {0, 1, 125, 499, 3000};

/// For windows the small program below the boundary and the large one above it; for ordinary memory the other way
/// round.
kolo::runtime::Plugin compileTable() {
  std::vector<TableEntry> entries;
  for (auto [number, row] : llvm::enumerate(rows))
    for (int ranks : {3, 4})
      for (auto memory : {kolo::runtime::MemoryKind::Windows, kolo::runtime::MemoryKind::Ordinary}) {
        auto collective = kolo::runtime::CollectiveKind(int(number));
        TableEntry small{collective, ranks, memory, boundaryBytes, row.small, {.protocol = row.smallProtocol}};
        TableEntry large{collective, ranks, memory, std::nullopt, row.large, {}};
        if (memory == kolo::runtime::MemoryKind::Ordinary) {
          std::swap(small, large);
          std::swap(small.upToBytes, large.upToBytes);
        }
        entries.insert(entries.end(), {small, large});
      }
  kolo::tools::CompileRequest request = requestFor(entries);
  request.output = testing::TempDir() + "/kolo-table-" + std::to_string(getpid()) + ".so";
  kolo::tools::compile(request);
  auto plugin = kolo::runtime::Plugin::load(request.output);
  std::filesystem::remove(request.output);
  EXPECT_TRUE(plugin.isOk()) << plugin.status().message();
  return std::move(plugin).value();
}

class EveryCollective : public testing::TestWithParam<int> {};

} // namespace

TEST_P(EveryCollective, OfATableGivesTheReferencesResultOnBothSidesOfTheBoundary) {
  static const kolo::runtime::Plugin plugin = compileTable();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<kolo::KoloDialect>();
  auto collective = kolo::CollectiveAttr::get(&context, kolo::CollectiveKind(GetParam()), {0});
  bool isRooted = GetParam() >= int(kolo::runtime::CollectiveKind::Broadcast) &&
                  GetParam() < int(kolo::runtime::CollectiveKind::AllToAll);
  CaseSpace space;
  space.meshes = {{3}, {4}};
  space.launches = {Launch::Threads, Launch::Forked};
  space.lanes = {2};
  space.countsOf = [](const Sizes &) { return std::vector<int64_t>(std::begin(counts), std::end(counts)); };
  space.groupSizeOf = [](const Sizes &mesh) { return mesh.front(); };
  space.isRooted = isRooted;
  space.reductions = kolo::test::reductionsFor(collective.getKind());
  for (const auto &[setup, cases] : coverPairs(space, testSeed() + 7)) {
    std::vector<PreparedCase> prepared;
    for (const Case &choices : cases)
      prepared.push_back(prepare(choices, collective, setup.mesh, testSeed() + prepared.size()));
    kolo::runtime::Mesh mesh = *kolo::runtime::Mesh::create({{"rank", setup.mesh.front()}});
    auto body = [&](kolo::runtime::Communicator &communicator) -> std::string {
      Caller caller(communicator, plugin, mesh, testSeed());
      caller.selected = kolo::runtime::CollectiveKind(GetParam());
      std::string wrong = caller.allocate(prepared);
      for (size_t call = 0; wrong.empty() && call < prepared.size(); ++call)
        if (wrong = caller.call(prepared[call]); !wrong.empty())
          wrong += " (" + prepared[call].choices.describe() + ")";
      return wrong + communicator.barrier().message();
    };
    EXPECT_EQ(kolo::test::runRanks(setup.launch, mesh.numRanks(), {60000, setup.lanes}, body), "")
        << mesh.numRanks() << " ranks, KOLO_SEED=" << testSeed();
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, EveryCollective, testing::Range(0, int(std::size(rows))), [](const auto &info) {
  return std::string(kolo::runtime::toString(kolo::runtime::CollectiveKind(info.param)));
});
