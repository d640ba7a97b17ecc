// Kolo as a compared system: ranks forked from this process, or one rank of several hosts; memory in windows or
// ordinary, one plugin per command.
#include "ForkRanks.h"
#include "Harness.h"

#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Plugin.h"

#include <cstdio>
#include <map>
#include <vector>

using namespace kolo::bench;
namespace runtime = kolo::runtime;

namespace {

void require(const runtime::Status &status) {
  if (!status.isOk())
    throw Failure(std::string(runtime::toString(status.code())) + ": " + status.message());
}

template <class T> T valueOf(runtime::Result<T> result) {
  require(result.status());
  return std::move(result).value();
}

class KoloSystem : public System {
public:
  KoloSystem(runtime::Communicator joined, const HarnessOptions &harness)
      : communicator(std::move(joined)), options(harness) {
    arguments.mesh = flat = valueOf(runtime::Mesh::create({{"rank", communicator.size()}}));
  }

  void *allocate(size_t sizeBytes) override {
    if (!options.usesWindows)
      return allocatePages(sizeBytes, options.pages);
    windows.push_back(valueOf(communicator.allocate(sizeBytes)));
    return windows.back().data();
  }

  void prepare(const Command &command) override {
    std::string path = command.plugin;
    auto entry = plugins.find(path);
    if (entry == plugins.end())
      entry = plugins.emplace(path, valueOf(runtime::Plugin::load(path))).first;
    plugin = &entry->second;
    arguments.collective.reset();
    arguments.mesh = flat;
    if (!plugin->selection().empty())
      arguments.collective = static_cast<runtime::CollectiveKind>(command.collective);
    else if (!options.boardPath.empty())
      arguments.mesh = meshOf(plugin->programs().front());
  }

  void run(const Cell &cell, const float *input, float *output) override {
    arguments.count = cell.count;
    takeTables(cell);
    arguments.input = cell.collective == Collective::Broadcast ? output : input;
    arguments.output = output;
    require(communicator.run(*plugin, arguments));
  }

private:
  void takeTables(const Cell &cell) {
    arguments.blocks = nullptr;
    if (!cell.tables)
      return;
    auto widen = [](const std::vector<int> &from, std::vector<int64_t> &to) { to.assign(from.begin(), from.end()); };
    widen(cell.tables->inputCounts, numbers[0]);
    widen(cell.tables->inputPlaces, numbers[1]);
    widen(cell.tables->outputCounts, numbers[2]);
    widen(cell.tables->outputPlaces, numbers[3]);
    tables = {{numbers[0], numbers[1]}, {numbers[2], numbers[3]}};
    arguments.blocks = &tables;
  }

  /// The first one that it was compiled for.
  static runtime::Mesh meshOf(const runtime::ProgramInfo &program) {
    std::vector<runtime::MeshDim> dims;
    for (size_t dim = 0; dim < program.meshDims.size(); ++dim)
      dims.push_back({program.meshDims[dim], program.meshes.front()[dim]});
    return valueOf(runtime::Mesh::create(std::move(dims)));
  }

  runtime::Communicator communicator;
  HarnessOptions options;
  runtime::CallArguments arguments; // kept, like an MPI communicator: to copy a mesh takes as long as a signal
  runtime::BlockTables tables;
  std::vector<int64_t> numbers[4]; // of `tables`, as wide as the runtime takes them
  std::vector<runtime::Window> windows;
  runtime::Mesh flat;
  std::map<std::string, runtime::Plugin> plugins;
  const runtime::Plugin *plugin = nullptr;
};

/// This process is one rank, by RANK and the variables beside it; the ranks' board is a file.
int runLaunched(const HarnessOptions &options) {
  (void)numCores();
  runtime::Communicator communicator = valueOf(runtime::Communicator::createFromEnvironment());
  int fd = openBoardFile(options.boardPath);
  BoardMemory *memory = fd < 0 ? nullptr : mapBoard(fd);
  if (!memory)
    throw Failure("cannot map the board " + options.boardPath);
  Board board(memory, communicator.rank(), communicator.size());
  if (options.isPinned)
    pinToCore(board.rank());
  KoloSystem system(std::move(communicator), options);
  return serve(system, board, options);
}

} // namespace

int main(int argc, char **argv) {
  try {
    HarnessOptions options = parseOptions(argc, argv);
    if (!options.boardPath.empty())
      return runLaunched(options);
    runtime::ForkedRanks world = valueOf(runtime::ForkedRanks::create(options.numRanks));
    return forkRanks(options, [&](Board &board) {
      KoloSystem system(valueOf(runtime::Communicator::createForked(world, board.rank())), options);
      return serve(system, board, options);
    });
  } catch (const Failure &failure) {
    std::printf("failed %s\n", failure.what());
    return 1;
  }
}
