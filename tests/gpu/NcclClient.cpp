#include "NcclClient.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>
#include <tuple>

namespace kolo::test {

void expectNccl(ncclResult_t code, const char *what) {
  if (code != ncclSuccess)
    throw std::runtime_error(std::string(what) + " returns " + std::to_string(code) + ": " + ncclGetLastError(nullptr));
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char each : text)
    if (each == '"' || each == '\\')
      out += std::string("\\") + each;
    else
      out += static_cast<unsigned char>(each) < ' ' ? ' ' : each;
  return out + "\"";
}

void printLine(const std::string &fields) {
  std::string line = "{" + fields + "}\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0)
    _exit(1);
}

NcclClient::NcclClient(Shared &state, std::set<std::string> chosen, int first, int number, int size)
    : shared(state), kinds(std::move(chosen)), numRanks(size) {
  CUcontext context = nullptr;
  char name[256] = {};
  CUDA(cuInit, 0);
  CUDA(cuDeviceGetName, name, sizeof(name), 0);
  isStandIn = std::string(name).starts_with("stand-in");
  CUDA(cuDevicePrimaryCtxRetain, &context, 0);
  CUDA(cuCtxPushCurrent, context);
  for (int rank = first; rank < first + number; ++rank) {
    Rank &made = ranks.emplace_back(Rank{.number = rank});
    CUDA(cuStreamCreate, &made.stream, CU_STREAM_NON_BLOCKING);
    for (int **buffer : {&made.input, &made.output}) {
      CUdeviceptr memory = 0;
      CUDA(cuMemAlloc, &memory, mostElements * sizeof(int));
      *buffer = reinterpret_cast<int *>(memory);
    }
  }
}

void NcclClient::run() {
  connect();
  for (size_t count : {size_t(1), size_t(77), size_t(3000)}) {
    check(reductionsOf(numRanks, count));
    check(movesOf(numRanks, count));
  }
  checkFloats();
  checkGroup();
  checkGraph();
  checkWindows();
  checkSplit();
  checkForwarded();
  each([](Rank &rank) { return ncclCommFinalize(rank.comm); });
  for (Rank &rank : ranks)
    NCCL(ncclCommDestroy(rank.comm));
  if (isFirst())
    printLine("\"expected\": {\"carried\": " + std::to_string(numCarried * shared.ranksPerProcess) +
              ", \"forwarded\": " + std::to_string(numForwarded * shared.ranksPerProcess) + "}");
}

void NcclClient::connect() {
  if (isFirst()) {
    NCCL(ncclGetUniqueId(&shared.id));
    shared.hasId = 1;
  }
  while (shared.hasId == 0)
    std::this_thread::yield();
  try {
    each([&](Rank &rank) { return ncclCommInitRank(&rank.comm, numRanks, shared.id, rank.number); });
  } catch (const std::runtime_error &problem) {
    throw Refused(problem.what());
  }
}

void NcclClient::each(const std::function<ncclResult_t(Rank &)> &call) {
  if (ranks.size() > 1)
    NCCL(ncclGroupStart());
  for (Rank &rank : ranks)
    NCCL(call(rank));
  if (ranks.size() > 1)
    NCCL(ncclGroupEnd());
}

void NcclClient::copy(const Rank &rank, void *dst, const void *src, size_t number) const {
  CUDA(cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(dst), reinterpret_cast<CUdeviceptr>(src), number * sizeof(int),
       rank.stream);
  CUDA(cuStreamSynchronize, rank.stream);
}

void NcclClient::fill() const {
  std::vector<int> values(mostElements);
  const std::vector<int> poisoned(mostElements, poison);
  for (const Rank &rank : ranks) {
    for (size_t i = 0; i < mostElements; ++i)
      values[i] = valueOf(rank.number, i);
    copy(rank, rank.input, values.data(), mostElements);
    copy(rank, rank.output, poisoned.data(), mostElements);
  }
}

/// Throws what a kernel says that gave up: its results are not right.
void NcclClient::finish() const {
  for (const Rank &rank : ranks)
    CUDA(cuStreamSynchronize, rank.stream);
  for (const Rank &rank : ranks) {
    ncclResult_t error = ncclSuccess;
    NCCL(ncclCommGetAsyncError(rank.comm, &error));
    NCCL(error);
  }
}

void NcclClient::check(const Collective &collective) {
  if (!has(collective.kind))
    return;
  fill();
  each(collective.call);
  finish();
  ++numCarried;
  compare(collective);
}

void NcclClient::check(const std::vector<Collective> &collectives) {
  for (const Collective &collective : collectives)
    check(collective);
}

