// client HOW RANKS [CASE]: a program that knows NCCL and CUDA alone, with the stand-ins for both. HOW: "processes",
// processes with "pairs" of ranks, "threads", "one" thread for all ranks, or "hands": one thread makes all ranks, and
// each then calls in a thread of its own. Prints what is wrong; the last line says how many calls came to NCCL.
#include "Client.h"

#include <dlfcn.h>

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
  Collective collective = allReduceOf(here.size, 500);
  collective.title = "all-reduce of a split communicator";
  collective.right = [&](int rank, size_t i) {
    int sum = 0;
    for (int peer = rank % 2; peer < here.size; peer += 2)
      sum += valueOf(peer, i);
    return sum;
  };
  here.check(collective);
  for (size_t i = 0; i < made.size(); ++i) {
    NCCL(ncclCommDestroy(made[i]));
    here.ranks[i].comm = whole[i];
  }
}

namespace {

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
      {"", "a group of two collectives and a send",
       [&](Rank &r) {
         NCCL(ncclGroupStart());
         NCCL(ncclAllGather(r.input, r.output, count, ncclInt, r.comm, r.stream));
         NCCL(ncclSend(r.input, count, ncclInt, (r.number + 1) % here.size, r.comm, r.stream));
         NCCL(ncclRecv(r.output + 8000, count, ncclInt, (r.number + here.size - 1) % here.size, r.comm, r.stream));
         NCCL(ncclAllReduce(r.input, own(r), count, ncclInt, ncclSum, r.comm, r.stream));
         if (read(r.output, 1)[0] != -7 && here.ranks.size() == 1)
           wrong("a call in a group has begun before its end");
         return ncclGroupEnd();
       },
       [](int) { return count; }, [&](int, size_t i) { return here.sumAt(i); }, own});
}

/// Ranks that have checked their results.
std::atomic<int> *const numChecked = makeShared();

/// All ranks but the last one. An abort ends calls that still run on other ranks, so they come together before it.
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
  Collective collective = allReduceOf(rest.size, 500);
  collective.title = "all-reduce of a shrunk communicator";
  rest.check(collective);
  *numChecked += static_cast<int>(rest.ranks.size());
  while (*numChecked < rest.size)
    std::this_thread::yield();
  for (ncclComm_t comm : made)
    NCCL(ncclCommAbort(comm));
}

void runCollectives(OwnRanks &here) {
  for (size_t count : {size_t(1), size_t(77), size_t(1000)}) {
    here.check(reductionsOf(here.size, count));
    here.check(movesOf(here.size, count));
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

/// A function of NCCL, past the door.
template <class Function> Function *ofNccl(Function *, const char *name) {
  return reinterpret_cast<Function *>(dlsym(dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), name));
}

/// An all-gather of bytes, which the stand-in for NCCL does itself.
void checkGatherOfNccl(OwnRanks &here, decltype(&ncclAllGather) allGather) {
  constexpr size_t number = 16;
  here.check({"", "an all-gather of NCCL",
              [&](Rank &r) { return allGather(r.input, r.output, number * sizeof(int), ncclUint8, r.comm, r.stream); },
              [&](int) { return number * static_cast<size_t>(here.size); },
              [](int, size_t i) { return valueOf(static_cast<int>(i / number), i % number); },
              [](Rank &r) { return r.output; }});
}

void run(OwnRanks &here, const std::string &name) {
  if (name.empty())
    runCollectives(here);
  else if (name == "without the door" || name == "id without the door")
    checkGatherOfNccl(here, &ncclAllGather);
  else if (!runCase(here, name))
    return;
  for (Rank &rank : here.ranks)
    NCCL(ncclCommDestroy(rank.comm));
}

/// A rank whose program was started without the door: it calls NCCL itself.
void runWithoutDoor(int rank, int size, const ncclUniqueId &id) {
  OwnRanks here{{makeRank(rank)}, size};
  NCCL(ofNccl(&ncclCommInitRank, "ncclCommInitRank")(&here.ranks[0].comm, size, id, rank));
  checkGatherOfNccl(here, ofNccl(&ncclAllGather, "ncclAllGather"));
}

/// The ranks from `first` on, all by this thread.
void runRanks(int first, int number, int size, const ncclUniqueId &id, const std::string &name) {
  if (name == "without the door" && first == size - 1)
    return runWithoutDoor(first, size, id);
  OwnRanks here{{}, size};
  for (int rank = first; rank < std::min(first + number, size); ++rank)
    here.ranks.push_back(makeRank(rank));
  if (name == "nonblocking" || name == "blocking")
    return runNonBlocking(here, id, name == "blocking", true);
  if (name == "nonblocking rank 0" || name == "nonblocking child of rank 0")
    return runNonBlocking(here, id, first != 0 || name != "nonblocking rank 0",
                          first != 0 || name != "nonblocking child of rank 0");
  if (name == "other plugins" && first == size - 1)
    setenv("KOLO_PLUGIN_PATH", std::getenv("KOLO_TEST_OTHER_PLUGINS"), 1);
  here.each([&](Rank &rank) { return ncclCommInitRank(&rank.comm, size, id, rank.number); });
  if (std::ranges::all_of(here.ranks, [](const Rank &rank) { return rank.comm != nullptr; }))
    run(here, name);
}

/// KOLO_TEST_HOSTS has the name of each rank's host, one letter: "aabb". Those of a process are on one host.
void setHost(int rank) {
  if (const char *hosts = std::getenv("KOLO_TEST_HOSTS"))
    setenv("KOLO_HOSTID", std::string(1, hosts[rank]).c_str(), 1);
}

void runInProcesses(int perProcess, int size, const ncclUniqueId &id, const std::string &name) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; rank += perProcess) {
    children.push_back(fork());
    if (children.back() == 0) {
      setHost(rank);
      runRanks(rank, perProcess, size, id, name);
      say("forwarded " + std::to_string(standInNumCollectives()));
      std::exit(numWrong != 0);
    }
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status))
      numWrong += WEXITSTATUS(status);
    else if (name.find("death") == name.npos)
      wrong("a process was killed by signal " + std::to_string(WTERMSIG(status)));
  }
}

