// Kolo as a compared system: ranks forked from this process, memory in windows or ordinary, one plugin per command.
#include "Harness.h"

#include "kolo/runtime/Communicator.h"
#include "kolo/runtime/Plugin.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

runtime::CollectiveKind kindOf(Collective collective) {
  switch (collective) {
  case Collective::AllReduce:
    return runtime::CollectiveKind::AllReduce;
  case Collective::AllGather:
    return runtime::CollectiveKind::AllGather;
  case Collective::ReduceScatter:
    return runtime::CollectiveKind::ReduceScatter;
  case Collective::AllToAll:
    return runtime::CollectiveKind::AllToAll;
  case Collective::Broadcast:
    return runtime::CollectiveKind::Broadcast;
  }
  throw Failure("no such collective");
}

class KoloSystem : public System {
public:
  KoloSystem(runtime::Communicator joined, const HarnessOptions &harness)
      : communicator(std::move(joined)), options(harness),
        mesh(valueOf(runtime::Mesh::create({{"rank", harness.numRanks}}))) {}

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
  }

  void run(const Cell &cell, const float *input, float *output) override {
    runtime::CallArguments arguments;
    arguments.mesh = mesh;
    if (!plugin->selection().empty())
      arguments.collective = kindOf(cell.collective);
    arguments.count = cell.count;
    arguments.input = cell.collective == Collective::Broadcast ? output : input;
    arguments.output = output;
    require(communicator.run(*plugin, arguments));
  }

private:
  runtime::Communicator communicator;
  HarnessOptions options;
  runtime::Mesh mesh;
  std::vector<runtime::Window> windows;
  std::map<std::string, runtime::Plugin> plugins;
  const runtime::Plugin *plugin = nullptr;
};

int runRank(const runtime::ForkedWorld &world, Board &board, const HarnessOptions &options) {
  try {
    if (options.isPinned)
      pinToCore(board.rank());
    KoloSystem system(valueOf(runtime::Communicator::createForked(world, board.rank())), options);
    return serve(system, board, options);
  } catch (const std::exception &failure) {
    std::printf("failed rank %d: %s\n", board.rank(), failure.what());
    return 1;
  }
}

/// A rank that fails takes the others along, as an MPI launcher has it.
int waitForAll(std::vector<pid_t> running) {
  int status = 0;
  while (!running.empty()) {
    int code = 0;
    std::erase(running, wait(&code));
    if (code == 0 || status != 0)
      continue;
    status = 1;
    for (pid_t child : running)
      kill(child, SIGKILL);
  }
  return status;
}

int runRanks(const HarnessOptions &options) {
  if (options.numRanks < 1 || options.numRanks > maxRanks)
    throw Failure("--ranks must be from 1 to " + std::to_string(maxRanks));
  (void)numCores();
  runtime::ForkedWorld world = valueOf(runtime::ForkedWorld::create(options.numRanks));
  int fd = createBoardFile();
  BoardMemory *memory = fd < 0 ? nullptr : mapBoard(fd);
  if (!memory)
    throw Failure("cannot map the board");
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.numRanks; ++rank) {
    pid_t child = fork();
    if (child < 0)
      throw Failure("cannot fork");
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    Board board(memory, rank, options.numRanks);
    int status = runRank(world, board, options);
    std::fflush(stdout);
    _exit(status);
  }
  return waitForAll(std::move(children));
}

} // namespace

int main(int argc, char **argv) {
  try {
    return runRanks(parseOptions(argc, argv));
  } catch (const Failure &failure) {
    std::printf("failed %s\n", failure.what());
    return 1;
  }
}