void NcclClient::compare(const Collective &collective) {
  std::vector<int> found(mostElements);
  std::string wrong;
  for (Rank &rank : ranks) {
    const size_t number = collective.number(rank.number);
    copy(rank, found.data(), collective.result(rank), number);
    for (size_t i = 0; i < number && wrong.empty(); ++i)
      if (int right = collective.right(rank.number, i); found[i] != right)
        wrong = "rank " + std::to_string(rank.number) + " has " + std::to_string(found[i]) + " at " +
                std::to_string(i) + ", not " + std::to_string(right);
  }
  say(collective.title, wrong);
}

void NcclClient::say(const std::string &check, const std::string &wrong) const {
  shared.numWrong += !wrong.empty();
  if (!wrong.empty())
    printLine("\"check\": " + quoted(check) + ", \"wrong\": " + quoted(wrong));
  else if (isFirst())
    printLine("\"check\": " + quoted(check));
}

void NcclClient::skip(const std::string &check, const std::string &why) const {
  if (isFirst())
    printLine("\"check\": " + quoted(check) + ", \"skipped\": " + quoted(why));
}

/// Sums of whole numbers, which are exact in any order.
void NcclClient::checkFloats() {
  if (!has("all_reduce"))
    return;
  constexpr size_t count = 1000;
  auto bitsOf = [](float value) {
    int bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  };
  std::vector<int> values(count);
  fill();
  for (Rank &rank : ranks) {
    for (size_t i = 0; i < count; ++i)
      values[i] = bitsOf(static_cast<float>(rank.number * 1000 + static_cast<int>(i)));
    copy(rank, rank.input, values.data(), count);
  }
  each([](Rank &r) { return ncclAllReduce(r.input, r.output, count, ncclFloat, ncclSum, r.comm, r.stream); });
  finish();
  ++numCarried;
  Collective floats = allReduceOf(numRanks, count);
  floats.title = "all-reduce of floats";
  floats.right = [&](int, size_t i) {
    const int right = 1000 * numRanks * (numRanks - 1) / 2 + numRanks * static_cast<int>(i);
    return bitsOf(static_cast<float>(right));
  };
  compare(floats);
}

/// Two collectives, a send and a receive in one group.
void NcclClient::checkGroup() {
  if (!has("all_reduce") || !has("all_gather"))
    return;
  constexpr size_t count = 100, second = 2000, third = 4000;
  fill();
  NCCL(ncclGroupStart());
  for (Rank &r : ranks) {
    NCCL(ncclAllGather(r.input, r.output, count, ncclInt, r.comm, r.stream));
    NCCL(ncclSend(r.input, count, ncclInt, (r.number + 1) % numRanks, r.comm, r.stream));
    NCCL(ncclRecv(r.output + third, count, ncclInt, (r.number + numRanks - 1) % numRanks, r.comm, r.stream));
    NCCL(ncclAllReduce(r.input, r.output + second, count, ncclInt, ncclSum, r.comm, r.stream));
  }
  NCCL(ncclGroupEnd());
  finish();
  numCarried += 2;
  Collective sum = allReduceOf(numRanks, count);
  sum.title = "all-reduce in a group";
  sum.result = [](Rank &r) { return r.output + second; };
  compare(sum);
  Collective gathered = movesOf(numRanks, count).front();
  gathered.title = "all-gather in a group";
  compare(gathered);
  if (isStandIn)
    return skip("send and receive in a group", "the stand-in for NCCL moves no data");
  compare({"",
           "send and receive in a group",
           {},
           [](int) { return count; },
           [this](int rank, size_t i) { return valueOf((rank + numRanks - 1) % numRanks, i); },
           [](Rank &r) { return r.output + third; }});
}

