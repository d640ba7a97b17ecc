// client HOW RANKS [CASE]: a program that knows NCCL and CUDA alone, with the stand-ins for both. HOW: "processes",
// "threads", or "one" thread for all ranks. Prints what is wrong; the last line says how many calls came to NCCL.
#include "StandInNccl.h"

#include <cuda.h>
#include <nccl.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

int numWrong = 0;

void say(const std::string &text) {
  std::string line = text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0)
    std::abort();
}
void wrong(const std::string &text) {
  ++numWrong;
  say("wrong: " + text);
}
void expectCode(ncclResult_t code, const char *what) {
  if (code != ncclSuccess)
    wrong(std::string(what) + " returns " + std::to_string(code) + ": " + ncclGetLastError(nullptr));
}
void expectCuda(CUresult code, const char *what) {
  if (code != CUDA_SUCCESS)
    wrong(std::string(what) + " returns " + std::to_string(code));
}
#define NCCL(call) expectCode(call, #call)
#define CUDA(call) expectCuda(call, #call)

constexpr int numDevices = 2; // of the stand-in
constexpr size_t mostElements = 4096 * 8;

/// One rank: its device, its stream, its memory.
struct Rank {
  int number = 0, device = 0;
  ncclComm_t comm = nullptr;
  CUstream stream = nullptr;
  int *input = nullptr, *output = nullptr;
};

void makeCurrent(int device) {
  CUcontext context = nullptr;
  CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CUDA(cuCtxPushCurrent(context));
  standInSetDevice(device);
}

