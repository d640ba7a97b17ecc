// What the client can do besides its collectives: graphs, windows, late hosts, mistakes, ranks that end.
#include "Client.h"

#include <bit>

extern "C" int64_t standInCopies();

namespace {

std::atomic<int> *const hasReturned = makeShared();

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
  const std::vector<int> output = read(rank.output, 300);
  for (size_t i = 0; i < output.size(); ++i)
    if (output[i] != here.sumAt(i))
      return wrong("a captured all-reduce has " + std::to_string(output[i]) + " at " + std::to_string(i));
}

/// Memory as ncclMemAlloc makes it.
int *allocateVirtual(int device, size_t sizeBytes) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle physical = 0;
  CUdeviceptr memory = 0;
  std::array<CUmemAccessDesc, numDevices> access = {};
  for (int each = 0; each < numDevices; ++each)
    access[static_cast<size_t>(each)] = {{CU_MEM_LOCATION_TYPE_DEVICE, each}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUDA(cuMemCreate(&physical, sizeBytes, &properties, 0));
  CUDA(cuMemAddressReserve(&memory, sizeBytes, 0, 0, 0));
  CUDA(cuMemMap(memory, sizeBytes, 0, physical, 0));
  CUDA(cuMemSetAccess(memory, sizeBytes, access.data(), access.size()));
  CUDA(cuMemRelease(physical));
  return reinterpret_cast<int *>(memory);
}

/// Buffers in windows of all ranks, and then the same buffers outside of windows. Says how many copies a call makes.
void checkWindows(OwnRanks &here) {
  constexpr size_t count = 700;
  auto check = [&](const std::string &what) {
    Collective collective = allReduceOf(here.size, count);
    collective.title = what;
    here.check(collective);
  };
  for (Rank &rank : here.ranks) {
    makeCurrent(rank.device);
    rank.output = allocateVirtual(rank.device, mostElements * sizeof(int));
  }
  std::vector<std::array<ncclWindow_t, 2>> windows(here.ranks.size());
  auto windowOf = [&](Rank &r, size_t role) { return &windows[static_cast<size_t>(&r - &here.ranks[0])][role]; };
  for (size_t role : {size_t(0), size_t(1)})
    here.each([&](Rank &r) {
      return ncclCommWindowRegister(r.comm, role ? r.output : r.input, mostElements * sizeof(int), windowOf(r, role),
                                    NCCL_WIN_COLL_SYMMETRIC);
    });
  say("addresses asked for: " + std::to_string(standInNumAddresses()));
  check("all-reduce in windows");
  int64_t before = standInCopies(); // the first call of a kind writes its table
  check("all-reduce in windows, again");
  say("copies in windows: " + std::to_string(standInCopies() - before));
  here.check(reductionsOf(here.size, 333));
  here.check(movesOf(here.size, 333));
  for (size_t role : {size_t(0), size_t(1)})
    here.each([&](Rank &r) { return ncclCommWindowDeregister(r.comm, *windowOf(r, role)); });
  check("all-reduce after the windows");
  before = standInCopies();
  check("all-reduce after the windows, again");
  say("copies after the windows: " + std::to_string(standInCopies() - before));
}

/// The last rank's input is memory of the host, which CUDA's driver knows.
void checkHostMemory(OwnRanks &here) {
  Rank &last = here.ranks.back();
  void *memory = nullptr;
  makeCurrent(last.device);
  CUDA(cuMemHostAlloc(&memory, mostElements * sizeof(int), CU_MEMHOSTALLOC_PORTABLE));
  if (last.number == here.size - 1)
    last.input = static_cast<int *>(memory);
  here.check(reductionsOf(here.size, 300));
}

