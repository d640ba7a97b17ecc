// Communicators that end while their calls run, groups that another thread ends, captures that begin inside of a group.
#include "Client.h"

extern "C" void standInHold(CUstream stream, const std::atomic<int> *isReleased);

namespace {

/// A number that all ranks see, be they threads or processes.
std::atomic<int> *const numAborted = makeShared();

/// What a call ended with, and which error it left.
void reportLast(const Rank &rank, ncclResult_t code) {
  say("rank " + std::to_string(rank.number) + ": " + std::to_string(code) + " " + ncclGetLastError(nullptr));
}

ncclResult_t reduce(Rank &rank) {
  return ncclAllReduce(rank.input, rank.output, 500, ncclInt, ncclSum, rank.comm, rank.stream);
}

/// Looks at memory of the device without waiting for the stream: the call must be done.
void expectSum(const OwnRanks &here, const Rank &rank, const std::string &when) {
  const std::vector<int> output = read(rank.output, 500);
  for (size_t i = 0; i < output.size(); ++i)
    if (output[i] != here.sumAt(i))
      return wrong("rank " + std::to_string(rank.number) + " has " + std::to_string(output[i]) + " at " +
                   std::to_string(i) + " " + when);
}

} // namespace

void checkFinalize(OwnRanks &here) {
  here.fill();
  here.each(reduce);
  here.each([](Rank &r) { return ncclCommFinalize(r.comm); });
  for (const Rank &rank : here.ranks)
    expectSum(here, rank, "after ncclCommFinalize");
}

void destroyWhileCallsRun(OwnRanks &here) {
  here.fill();
  here.each(reduce);
  for (Rank &rank : here.ranks) {
    makeCurrent(rank.device);
    NCCL(ncclCommDestroy(rank.comm));
    expectSum(here, rank, "after ncclCommDestroy");
  }
}

void endAfterDeath(OwnRanks &here, const std::string &how) {
  Rank &rank = here.ranks[0];
  NCCL(reduce(rank));
  here.synchronize();
  if (rank.number == here.size - 1)
    raise(SIGKILL);
  ncclResult_t code = reduce(rank);
  if (code == ncclSuccess && how == "finalize in group") {
    NCCL(ncclGroupStart());
    NCCL(ncclCommFinalize(rank.comm));
    code = ncclGroupEnd();
  } else if (code == ncclSuccess) {
    code = how == "finalize" ? ncclCommFinalize(rank.comm) : ncclCommDestroy(rank.comm);
  }
  reportLast(rank, code);
}

void shrinkAfterLoss(OwnRanks &here) {
  Rank &rank = here.ranks[0];
  NCCL(reduce(rank));
  here.synchronize();
  int lost = here.size - 1;
  if (rank.number == lost) { // does not call again, and hears that the others have aborted
    for (ncclResult_t code = ncclSuccess; code == ncclSuccess;
         std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      NCCL(ncclCommGetAsyncError(rank.comm, &code));
    NCCL(ncclCommAbort(rank.comm));
    ++*numAborted;
    return;
  }
  if (ncclResult_t code = reduce(rank); code != ncclRemoteError) // of a peer that has gone on already
    NCCL(code);                                                  // waits on the device
  ncclComm_t parent = std::exchange(rank.comm, nullptr);
  NCCL(ncclCommShrink(parent, &lost, 1, &rank.comm, nullptr, NCCL_SHRINK_ABORT));
  here.synchronize();
  NCCL(ncclCommAbort(parent));
  // To free memory waits for all kernels of a device, and keeps other calls of the driver waiting meanwhile. Kernels of
  // those that went on would wait for this rank.
  for (++*numAborted; *numAborted < here.size;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  here.size = lost;
  Collective collective = allReduceOf(lost, 500);
  collective.title = "all-reduce without the lost rank";
  here.check(collective);
  NCCL(ncclCommDestroy(rank.comm));
}

void abortWhileStreamHangs(OwnRanks &here) {
  static std::atomic<int> isReleased = 0;
  Rank &rank = here.ranks[0];
  NCCL(reduce(rank));
  here.synchronize();
  if (rank.number == 1)
    standInHold(rank.stream, &isReleased);
  NCCL(reduce(rank));
  std::thread watchdog([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (rank.number == 1)
      NCCL(ncclCommAbort(rank.comm));
  });
  reportLast(rank, ncclCommFinalize(rank.comm));
  watchdog.join();
  if (rank.number == 1) {
    say("finalized " + std::to_string(standInNumFinalized()));
    isReleased = 1;
  }
}

/// Calls of a group start at its end, so the graph has them all.
void checkCaptureInGroup(OwnRanks &here) {
  Rank &rank = here.ranks[0];
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  here.fill();
  NCCL(ncclGroupStart());
  NCCL(reduce(rank));
  CUDA(cuStreamBeginCapture(rank.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  NCCL(ncclAllGather(rank.input, rank.output + 8192, 100, ncclInt, rank.comm, rank.stream));
  NCCL(ncclGroupEnd());
  CUDA(cuStreamEndCapture(rank.stream, &graph));
  here.synchronize();
  if (read(rank.output, 1)[0] != -7 || read(rank.output + 8192, 1)[0] != -7)
    wrong("a captured call has run");
  CUDA(cuGraphInstantiate(&executable, graph, 0));
  CUDA(cuGraphLaunch(executable, rank.stream));
  here.synchronize();
  expectSum(here, rank, "after a graph of two calls");
  const std::vector<int> output = read(rank.output + 8192, static_cast<size_t>(here.size) * 100);
  for (size_t i = 0; i < output.size(); ++i)
    if (output[i] != valueOf(static_cast<int>(i / 100), i % 100))
      return wrong("an all-gather in a graph of two calls");
  CUDA(cuGraphExecDestroy(executable));
  CUDA(cuGraphDestroy(graph));
}

void abortInGroup(OwnRanks &here) {
  Rank &rank = here.ranks[0];
  NCCL(reduce(rank));
  here.synchronize();
  if (rank.number != 0) { // does not call again
    ncclResult_t code = ncclSuccess;
    for (; code == ncclSuccess; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      NCCL(ncclCommGetAsyncError(rank.comm, &code));
    return say("rank " + std::to_string(rank.number) + ": " + std::to_string(code) + " " + ncclGetLastError(rank.comm));
  }
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    NCCL(ncclCommAbort(rank.comm));
  });
  NCCL(ncclGroupStart());
  NCCL(reduce(rank));
  ncclResult_t code = ncclGroupEnd(); // may wait for the others
  here.synchronize();                 // or else the kernel waits for them
  other.join();
  if (code != ncclSuccess)
    say("rank 0: " + std::to_string(code) + " " + ncclGetLastError(nullptr));
}
