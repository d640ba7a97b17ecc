#include "ForkRanks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

namespace kolo::bench {
namespace {

int reportFailures(const HarnessOptions &options, Board &board, const std::function<int(Board &board)> &runRank) {
  try {
    if (options.isPinned)
      pinToCore(board.rank());
    return runRank(board);
  } catch (const std::exception &failure) {
    std::printf("failed rank %d: %s\n", board.rank(), failure.what());
    return 1;
  }
}

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

} // namespace

int forkRanks(const HarnessOptions &options, const std::function<int(Board &board)> &runRank) {
  if (options.numRanks < 1 || options.numRanks > maxRanks)
    throw Failure("--ranks must be from 1 to " + std::to_string(maxRanks));
  (void)numCores();
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
    int status = reportFailures(options, board, runRank);
    std::fflush(stdout);
    _exit(status);
  }
  return waitForAll(std::move(children));
}

} // namespace kolo::bench