/// A graph of every rank, launched twice on other data than it was captured with.
void NcclClient::checkGraph() {
  if (!has("all_reduce"))
    return;
  constexpr size_t count = 300;
  const Collective collective = allReduceOf(numRanks, count);
  std::vector<CUgraph> graphs(ranks.size());
  std::vector<CUgraphExec> executables(ranks.size());
  for (Rank &rank : ranks)
    CUDA(cuStreamBeginCapture, rank.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  each(collective.call);
  ++numCarried;
  for (size_t i = 0; i < ranks.size(); ++i) {
    CUDA(cuStreamEndCapture, ranks[i].stream, &graphs[i]);
    CUDA(cuGraphInstantiate, &executables[i], graphs[i], 0);
  }
  for (int launch = 1; launch <= 2; ++launch) {
    fill();
    for (size_t i = 0; i < ranks.size(); ++i)
      CUDA(cuGraphLaunch, executables[i], ranks[i].stream);
    finish();
    Collective launched = collective;
    launched.title = "all-reduce in a graph, launch " + std::to_string(launch);
    compare(launched);
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    CUDA(cuGraphExecDestroy, executables[i]);
    CUDA(cuGraphDestroy, graphs[i]);
  }
}

/// Buffers of ncclMemAlloc in symmetric windows. A NCCL that makes no window leaves them ordinary memory.
void NcclClient::checkWindows() {
  if (!has("all_reduce"))
    return;
  std::vector<std::pair<int *, int *>> before;
  std::vector<std::array<ncclWindow_t, 2>> windows(ranks.size());
  auto windowOf = [&](Rank &r, size_t role) { return &windows[static_cast<size_t>(&r - &ranks[0])][role]; };
  constexpr size_t numBytes = mostElements * sizeof(int);
  for (Rank &rank : ranks) {
    before.emplace_back(rank.input, rank.output);
    NCCL(ncclMemAlloc(reinterpret_cast<void **>(&rank.input), numBytes));
    NCCL(ncclMemAlloc(reinterpret_cast<void **>(&rank.output), numBytes));
  }
  for (size_t role : {size_t(0), size_t(1)})
    each([&](Rank &r) {
      return ncclCommWindowRegister(r.comm, role ? r.output : r.input, numBytes, windowOf(r, role),
                                    NCCL_WIN_COLL_SYMMETRIC);
    });
  if (!windows[0][0])
    skip("windows", "NCCL made none for ranks on one device");
  for (size_t count : {size_t(1), size_t(700)})
    for (const auto &collectives : {reductionsOf(numRanks, count), movesOf(numRanks, count)})
      for (Collective collective : collectives) {
        collective.title += windows[0][0] ? " in windows" : " in memory of ncclMemAlloc";
        check(collective);
      }
  meet();
  for (size_t role : {size_t(0), size_t(1)})
    each([&](Rank &r) { return ncclCommWindowDeregister(r.comm, *windowOf(r, role)); });
  for (size_t i = 0; i < ranks.size(); ++i) {
    NCCL(ncclMemFree(ranks[i].input));
    NCCL(ncclMemFree(ranks[i].output));
    std::tie(ranks[i].input, ranks[i].output) = before[i];
  }
}

/// Before memory is freed, which waits for all kernels of a device: one of another rank may wait for a rank that cannot
/// launch its own meanwhile.
void NcclClient::meet() {
  Collective sum = allReduceOf(numRanks, 1);
  sum.title = "all-reduce before memory is freed";
  check(sum);
}

/// The communicators of the even and of the odd ranks.
void NcclClient::checkSplit() {
  if (numRanks < 4 || !has("all_reduce"))
    return;
  std::vector<ncclComm_t> whole, made(ranks.size());
  for (Rank &rank : ranks)
    whole.push_back(rank.comm);
  each([&](Rank &r) {
    return ncclCommSplit(r.comm, r.number % 2, r.number, &made[static_cast<size_t>(&r - &ranks[0])], nullptr);
  });
  for (size_t i = 0; i < ranks.size(); ++i)
    ranks[i].comm = made[i];
  Collective collective = allReduceOf(numRanks, 500);
  collective.title = "all-reduce of a split communicator";
  collective.right = [this](int rank, size_t i) {
    int sum = 0;
    for (int peer = rank % 2; peer < numRanks; peer += 2)
      sum += valueOf(peer, i);
    return sum;
  };
  check(collective);
  for (size_t i = 0; i < ranks.size(); ++i)
    ranks[i].comm = whole[i];
  meet();
  for (ncclComm_t comm : made)
    NCCL(ncclCommDestroy(comm));
}

/// Calls that NCCL gets: without data, and with an operation of the program.
void NcclClient::checkForwarded() {
  each([](Rank &r) { return ncclAllReduce(r.input, r.output, 0, ncclInt, ncclSum, r.comm, r.stream); });
  constexpr size_t count = 10;
  std::vector<ncclRedOp_t> operations(ranks.size());
  float half = 0.5f;
  std::vector<float> values(count), found(count);
  for (size_t i = 0; i < ranks.size(); ++i) {
    NCCL(ncclRedOpCreatePreMulSum(&operations[i], &half, ncclFloat, ncclScalarHostImmediate, ranks[i].comm));
    for (size_t element = 0; element < count; ++element)
      values[element] = static_cast<float>(2 * (ranks[i].number + static_cast<int>(element)));
    copy(ranks[i], ranks[i].input, values.data(), count);
  }
  each([&](Rank &r) {
    ncclRedOp_t operation = operations[static_cast<size_t>(&r - &ranks[0])];
    return ncclAllReduce(r.input, r.output, count, ncclFloat, operation, r.comm, r.stream);
  });
  finish();
  numForwarded += 2;
  const char *title = "all-reduce with an operation of the program, by NCCL";
  if (isStandIn)
    return skip(title, "the stand-in for NCCL moves no data");
  for (Rank &rank : ranks) {
    copy(rank, found.data(), rank.output, count);
    bool isRight = true;
    for (size_t i = 0; i < count; ++i) {
      const int right = numRanks * (numRanks - 1) / 2 + numRanks * static_cast<int>(i);
      isRight &= found[i] == static_cast<float>(right);
    }
    say(title, isRight ? "" : "rank " + std::to_string(rank.number) + " has another sum");
  }
}

} // namespace kolo::test