Rank makeRank(int number) {
  Rank rank{number, number % numDevices};
  makeCurrent(rank.device);
  CUDA(cuStreamCreate(&rank.stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr memory = 0;
  CUDA(cuMemAlloc(&memory, mostElements * sizeof(int)));
  rank.input = reinterpret_cast<int *>(memory);
  CUDA(cuMemAlloc(&memory, mostElements * sizeof(int)));
  rank.output = reinterpret_cast<int *>(memory);
  return rank;
}

int valueOf(int rank, size_t element) { return rank * 100003 + static_cast<int>(element * 31 % 4093) + 1; }

/// The ranks that this thread calls for, of `size`.
struct OwnRanks {
  std::vector<Rank> ranks;
  int size;

  /// Calls for every rank; in a group when it calls for several, as NCCL asks.
  void each(const std::function<ncclResult_t(Rank &)> &call) {
    if (ranks.size() > 1)
      NCCL(ncclGroupStart());
    for (Rank &rank : ranks) {
      makeCurrent(rank.device);
      expectCode(call(rank), "a call");
    }
    if (ranks.size() > 1)
      NCCL(ncclGroupEnd());
  }

  void fill() {
    for (Rank &rank : ranks)
      for (size_t i = 0; i < mostElements; ++i)
        rank.input[i] = valueOf(rank.number, i), rank.output[i] = -7;
  }
  void synchronize() {
    for (Rank &rank : ranks) {
      makeCurrent(rank.device);
      CUDA(cuStreamSynchronize(rank.stream));
    }
  }
  /// Runs a collective, and compares `number` elements of every rank's result; -1 elements: it has none.
  void check(
      const std::string &what, const std::function<ncclResult_t(Rank &)> &call,
      const std::function<long(int rank)> &number, const std::function<int(int rank, size_t element)> &expected,
      const std::function<int *(Rank &)> &result = [](Rank &rank) { return rank.output; }) {
    fill();
    each(call);
    synchronize();
    for (Rank &rank : ranks)
      for (long i = 0; size > 1 && i < number(rank.number); ++i) // one rank: NCCL gets it
        if (int found = result(rank)[i], right = expected(rank.number, static_cast<size_t>(i)); found != right) {
          wrong(what + ": rank " + std::to_string(rank.number) + " has " + std::to_string(found) + " at " +
                std::to_string(i) + ", not " + std::to_string(right));
          break;
        }
  }

  int sumAt(size_t element) const {
    int sum = 0;
    for (int rank = 0; rank < size; ++rank)
      sum += valueOf(rank, element);
    return sum;
  }
};

void checkReductions(OwnRanks &here, size_t count) {
  auto all = [=](int) { return static_cast<long>(count); };
  auto sum = [&](int, size_t i) { return here.sumAt(i); };
  std::string size = " of " + std::to_string(count);
  here.check(
      "all-reduce" + size,
      [&](Rank &r) { return ncclAllReduce(r.input, r.output, count, ncclInt, ncclSum, r.comm, r.stream); }, all, sum);
  here.check(
      "all-reduce in place" + size,
      [&](Rank &r) { return ncclAllReduce(r.input, r.input, count, ncclInt, ncclSum, r.comm, r.stream); }, all, sum,
      [](Rank &r) { return r.input; });
  here.check(
      "maximum" + size,
      [&](Rank &r) { return pncclAllReduce(r.input, r.output, count, ncclInt, ncclMax, r.comm, r.stream); }, all,
      [&](int, size_t i) { return valueOf(here.size - 1, i); });
  here.check(
      "average" + size,
      [&](Rank &r) { return ncclAllReduce(r.input, r.output, count, ncclInt, ncclAvg, r.comm, r.stream); }, all,
      [&](int, size_t i) { return here.sumAt(i) / here.size; });
  int root = 1 % here.size;
  here.check(
      "reduce" + size,
      [&](Rank &r) { return ncclReduce(r.input, r.output, count, ncclInt, ncclSum, root, r.comm, r.stream); },
      [=](int rank) { return rank == root ? static_cast<long>(count) : -1; }, sum);
  here.check(
      "reduce-scatter" + size,
      [&](Rank &r) { return ncclReduceScatter(r.input, r.output, count, ncclInt, ncclSum, r.comm, r.stream); }, all,
      [&](int rank, size_t i) { return here.sumAt(static_cast<size_t>(rank) * count + i); });
  here.check(
      "reduce-scatter in place" + size,
      [&](Rank &r) {
        return ncclReduceScatter(r.input, r.input + static_cast<size_t>(r.number) * count, count, ncclInt, ncclSum,
                                 r.comm, r.stream);
      },
      all, [&](int rank, size_t i) { return here.sumAt(static_cast<size_t>(rank) * count + i); },
      [=](Rank &r) { return r.input + static_cast<size_t>(r.number) * count; });
}

void checkMoves(OwnRanks &here, size_t count) {
  auto one = [=](int) { return static_cast<long>(count); };
  auto whole = [&](int) { return static_cast<long>(count) * here.size; };
  auto block = [=](int, size_t i) { return valueOf(static_cast<int>(i / count), i % count); };
  std::string size = " of " + std::to_string(count);
  int root = here.size - 1;
  auto ofRoot = [=](int, size_t i) { return valueOf(root, i); };
  here.check(
      "all-gather" + size, [&](Rank &r) { return ncclAllGather(r.input, r.output, count, ncclInt, r.comm, r.stream); },
      whole, block);
  here.check(
      "all-gather in place" + size,
      [&](Rank &r) {
        int *own = r.output + static_cast<size_t>(r.number) * count;
        for (size_t i = 0; i < count; ++i)
          own[i] = r.input[i];
        return ncclAllGather(own, r.output, count, ncclInt, r.comm, r.stream);
      },
      whole, block);
  here.check(
      "broadcast" + size,
      [&](Rank &r) { return ncclBroadcast(r.input, r.output, count, ncclInt, root, r.comm, r.stream); }, one, ofRoot);
  here.check(
      "broadcast in place" + size, [&](Rank &r) { return ncclBcast(r.input, count, ncclInt, root, r.comm, r.stream); },
      one, ofRoot, [](Rank &r) { return r.input; });
  here.check(
      "all-to-all" + size, [&](Rank &r) { return ncclAlltoAll(r.input, r.output, count, ncclInt, r.comm, r.stream); },
      whole,
      [=](int rank, size_t i) {
        return valueOf(static_cast<int>(i / count), static_cast<size_t>(rank) * count + i % count);
      });
  here.check(
      "gather" + size, [&](Rank &r) { return ncclGather(r.input, r.output, count, ncclInt, root, r.comm, r.stream); },
      [&](int rank) { return rank == root ? whole(rank) : -1; }, block);
  here.check(
      "scatter" + size, [&](Rank &r) { return ncclScatter(r.input, r.output, count, ncclInt, root, r.comm, r.stream); },
      one, [=](int rank, size_t i) { return valueOf(root, static_cast<size_t>(rank) * count + i); });
}

/// Calls that NCCL gets: they change nothing here.
void callForwarded(OwnRanks &here) {
  here.each([](Rank &r) { return ncclAllReduce(r.input, r.output, 0, ncclInt, ncclSum, r.comm, r.stream); });
  std::vector<ncclRedOp_t> operations(here.ranks.size());
  float scalar = 0.5f;
  for (size_t i = 0; i < here.ranks.size(); ++i)
    NCCL(ncclRedOpCreatePreMulSum(&operations[i], &scalar, ncclFloat, ncclScalarHostImmediate, here.ranks[i].comm));
  here.each([&](Rank &r) {
    return ncclAllReduce(r.input, r.output, 10, ncclFloat, operations[static_cast<size_t>(&r - &here.ranks[0])], r.comm,
                         r.stream);
  });
}

void checkGroup(OwnRanks &here) {
  constexpr size_t count = 100;
  auto own = [](Rank &r) { return r.output + 2000; };
  here.check(
      "a group of two collectives and a send",
      [&](Rank &r) {
        NCCL(ncclGroupStart());
        NCCL(ncclAllGather(r.input, r.output, count, ncclInt, r.comm, r.stream));
        NCCL(ncclSend(r.input, count, ncclInt, (r.number + 1) % here.size, r.comm, r.stream));
        NCCL(ncclRecv(r.output + 8000, count, ncclInt, (r.number + here.size - 1) % here.size, r.comm, r.stream));
        NCCL(ncclAllReduce(r.input, own(r), count, ncclInt, ncclSum, r.comm, r.stream));
        if (r.output[0] != -7 && here.ranks.size() == 1)
          wrong("a call in a group has begun before its end");
        return ncclGroupEnd();
      },
      [](int) { return static_cast<long>(count); }, [&](int, size_t i) { return here.sumAt(i); }, own);
}

/// Ranks of one parity.
void checkSplit(OwnRanks &here) {
  std::vector<ncclComm_t> whole;
  for (Rank &rank : here.ranks)
    whole.push_back(rank.comm);
  std::vector<ncclComm_t> made(here.ranks.size());
  here.each([&](Rank &r) {
    return ncclCommSplit(r.comm, r.number % 2, r.number, &made[static_cast<size_t>(&r - &here.ranks[0])], nullptr);
  });
  for (size_t i = 0; i < made.size(); ++i)
    here.ranks[i].comm = made[i];
  here.check(
      "all-reduce of a split communicator",
      [](Rank &r) { return ncclAllReduce(r.input, r.output, 500, ncclInt, ncclSum, r.comm, r.stream); },
      [](int) { return 500L; },
      [&](int rank, size_t i) {
        int sum = 0;
        for (int peer = rank % 2; peer < here.size; peer += 2)
          sum += valueOf(peer, i);
        return sum;
      });
  for (size_t i = 0; i < made.size(); ++i) {
    NCCL(ncclCommDestroy(made[i]));
    here.ranks[i].comm = whole[i];
  }
}

/// All ranks but the last one.
void checkShrink(OwnRanks &here) {
  OwnRanks rest{{}, here.size - 1};
  int excluded = here.size - 1;
  for (Rank &rank : here.ranks)
    if (rank.number != excluded)
      rest.ranks.push_back(rank);
  std::vector<ncclComm_t> made(rest.ranks.size());
  rest.each([&](Rank &r) {
    return ncclCommShrink(r.comm, &excluded, 1, &made[static_cast<size_t>(&r - &rest.ranks[0])], nullptr,
                          NCCL_SHRINK_DEFAULT);
  });
  for (size_t i = 0; i < made.size(); ++i)
    rest.ranks[i].comm = made[i];
  rest.check(
      "all-reduce of a shrunk communicator",
      [](Rank &r) { return ncclAllReduce(r.input, r.output, 500, ncclInt, ncclSum, r.comm, r.stream); },
      [](int) { return 500L; }, [&](int, size_t i) { return rest.sumAt(i); });
  for (ncclComm_t comm : made)
    NCCL(ncclCommAbort(comm));
}

void checkCapture(OwnRanks &here) {
  if (here.ranks.size() > 1)
    return;
  Rank &rank = here.ranks[0];
  auto call = [&] { return ncclAllReduce(rank.input, rank.output, 300, ncclInt, ncclSum, rank.comm, rank.stream); };
  NCCL(call());
  here.synchronize();
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUDA(cuStreamBeginCapture(rank.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  NCCL(call());
  CUDA(cuStreamEndCapture(rank.stream, &graph));
  CUDA(cuGraphInstantiate(&executable, graph, 0));
  here.fill();
  CUDA(cuGraphLaunch(executable, rank.stream));
  here.synchronize();
  for (size_t i = 0; i < 300; ++i)
    if (rank.output[i] != here.sumAt(i))
      return wrong("a captured all-reduce has " + std::to_string(rank.output[i]) + " at " + std::to_string(i));
}

void runCollectives(OwnRanks &here) {
  for (size_t count : {size_t(1), size_t(77), size_t(1000)}) {
    checkReductions(here, count);
    checkMoves(here, count);
  }
  callForwarded(here);
  checkGroup(here);
  if (here.size >= 4)
    checkSplit(here);
  if (here.size >= 3)
    checkShrink(here);
  for (Rank &rank : here.ranks) {
    ncclResult_t error = ncclInternalError;
    NCCL(ncclCommGetAsyncError(rank.comm, &error));
    NCCL(error);
  }
}

/// NCCL 2.31, whose header may not be here: the layouts are those of its documentation.
struct Extension {
  Extension *next;
  int vendor, option;
  union {
    int number;
    const char *text;
  };
};
struct CollectiveConfig {
  size_t sizeBytes;
  unsigned magic, version;
  Extension *extensions;
  char others[64];
};
extern "C" ncclResult_t ncclAllReduceConfig(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                            cudaStream_t, const CollectiveConfig *);

/// What a call ended with, and which error it left.
void report(const Rank &rank, ncclResult_t code) {
  say("rank " + std::to_string(rank.number) + ": " + std::to_string(code) + " " + ncclGetLastError(rank.comm));
}

/// The error that a communicator has noted, once there is one.
ncclResult_t awaitError(const Rank &rank) {
  ncclResult_t code = ncclSuccess;
  for (; code == ncclSuccess; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
    NCCL(ncclCommGetAsyncError(rank.comm, &code));
  return code;
}

/// A call that fails at once, or after it was queued.
void reportFailure(const Rank &rank, ncclResult_t code) { report(rank, code == ncclSuccess ? awaitError(rank) : code); }

void runOther(OwnRanks &here, const std::string &name) {
  Rank &rank = here.ranks[0];
  bool isLast = rank.number == here.size - 1;
  auto reduce = [&](size_t count, ncclRedOp_t operation) {
    return ncclAllReduce(rank.input, rank.output, count, ncclInt, operation, rank.comm, rank.stream);
  };
  if (name == "capture")
    return checkCapture(here);
  if (name == "count")
    return reportFailure(rank, reduce(isLast ? 11 : 10, ncclSum));
  if (name == "operation")
    return reportFailure(rank, reduce(10, isLast ? ncclMax : ncclSum));
  constexpr int kolo = 0x4B4F4C4F;
  auto reduceWith = [&](Extension extension) {
    Extension other{nullptr, 99, 1, {.number = 0}}; // of another vendor
    extension.next = &other;
    CollectiveConfig config{sizeof(CollectiveConfig), 0xcafebeef, 23100, &extension, {}};
    return ncclAllReduceConfig(rank.input, rank.output, 10, ncclInt, ncclSum, rank.comm, rank.stream, &config);
  };
  if (name == "named" || name == "unknown") {
    report(rank, reduceWith({nullptr, kolo, 1, {.text = name == "named" ? "ringAllReduce" : "noSuchProgram"}}));
    return here.synchronize(); // no kernel runs when the process ends
  }
  if (name == "refuse")
    return report(rank, reduceWith({nullptr, kolo, 2, {.number = 0}}));
  NCCL(reduce(10, ncclSum));
  here.synchronize();
  if (name == "death" && isLast)
    raise(SIGKILL);
  if (name == "late" && isLast)
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
  if (name == "missing" && isLast)
    return;
  if (name == "abort" && isLast) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    NCCL(ncclCommAbort(rank.comm));
    return;
  }
  ncclResult_t code = reduce(10, ncclSum);
  name == "late" ? report(rank, code) : reportFailure(rank, code);
}

void run(OwnRanks &here, const std::string &name) {
  name.empty() ? runCollectives(here) : runOther(here, name);
  if (!name.empty() && name != "capture" && name != "late")
    return; // what is left is not to be used any more
  for (Rank &rank : here.ranks)
    NCCL(ncclCommDestroy(rank.comm));
}

void runRank(int number, int size, const ncclUniqueId &id, const std::string &name) {
  OwnRanks here{{makeRank(number)}, size};
  Rank &rank = here.ranks[0];
  NCCL(ncclCommInitRank(&rank.comm, size, id, number));
  run(here, name);
}

void runInProcesses(int size, const ncclUniqueId &id, const std::string &name) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(fork());
    if (children.back() == 0) {
      runRank(rank, size, id, name);
      say("forwarded " + std::to_string(standInNumCollectives()));
      std::exit(numWrong != 0);
    }
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status))
      numWrong += WEXITSTATUS(status);
    else if (name != "death")
      wrong("a process was killed by signal " + std::to_string(WTERMSIG(status)));
  }
}