void runInThreads(int size, const ncclUniqueId &id, const std::string &name) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([=] { runRanks(rank, 1, size, id, name); });
  for (std::thread &thread : threads)
    thread.join();
  say("forwarded " + std::to_string(standInNumCollectives()));
}

void runInHands(int size, const ncclUniqueId &id, const std::string &name) {
  OwnRanks all{{}, size};
  for (int rank = 0; rank < size; ++rank)
    all.ranks.push_back(makeRank(rank));
  all.each([&](Rank &rank) { return ncclCommInitRank(&rank.comm, size, id, rank.number); });
  std::vector<std::thread> threads;
  for (const Rank &rank : all.ranks)
    threads.emplace_back([&] {
      makeCurrent(rank.device);
      OwnRanks here{{rank}, size};
      run(here, name);
    });
  for (std::thread &thread : threads)
    thread.join();
  say("forwarded " + std::to_string(standInNumCollectives()));
}

void runInOne(int size, const ncclUniqueId &id, const std::string &name) {
  if (name == "all") {
    OwnRanks here{{}, size};
    for (int rank = 0; rank < size; ++rank)
      here.ranks.push_back(makeRank(rank));
    std::vector<ncclComm_t> made(static_cast<size_t>(size));
    std::vector<int> devices;
    for (Rank &rank : here.ranks)
      devices.push_back(rank.device);
    NCCL(ncclCommInitAll(made.data(), size, devices.data()));
    for (Rank &rank : here.ranks)
      rank.comm = made[static_cast<size_t>(rank.number)];
    run(here, "");
  } else {
    runRanks(0, size, size, id, name);
  }
  say("forwarded " + std::to_string(standInNumCollectives()));
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3)
    return std::fprintf(stderr, "usage: client processes|pairs|threads|hands|one RANKS [CASE]\n"), 2;
  std::string how = argv[1], name = argc > 3 ? argv[3] : "";
  int size = std::atoi(argv[2]);
  ncclUniqueId id;
  NCCL(name == "id without the door" ? ofNccl(&ncclGetUniqueId, "ncclGetUniqueId")(&id) : ncclGetUniqueId(&id));
  if (how == "processes" || how == "pairs")
    runInProcesses(how == "pairs" ? 2 : 1, size, id, name);
  else
    (how == "threads" ? runInThreads : how == "hands" ? runInHands : runInOne)(size, id, name);
  return numWrong != 0;
}