/// Calls of hosts that come late by up to a second, in groups where the thread has several ranks.
void checkLate(OwnRanks &here) {
  std::minstd_rand random(static_cast<unsigned>(here.ranks[0].number + 1));
  for (size_t call = 0; call < 4; ++call) {
    int most = call == 2 ? 1000 : 100;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(0, most)(random)));
    size_t count = 100 + call;
    here.fill();
    here.each([&](Rank &r) { return ncclAllReduce(r.input, r.output, count, ncclInt, ncclSum, r.comm, r.stream); });
    here.each([&](Rank &r) { return ncclAllGather(r.input, r.output + 8192, count, ncclInt, r.comm, r.stream); });
    here.synchronize();
    for (Rank &rank : here.ranks) {
      const std::vector<int> output = read(rank.output, 8192 + count * static_cast<size_t>(here.size));
      for (size_t i = 0; i < count * static_cast<size_t>(here.size); ++i)
        if ((i < count && output[i] != here.sumAt(i)) ||
            output[8192 + i] != valueOf(static_cast<int>(i / count), i % count))
          return wrong("call " + std::to_string(call) + " of rank " + std::to_string(rank.number));
    }
  }
}

/// Rank 0 calls, and says so; the others call when they have heard it.
void checkEnqueued(OwnRanks &here) {
  Rank &rank = here.ranks[0];
  auto call = [&] { return ncclAllReduce(rank.input, rank.output, 500, ncclInt, ncclSum, rank.comm, rank.stream); };
  if (rank.number != 0)
    while (*hasReturned == 0)
      std::this_thread::yield();
  here.fill();
  NCCL(call());
  *hasReturned = 1;
  here.synchronize();
  const std::vector<int> output = read(rank.output, 500);
  for (size_t i = 0; i < output.size(); ++i)
    if (output[i] != here.sumAt(i))
      return wrong("a call that returned before its peers called");
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

/// A call with options of vendors.
void callWithConfig(OwnRanks &here, const std::string &name) {
  Rank &rank = here.ranks[0];
  constexpr int kolo = 0x4B4F4C4F;
  Extension other{nullptr, 99, 1, {.number = 0}}; // of another vendor
  Extension own{&other, kolo, 2, {.number = 0}};
  if (name != "refuse")
    own = {&other, kolo, 1, {.text = name == "named" ? "ringAllReduce" : "noSuchProgram"}};
  CollectiveConfig config{sizeof(CollectiveConfig), 0xcafebeef, 23100, &own, {}};
  report(rank, ncclAllReduceConfig(rank.input, rank.output, 10, ncclInt, ncclSum, rank.comm, rank.stream, &config));
  here.synchronize(); // no kernel runs when the process ends
}

/// Averages of which devices do only those whose sums cannot overflow.
void checkAverages(OwnRanks &here) {
  for (ncclDataType_t type : {ncclFloat16, ncclBfloat16, ncclFloat})
    here.each([=](Rank &r) { return ncclAllReduce(r.input, r.output, 10, type, ncclAvg, r.comm, r.stream); });
}

/// Calls that NCCL gets, because not all ranks can be carried; then those of a part of the ranks.
void checkForwarded(OwnRanks &here) {
  for (int call = 0; call < 3; ++call)
    here.each([](Rank &r) { return ncclAllReduce(r.input, r.output, 10, ncclInt, ncclSum, r.comm, r.stream); });
  if (here.size > 3)
    checkSplit(here);
}

/// The last rank does something else than the others.
void callApart(OwnRanks &here, const std::string &name) {
  Rank &rank = here.ranks[0];
  bool isLast = rank.number == here.size - 1;
  auto reduce = [&](size_t count, ncclRedOp_t operation) {
    return ncclAllReduce(rank.input, rank.output, count, ncclInt, operation, rank.comm, rank.stream);
  };
  if (name == "count")
    return reportFailure(rank, reduce(isLast ? 11 : 10, ncclSum));
  if (name == "operation")
    return reportFailure(rank, reduce(10, isLast ? ncclMax : ncclSum));
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

/// A call that waits on the host for peers that do not come, because it needs more internal memory than there is.
/// Another thread aborts the communicator meanwhile.
void abortWaitingCall(OwnRanks &here) {
  Rank &rank = here.ranks[0];
  NCCL(ncclAllReduce(rank.input, rank.output, 10, ncclInt, ncclSum, rank.comm, rank.stream));
  here.synchronize();
  while (rank.number != 0 && *hasReturned == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (rank.number != 0)
    return;
  std::atomic<size_t> numCalls = 1;
  std::thread aborter([&] {
    for (size_t seen = 0; seen != numCalls;) { // until a call takes long
      seen = numCalls;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    NCCL(ncclCommAbort(rank.comm));
  });
  ncclResult_t code = ncclSuccess;
  for (size_t count = 3000; code == ncclSuccess && count < 20000; ++count, ++numCalls)
    code = ncclAllReduce(rank.input, rank.output, count, ncclInt, ncclSum, rank.comm, rank.stream);
  say("rank 0: " + std::to_string(code) + " " + ncclGetLastError(nullptr));
  aborter.join();
  *hasReturned = 1;
}

/// The process of rank 0 ends long before the others do, whose communicators stay well.
void checkEarlyEnd(OwnRanks &here) {
  here.each([](Rank &r) { return ncclAllReduce(r.input, r.output, 10, ncclInt, ncclSum, r.comm, r.stream); });
  here.synchronize();
  if (here.ranks[0].number == 0)
    return;
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  for (Rank &rank : here.ranks) {
    ncclResult_t error = ncclInternalError;
    NCCL(ncclCommGetAsyncError(rank.comm, &error));
    NCCL(error);
  }
}

/// Sums in f32 that fit neither 8 bits nor half precision. A stand-in that gets them leaves the output as it is.
void checkFloats(OwnRanks &here) {
  constexpr size_t count = 3000;
  auto valueAt = [](int rank, size_t i) { return static_cast<float>(rank + 1) / static_cast<float>(i + 3); };
  for (Rank &rank : here.ranks) {
    std::vector<int> input;
    for (size_t i = 0; i < count; ++i)
      input.push_back(std::bit_cast<int>(valueAt(rank.number, i)));
    write(rank.input, input);
    write(rank.output, std::vector<int>(count, -7));
  }
  here.each([](Rank &r) { return ncclAllReduce(r.input, r.output, count, ncclFloat, ncclSum, r.comm, r.stream); });
  here.synchronize();
  const bool isForwarded = standInNumCollectives() != 0;
  for (Rank &rank : here.ranks) {
    const std::vector<int> output = read(rank.output, count);
    for (size_t i = 0; i < count; ++i)
      if (isForwarded ? output[i] != -7 : std::bit_cast<float>(output[i]) != valueAt(0, i) + valueAt(1, i))
        return wrong("rank " + std::to_string(rank.number) + " has another sum at " + std::to_string(i));
  }
}

constexpr struct {
  const char *name;
  void (*run)(OwnRanks &);
} checks[] = {
    {"capture", checkCapture},     {"windows", checkWindows},         {"delayed", checkLate},
    {"enqueued", checkEnqueued},   {"host", checkHostMemory},         {"split", checkSplit},
    {"ends", checkEarlyEnd},       {"finalize", checkFinalize},       {"capture in group", checkCaptureInGroup},
    {"forwarded", checkForwarded}, {"other plugins", checkForwarded}, {"floats", checkFloats},
    {"averages", checkAverages}};

} // namespace

bool runCase(OwnRanks &here, const std::string &name) {
  for (const auto &each : checks)
    if (name == each.name)
      return each.run(here), true;
  if (name.starts_with("groups, "))
    return runGroups(here, name.substr(8));
  if (name == "named" || name == "unknown" || name == "refuse")
    callWithConfig(here, name);
  else if (name == "waiting")
    abortWaitingCall(here);
  else if (name == "shrink")
    shrinkAfterLoss(here);
  else if (name == "destroy")
    destroyWhileCallsRun(here);
  else if (name == "abort in group")
    abortInGroup(here);
  else if (name == "abort a hanging stream")
    abortWhileStreamHangs(here);
  else if (name.starts_with("death, "))
    endAfterDeath(here, name.substr(7));
  else
    callApart(here, name);
  return name == "late";
}
