// kolo_gpu_nccl HOW RANKS COLLECTIVE...: calls NCCL for ranks on device 0. HOW is "processes", "threads", or "one"
// thread that calls for all ranks. Prints a line of JSON for each check, and at its end how many calls the door should
// have carried and forwarded. Exits with 3 if NCCL refuses such ranks.
#include "NcclClient.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

using namespace kolo::test;

namespace {

constexpr int canShareDevice = 23003; // the first NCCL that lets ranks of one process share a device
constexpr int refusedCode = 3;

/// An exit code.
int runRanks(Shared &shared, const std::set<std::string> &kinds, int first, int number, int size) {
  try {
    NcclClient(shared, kinds, first, number, size).run();
    return 0;
  } catch (const Refused &refusal) {
    if (first == 0)
      printLine("\"refused\": " + quoted(refusal.what()));
    return refusedCode;
  } catch (const std::exception &problem) {
    printLine("\"check\": \"ranks from " + std::to_string(first) + " on\", \"wrong\": " + quoted(problem.what()));
    return 1;
  }
}

/// Each process is a node of its own for a NCCL whose ranks must not share a device of one node.
int runInProcesses(Shared &shared, const std::set<std::string> &kinds, int size, int version) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(fork());
    if (children.back() != 0)
      continue;
    if (version < canShareDevice)
      setenv("NCCL_HOSTID", ("kolo-" + std::to_string(rank)).c_str(), 1);
    std::exit(runRanks(shared, kinds, rank, 1, size));
  }
  int code = 0;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    int own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    code = code == 0 || own > refusedCode ? own : code;
  }
  return code;
}

int runInThreads(Shared &shared, const std::set<std::string> &kinds, int size) {
  std::vector<int> codes(static_cast<size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] { codes[static_cast<size_t>(rank)] = runRanks(shared, kinds, rank, 1, size); });
  }
  return *std::ranges::max_element(codes);
}

} // namespace

int main(int argc, char **argv) {
  const std::string how = argc > 3 ? argv[1] : "";
  const int size = argc > 3 ? std::atoi(argv[2]) : 0;
  if ((how != "processes" && how != "threads" && how != "one") || size < 2 || size > 8)
    return std::fprintf(stderr, "usage: kolo_gpu_nccl processes|threads|one RANKS COLLECTIVE...\n"), 2;
  const std::set<std::string> kinds(argv + 3, argv + argc);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  setenv("NCCL_MAX_CTAS", "4", 0); // all ranks' blocks are on one device
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess)
    return std::fprintf(stderr, "%s\n", ncclGetLastError(nullptr)), 1;
  printLine("\"version\": " + std::to_string(version));
  void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return std::perror("mmap"), 1;
  Shared &shared = *new (memory) Shared{.ranksPerProcess = how == "processes" ? 1 : size};
  int code = how == "processes" ? runInProcesses(shared, kinds, size, version)
             : how == "threads" ? runInThreads(shared, kinds, size)
                                : runRanks(shared, kinds, 0, size, size);
  return code == 0 && shared.numWrong != 0 ? 1 : code;
}
