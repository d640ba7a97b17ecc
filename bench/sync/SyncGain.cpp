// kolo-bench-sync: what the synchronisation that the checker removed gains. Every algorithm is compiled twice, with the
// least synchronisation and with a handshake per transfer, everything else being equal, and both are run in turn:
// rounds alternate, each the median of many calls. Prints, in markdown, the median over the rounds of both, and of
// their ratio in one round.
#include "tools/compile/Compile.h"
#include "tools/compile/TemporaryFile.h"
#include "tools/run/RankRunner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

using namespace kolo;
using namespace kolo::tools;

namespace {

constexpr int64_t sizesInBytes[] = {8, 1 << 10, 8 << 10, 64 << 10};
constexpr int callsPerRound = 400;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// An algorithm with one kind of synchronisation, ready to run.
RankJob makeJob(const dsl::Definition &definition, const runtime::Mesh &mesh, Synchronisation synchronisation) {
  TemporaryFile file("so");
  CompileRequest request{{definition}, {mesh}, file.path()};
  request.schedule.synchronisation = synchronisation;
  compile(request);
  auto plugin = runtime::Plugin::load(file.path());
  if (!plugin.isOk())
    throw ToolError(ExitCode::Failed, plugin.status().message());
  RankJob job{.plugin = std::move(plugin).value(), .program = definition.name, .mesh = mesh};
  int64_t ranks = mesh.numRanks();
  bool isPerRank = definition.collective.kind == dsl::CollectiveKind::AllGather;
  for (int64_t bytes : sizesInBytes) {
    int64_t count = bytes / int64_t(sizeof(float)) / (isPerRank ? ranks : 1);
    job.sizes.push_back({std::max<int64_t>(count, 1), 20, callsPerRound});
  }
  return job;
}

struct Measured {
  std::vector<double> least, handshake, ratios;
};

void printRows(const std::string &name, const runtime::Mesh &mesh, int rounds) {
  const dsl::Definition &definition = findShipped(name);
  RankJob least = makeJob(definition, mesh, Synchronisation::Least);
  RankJob handshake = makeJob(definition, mesh, Synchronisation::Handshake);
  std::vector<Measured> measured(std::size(sizesInBytes));
  auto nothing = [](size_t) {};
  for (int round = 0; round < rounds; ++round) {
    // Which of the two goes first alternates too.
    std::vector<Timings> first = runRanks(round % 2 ? handshake : least, nothing);
    std::vector<Timings> second = runRanks(round % 2 ? least : handshake, nothing);
    for (size_t size = 0; size < measured.size(); ++size) {
      double a = median((round % 2 ? second : first)[size]), b = median((round % 2 ? first : second)[size]);
      measured[size].least.push_back(a);
      measured[size].handshake.push_back(b);
      measured[size].ratios.push_back(b / a);
    }
  }
  for (size_t size = 0; size < measured.size(); ++size)
    fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:.2f} | {:.2f} to {:.2f} |\n", name, mesh.toString(),
               sizesInBytes[size], median(measured[size].least), median(measured[size].handshake),
               median(measured[size].ratios), std::ranges::min(measured[size].ratios),
               std::ranges::max(measured[size].ratios));
  std::fflush(stdout);
}

int run(int argc, char **argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  if (rounds < 1) {
    fmt::print(stderr, "usage: kolo-bench-sync [ROUNDS]\n");
    return 2;
  }
  fmt::print("| algorithm | mesh | bytes | least, us | handshake, us | gain | over rounds |\n|-|-|-|-|-|-|-|\n");
  auto flat = [](int64_t ranks) { return runtime::Mesh::create({{"rank", ranks}}).value(); };
  for (const char *name : {"ringAllGather", "allPairsAllGather", "ringAllReduce", "twoShotAllReduce",
                           "pushTwoShotAllReduce", "slottedRecursiveDoublingAllReduce", "twoSlotRingAllReduce"})
    for (int64_t ranks : {2, 4})
      printRows(name, flat(ranks), rounds);
  auto twoLevels = runtime::Mesh::create({{"node", 2}, {"gpu", 2}}).value();
  for (const char *name : {"railAllGather", "hierarchicalAllReduce"})
    printRows(name, twoLevels, rounds);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception &error) {
    fmt::print(stderr, "kolo-bench-sync: {}\n", error.what());
    return 1;
  }
}
