// A program that knows NCCL and CUDA alone: its ranks, and what it checks.
#pragma once

#include "Collectives.h"
#include "StandInNccl.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

inline int numWrong = 0;

/// A number that all ranks see, be they threads or processes.
inline std::atomic<int> *makeShared() {
  return static_cast<std::atomic<int> *>(
      mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

inline void say(const std::string &text) {
  std::string line = text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0)
    std::abort();
}
inline void wrong(const std::string &text) {
  ++numWrong;
  say("wrong: " + text);
}
inline void expectCode(ncclResult_t code, const char *what) {
  if (code != ncclSuccess)
    wrong(std::string(what) + " returns " + std::to_string(code) + ": " + ncclGetLastError(nullptr));
}
inline void expectCuda(CUresult code, const char *what) {
  if (code != CUDA_SUCCESS)
    wrong(std::string(what) + " returns " + std::to_string(code));
}
#define NCCL(call) expectCode(call, #call)
#define CUDA(call) expectCuda(call, #call)

inline constexpr int numDevices = 2; // of the stand-in
inline constexpr size_t mostElements = 4096 * 8;

inline void makeCurrent(int device) {
  CUcontext context = nullptr;
  CUDA(cuDevicePrimaryCtxRetain(&context, device));
  CUDA(cuCtxPushCurrent(context));
  standInSetDevice(device);
}

/// Elements in memory of a device, which the host does not reach by itself. A context must be current.
inline std::vector<int> read(const int *memory, size_t number) {
  std::vector<int> elements(number);
  CUDA(cuMemcpy(reinterpret_cast<CUdeviceptr>(elements.data()), reinterpret_cast<CUdeviceptr>(memory),
                number * sizeof(int)));
  return elements;
}
inline void write(int *memory, const std::vector<int> &elements) {
  CUDA(cuMemcpy(reinterpret_cast<CUdeviceptr>(memory), reinterpret_cast<CUdeviceptr>(elements.data()),
                elements.size() * sizeof(int)));
}

inline Rank makeRank(int number) {
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
    for (Rank &rank : ranks) {
      std::vector<int> elements;
      for (size_t i = 0; i < mostElements; ++i)
        elements.push_back(valueOf(rank.number, i));
      write(rank.input, elements);
      write(rank.output, std::vector<int>(mostElements, -7));
    }
  }
  void synchronize() {
    for (Rank &rank : ranks) {
      makeCurrent(rank.device);
      CUDA(cuStreamSynchronize(rank.stream));
    }
  }
  /// Runs a collective, and compares every rank's result.
  void check(const Collective &collective) {
    fill();
    each(collective.call);
    synchronize();
    for (Rank &rank : ranks) {
      const size_t number = size > 1 ? collective.number(rank.number) : 0; // one rank: NCCL gets it
      const std::vector<int> result = read(collective.result(rank), number);
      for (size_t i = 0; i < number; ++i)
        if (int found = result[i], right = collective.right(rank.number, i); found != right) {
          wrong(collective.title + ": rank " + std::to_string(rank.number) + " has " + std::to_string(found) + " at " +
                std::to_string(i) + ", not " + std::to_string(right));
          break;
        }
    }
  }
  void check(const std::vector<Collective> &collectives) {
    for (const Collective &collective : collectives)
      check(collective);
  }

  int sumAt(size_t element) const { return sumOf(size, element); }
};

/// Ranks of one parity.
void checkSplit(OwnRanks &here);
/// Makes communicators with a configuration, polls them as a program of non-blocking communicators does, and ends them.
/// `isChildBlocking`: those that are split from them have the configuration of their parents, else a non-blocking one.
void runNonBlocking(OwnRanks &here, const ncclUniqueId &id, bool isBlocking, bool isChildBlocking);
void checkFinalize(OwnRanks &here);
/// The communicators are not to be used any more.
void destroyWhileCallsRun(OwnRanks &here);
/// The last rank does not call again; the others end their calls by NCCL_SHRINK_ABORT, and go on without it.
void shrinkAfterLoss(OwnRanks &here);
/// The last rank is killed; the others end their communicators: `how` is "finalize", "finalize in group" or "destroy".
void endAfterDeath(OwnRanks &here, const std::string &how);
/// Rank 1's stream hangs, so that all ranks wait in ncclCommFinalize; then another thread aborts rank 1's communicator.
void abortWhileStreamHangs(OwnRanks &here);
void checkCaptureInGroup(OwnRanks &here);
/// Rank 0 calls in a group, and another thread aborts its communicator. The other ranks do not call.
void abortInGroup(OwnRanks &here);
/// Groups of sends and receives, by the name of a case. As runCase.
bool runGroups(OwnRanks &here, const std::string &name);
/// One of the other cases, by its name. False: the communicators are not to be used any more.
bool runCase(OwnRanks &here, const std::string &name);