void runInThreads(int size, const ncclUniqueId &id, const std::string &name) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([=] { runRank(rank, size, id, name); });
  for (std::thread &thread : threads)
    thread.join();
  say("forwarded " + std::to_string(standInNumCollectives()));
}

void runInOne(int size, const ncclUniqueId &id, const std::string &name) {
  OwnRanks here{{}, size};
  for (int rank = 0; rank < size; ++rank)
    here.ranks.push_back(makeRank(rank));
  if (name == "all") {
    std::vector<ncclComm_t> made(static_cast<size_t>(size));
    std::vector<int> devices;
    for (Rank &rank : here.ranks)
      devices.push_back(rank.device);
    NCCL(ncclCommInitAll(made.data(), size, devices.data()));
    for (Rank &rank : here.ranks)
      rank.comm = made[static_cast<size_t>(rank.number)];
  } else {
    here.each([&](Rank &rank) { return ncclCommInitRank(&rank.comm, size, id, rank.number); });
  }
  run(here, name == "all" ? "" : name);
  say("forwarded " + std::to_string(standInNumCollectives()));
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3)
    return std::fprintf(stderr, "usage: client processes|threads|one RANKS [CASE]\n"), 2;
  std::string how = argv[1], name = argc > 3 ? argv[3] : "";
  int size = std::atoi(argv[2]);
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  (how == "processes" ? runInProcesses : how == "threads" ? runInThreads : runInOne)(size, id, name);
  return numWrong != 0;
}
