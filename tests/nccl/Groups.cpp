// Groups of sends and receives: those that are an all-to-all with counts of its own, and those that are none.
#include "GroupSteps.h"

extern "C" int64_t standInCopies();

namespace {

void callTwice(Caller &caller, const Step &step) {
  caller.callAll(step);
  const int next = (caller.rank.number + 1) % step.size(), last = (caller.rank.number + step.size() - 1) % step.size();
  NCCL(ncclSend(caller.input.address, 1, ncclInt8, next, caller.rank.comm, caller.rank.stream));
  NCCL(ncclRecv(caller.output.address, 1, ncclInt8, last, caller.rank.comm, caller.rank.stream));
}

void callWithCollective(Caller &caller, const Step &step) {
  caller.callAll(step);
  NCCL(
      ncclAllReduce(caller.rank.input, caller.rank.output, 10, ncclInt, ncclSum, caller.rank.comm, caller.rank.stream));
}

void callOnStreams(Caller &caller, const Step &step) {
  CUstream other = nullptr, own = caller.rank.stream;
  CUDA(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  for (int peer = 0; peer < step.size(); ++peer) {
    caller.rank.stream = peer == 0 ? other : own;
    caller.callPeer(step, peer);
  }
  caller.rank.stream = own;
}

/// The last rank alone sends its first block from elsewhere.
void callFromElsewhere(Caller &caller, const Step &step) {
  if (caller.rank.number == step.size() - 1) {
    unsigned char *other = allocate(size_t(4) << 20); // a block of its own
    const Caller elsewhere{caller.rank, {other, std::vector<size_t>(step.counts.size())}, caller.output};
    Step first = step, rest = step;
    for (int peer = 1; peer < step.size(); ++peer)
      first.counts[static_cast<size_t>(caller.rank.number)][static_cast<size_t>(peer)] = absent;
    for (std::vector<size_t> &row : first.counts)
      row[static_cast<size_t>(caller.rank.number)] = absent;
    rest.counts[static_cast<size_t>(caller.rank.number)][0] = absent;
    elsewhere.callPeer(first, 0);
    return caller.callAll(rest);
  }
  caller.callAll(step);
}

/// The second block is received where the first one is.
void callOverlapping(Caller &caller, const Step &step) {
  Memory kept = caller.output;
  caller.output.places[1] = caller.output.places[0] + 1;
  caller.callAll(step);
  caller.output = kept;
}

void callAtOnePlace(Caller &caller, const Step &step) {
  Memory kept = caller.output;
  caller.output.address = caller.input.address + 1;
  caller.callAll(step);
  caller.output = kept;
}

/// Ranks that have ended a step.
std::atomic<int> *const numEnded = makeShared();

/// Ranks that are later than others wait. They meet after each step, as NCCL's kernels do. Says which steps were
/// carried.
void checkHasty(OwnRanks &here) {
  Callers callers(here);
  std::string carried;
  for (int number = 0; number < numSteps(); ++number) {
    const Step step = fullStep(static_cast<size_t>(number), here.size);
    std::minstd_rand random(static_cast<unsigned>(number * 131 + here.ranks[0].number + 3));
    random.discard(5);
    if (random() % 2 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    callers.start(step);
    here.synchronize();
    for (Caller &each : callers.all) {
      const bool hasReceived = each.hasReceived();
      carried += hasReceived ? '1' : '0';
      each.check(step, hasReceived);
    }
    for (*numEnded += static_cast<int>(here.ranks.size()); *numEnded < here.size * (number + 1);)
      std::this_thread::yield();
  }
  say("steps " + carried);
}

/// The last rank comes when the others have given up.
void checkLateGroup(OwnRanks &here) {
  Callers callers(here);
  const Step late = fullStep(1, here.size);
  if (here.ranks.back().number == here.size - 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  callers.start(late);
  callers.finish(late, false);
  callers.sayForwarded();
}

/// An all-to-all in a graph, launched with other data each time.
void checkCapturedGroup(OwnRanks &here) {
  Callers callers(here);
  Caller &own = callers.all[0];
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  Step step = fullStep(1, here.size);
  own.prepare(step);
  CUDA(cuStreamBeginCapture(own.rank.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  own.call(step);
  CUDA(cuStreamEndCapture(own.rank.stream, &graph));
  CUDA(cuGraphInstantiate(&executable, graph, 0));
  own.check({1, makeCounts(here.size, 0), step.type, false}, true); // nothing has run
  const Memory input = own.input, output = own.output;
  for (size_t launch = 2; launch < 5; ++launch) {
    step.number = launch;
    own.prepare(step);
    std::vector<unsigned char> content(roomBytes);
    own.copy(content.data(), own.input.address);
    std::vector<unsigned char> moved(roomBytes, poison);
    for (int peer = 0; peer < here.size; ++peer)
      std::copy_n(&content[own.input.places[static_cast<size_t>(peer)]], step.bytesOf(own.rank.number, peer),
                  &moved[input.places[static_cast<size_t>(peer)]]);
    own.copy(own.input.address, moved.data());
    own.input = input, own.output = output;
    CUDA(cuGraphLaunch(executable, own.rank.stream));
    callers.finish(step, true);
  }
  CUDA(cuGraphExecDestroy(executable));
  CUDA(cuGraphDestroy(graph));
}

/// Two communicators in one group: of all ranks, and of those of one parity.
void checkTwoCommunicators(OwnRanks &here) {
  std::vector<Rank> others = here.ranks;
  here.each([&](Rank &r) {
    return ncclCommSplit(r.comm, r.number % 2, r.number, &others[static_cast<size_t>(&r - &here.ranks[0])].comm,
                         nullptr);
  });
  OwnRanks half{others, here.size / 2};
  for (Rank &rank : half.ranks)
    rank.number /= 2;
  Callers whole(here), parts(half);
  for (size_t number = 0; number < 3; ++number) {
    const Step all = fullStep(number, here.size), part = fullStep(number + 7, half.size);
    for (Caller &each : whole.all)
      each.prepare(all);
    for (Caller &each : parts.all)
      each.prepare(part);
    NCCL(ncclGroupStart());
    for (size_t i = 0; i < here.ranks.size(); ++i) {
      whole.all[i].call(all);
      parts.all[i].call(part);
    }
    NCCL(ncclGroupEnd());
    whole.finish(all, true);
    parts.finish(part, true);
  }
  for (Rank &rank : half.ranks)
    NCCL(ncclCommDestroy(rank.comm));
}

/// Blocks in windows; then of the last rank in none.
void checkGroupInWindows(OwnRanks &here) {
  Callers callers(here);
  std::vector<std::array<ncclWindow_t, 2>> windows(here.ranks.size());
  for (size_t role : {size_t(0), size_t(1)})
    here.each([&](Rank &r) {
      const auto index = static_cast<size_t>(&r - &here.ranks[0]);
      Caller &own = callers.all[index];
      return ncclCommWindowRegister(r.comm, role ? own.output.address : own.input.address, roomBytes,
                                    &windows[index][role], NCCL_WIN_COLL_SYMMETRIC);
    });
  for (size_t number = 0; number < 4; ++number)
    callers.run(fullStep(number, here.size));
  Step repeated = fullStep(3, here.size);
  callers.start(repeated);
  here.synchronize();
  const int64_t before = standInCopies();
  for (Caller &each : callers.all)
    each.call(repeated);
  here.synchronize();
  say("copies in windows: " + std::to_string(standInCopies() - before));
  Caller &last = callers.all.back();
  makeCurrent(last.rank.device);
  if (last.rank.number == here.size - 1)
    last.output.address = allocate(roomBytes);
  const Step mixed = fullStep(5, here.size);
  callers.start(mixed);
  callers.finish(mixed, false);
  callers.sayForwarded();
}

/// A group that is estimated alone changes nothing for the next one.
void checkEstimate(OwnRanks &here) {
  Callers callers(here);
  const Step step = fullStep(1, here.size);
  for (Caller &each : callers.all)
    each.prepare(step);
  ncclSimInfo_t information = NCCL_SIM_INFO_INITIALIZER;
  NCCL(ncclGroupStart());
  for (Caller &each : callers.all)
    each.callAll(step);
  NCCL(ncclGroupSimulateEnd(&information));
  callers.finish(step, false);
  callers.run(fullStep(2, here.size));
  callers.sayForwarded();
}

/// Blocks of more than half of what internal memory has for two of them.
void checkLargeBlocks(OwnRanks &here) {
  Rank &rank = here.ranks[0];
  constexpr size_t numBytes = (size_t(32) << 20) + 1;
  const int other = 1 - rank.number;
  unsigned char *input = allocate(numBytes), *output = allocate(numBytes);
  NCCL(ncclGroupStart());
  NCCL(ncclSend(input, numBytes, ncclInt8, other, rank.comm, rank.stream));
  NCCL(ncclRecv(output, numBytes, ncclInt8, other, rank.comm, rank.stream));
  NCCL(ncclGroupEnd());
}

constexpr struct {
  const char *name;
  void (*change)(Caller &, const Step &);
} apart[] = {{"twice", callTwice},
             {"collective", callWithCollective},
             {"streams", callOnStreams},
             {"elsewhere", callFromElsewhere},
             {"overlapping", callOverlapping},
             {"one place", callAtOnePlace}};

constexpr struct {
  const char *name;
  void (*run)(OwnRanks &);
} groupChecks[] = {{"random", checkRandom},         {"vector", checkVector},
                   {"hasty", checkHasty},           {"late", checkLateGroup},
                   {"estimate", checkEstimate},     {"large", checkLargeBlocks},
                   {"capture", checkCapturedGroup}, {"communicators", checkTwoCommunicators},
                   {"windows", checkGroupInWindows}};

} // namespace

bool runGroups(OwnRanks &here, const std::string &name) {
  for (const auto &each : groupChecks)
    if (name == each.name)
      return each.run(here), true;
  for (const auto &each : apart)
    if (name == each.name)
      return runApart(here, each.change), true;
  if (!runGroupsThatEnd(here, name))
    wrong("no case 'groups, " + name + "'");
  return false;
}
