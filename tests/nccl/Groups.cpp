// Groups of sends and receives: those that are an all-to-all with counts of its own, and those that are none.
#include "Client.h"

#include <numeric>

extern "C" int64_t standInCopies();

namespace {

using Counts = std::vector<std::vector<size_t>>; // by sender and receiver, in elements
constexpr size_t absent = SIZE_MAX;              // neither of the two calls

struct Type {
  ncclDataType_t type;
  size_t numBytes;
};
constexpr Type types[] = {{ncclInt8, 1},    {ncclUint8, 1},    {ncclInt32, 4},      {ncclUint32, 4},
                          {ncclInt64, 8},   {ncclUint64, 8},   {ncclFloat16, 2},    {ncclFloat32, 4},
                          {ncclFloat64, 8}, {ncclBfloat16, 2}, {ncclFloat8e4m3, 1}, {ncclFloat8e5m2, 1}};

constexpr unsigned char poison = 0xEE;
constexpr size_t roomBytes = size_t(1) << 18;

unsigned char byteOf(int sender, int receiver, size_t step, size_t i) {
  return static_cast<unsigned char>(sender * 31 + receiver * 7 + static_cast<int>(step) * 13 +
                                    static_cast<int>(i * 3 + i / 251));
}

/// What a rank's memory holds, and where its blocks lie in it.
struct Memory {
  unsigned char *address = nullptr;
  std::vector<size_t> places; // in bytes, by peer

  /// Blocks in any order with gaps between them, at multiples of the type's size.
  void place(const std::vector<size_t> &numBytes, size_t unit, std::minstd_rand &random) {
    std::vector<size_t> order(numBytes.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::ranges::shuffle(order, random);
    places.assign(numBytes.size(), 0);
    size_t next = random() % 5 * unit;
    for (size_t peer : order) {
      places[peer] = next;
      next += numBytes[peer] + random() % 3 * unit;
    }
  }
};

unsigned char *allocate(size_t numBytes) {
  CUdeviceptr memory = 0;
  CUDA(cuMemAlloc(&memory, numBytes));
  return reinterpret_cast<unsigned char *>(memory);
}

/// A step of all ranks: one group of each, unless it is split.
struct Step {
  size_t number = 0;
  Counts counts;
  Type type = types[0];
  bool isSplit = false; // the last rank has a group for each peer

  int size() const { return static_cast<int>(counts.size()); }
  size_t bytesOf(int sender, int receiver) const {
    const size_t count = counts[static_cast<size_t>(sender)][static_cast<size_t>(receiver)];
    return count == absent ? 0 : count * type.numBytes;
  }
  bool has(int sender, int receiver) const {
    return counts[static_cast<size_t>(sender)][static_cast<size_t>(receiver)] != absent;
  }
  /// By the rule of docs/loading.md.
  bool isCarried() const {
    for (int left = 0; left < size(); ++left)
      for (int right = 0; right < left; ++right)
        if (isSplit || !(size() == 2 ? has(left, right) && has(right, left) : has(left, right) || has(right, left)))
          return false;
    return true;
  }
  int64_t numTransfersOf(int rank) const {
    int64_t transfers = 0;
    for (int peer = 0; peer < size(); ++peer)
      transfers += has(rank, peer) + has(peer, rank);
    return transfers;
  }
};

/// The sends and receives of a rank, as PyTorch calls them.
struct Caller {
  Rank &rank;
  Memory input{allocate(roomBytes), {}}, output{allocate(roomBytes), {}};
  int64_t numForwarded = 0;

  void prepare(const Step &step) {
    std::minstd_rand random(static_cast<unsigned>(step.number * 97 + static_cast<size_t>(rank.number) + 1));
    std::vector<size_t> sent, received;
    for (int peer = 0; peer < step.size(); ++peer) {
      sent.push_back(step.bytesOf(rank.number, peer));
      received.push_back(step.bytesOf(peer, rank.number));
    }
    input.place(sent, step.type.numBytes, random);
    output.place(received, step.type.numBytes, random);
    std::vector<unsigned char> content(roomBytes, poison);
    copy(output.address, content.data());
    for (int peer = 0; peer < step.size(); ++peer)
      for (size_t i = 0; i < sent[static_cast<size_t>(peer)]; ++i)
        content[input.places[static_cast<size_t>(peer)] + i] = byteOf(rank.number, peer, step.number, i);
    copy(input.address, content.data());
  }
  void copy(void *to, const void *from) const {
    makeCurrent(rank.device);
    CUDA(cuMemcpy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), roomBytes));
  }
  void callPeer(const Step &step, int peer) const {
    const auto at = static_cast<size_t>(peer), self = static_cast<size_t>(rank.number);
    if (step.has(rank.number, peer))
      NCCL(ncclSend(input.address + input.places[at], step.counts[self][at], step.type.type, peer, rank.comm,
                    rank.stream));
    if (step.has(peer, rank.number))
      NCCL(ncclRecv(output.address + output.places[at], step.counts[at][self], step.type.type, peer, rank.comm,
                    rank.stream));
  }
  void call(const Step &step) const {
    makeCurrent(rank.device);
    NCCL(ncclGroupStart());
    for (int peer = 0; peer < step.size(); ++peer) {
      if (step.isSplit && rank.number == step.size() - 1 && peer > 0) {
        NCCL(ncclGroupEnd());
        NCCL(ncclGroupStart());
      }
      callPeer(step, peer);
    }
    NCCL(ncclGroupEnd());
  }
  /// Whether anything has come here.
  bool hasReceived() const {
    std::vector<unsigned char> found(roomBytes);
    copy(found.data(), output.address);
    return std::ranges::any_of(found, [](unsigned char byte) { return byte != poison; });
  }
  /// What the stand-in gets moves no data.
  void check(const Step &step, bool isCarried) {
    std::vector<unsigned char> right(roomBytes, poison), found(roomBytes);
    for (int peer = 0; isCarried && peer < step.size(); ++peer)
      for (size_t i = 0; i < step.bytesOf(peer, rank.number); ++i)
        right[output.places[static_cast<size_t>(peer)] + i] = byteOf(peer, rank.number, step.number, i);
    copy(found.data(), output.address);
    if (auto differ = std::ranges::mismatch(found, right); differ.in1 != found.end())
      wrong("step " + std::to_string(step.number) + ": rank " + std::to_string(rank.number) + " has " +
            std::to_string(*differ.in1) + " at " + std::to_string(differ.in1 - found.begin()) + ", not " +
            std::to_string(*differ.in2));
    if (!isCarried)
      numForwarded += step.numTransfersOf(rank.number);
  }
};

struct Callers {
  OwnRanks &here;
  std::vector<Caller> all;

  explicit Callers(OwnRanks &ranks) : here(ranks) {
    for (Rank &rank : here.ranks) {
      makeCurrent(rank.device);
      all.push_back(Caller{rank});
    }
  }
  void start(const Step &step) {
    for (Caller &each : all)
      each.prepare(step);
    if (all.size() > 1)
      NCCL(ncclGroupStart());
    for (Caller &each : all)
      each.call(step);
    if (all.size() > 1)
      NCCL(ncclGroupEnd());
  }
  void finish(const Step &step, bool isCarried) {
    here.synchronize();
    for (Caller &each : all)
      each.check(step, isCarried);
  }
  void run(const Step &step) {
    start(step);
    finish(step, step.isCarried());
  }
  /// For the test, which compares it with what came to the stand-in.
  void sayForwarded() const {
    for (const Caller &each : all)
      say("expected " + std::to_string(each.numForwarded));
  }
};

Counts makeCounts(int size, size_t count) {
  return {static_cast<size_t>(size), std::vector<size_t>(static_cast<size_t>(size), count)};
}

/// Uniform, skewed, sparse, one huge block, or none at all.
Counts randomCounts(int size, std::minstd_rand &random, size_t unit) {
  Counts counts = makeCounts(size, 0);
  const size_t most = roomBytes / unit / static_cast<size_t>(size) / 4;
  const unsigned kind = random() % 5;
  const size_t uniform = random() % most + 1;
  const size_t hugeFrom = random() % counts.size(), hugeTo = random() % counts.size();
  for (size_t from = 0; from < counts.size(); ++from)
    for (size_t to = 0; to < counts.size(); ++to) {
      const size_t skewed = most / ((to + 1) * (to + 1)) / (1 + random() % 3);
      const size_t sparse = random() % 4 == 0 ? random() % 100 : 0;
      const size_t huge = from == hugeFrom && to == hugeTo ? roomBytes / unit / 2 : random() % 3;
      counts[from][to] = std::array<size_t, 5>{uniform, skewed, sparse, huge, 0}[kind];
    }
  return counts;
}

/// Leaves out what is not between neighbours, or not from or to rank `root`.
void thin(Counts &counts, unsigned pattern, size_t root) {
  const size_t size = counts.size();
  for (size_t from = 0; from < size; ++from)
    for (size_t to = 0; to < size; ++to)
      if (pattern == 0 ? (from + 1) % size != to : pattern == 1 ? from != root : to != root)
        counts[from][to] = absent;
}

/// `maySplit`: no rank calls for another one in its groups. Two ranks that split have one group of both, and one of
/// one.
Step randomStep(size_t number, int size, bool maySplit) {
  std::minstd_rand random(static_cast<unsigned>(number * 7919 + 11));
  random.discard(5);
  Step step;
  step.number = number;
  step.type = types[number % std::size(types)];
  step.counts = randomCounts(size, random, step.type.numBytes);
  const unsigned pattern = random() % 10;
  if (pattern < 3) {
    thin(step.counts, pattern, random() % step.counts.size());
  } else if (pattern < 6) { // blocks without data are left out
    for (std::vector<size_t> &row : step.counts)
      std::ranges::replace(row, size_t(0), absent);
  }
  step.isSplit = pattern == 6 && maySplit && size > 2;
  return step;
}

int numSteps() {
  const char *text = std::getenv("KOLO_TEST_STEPS");
  return text ? std::atoi(text) : 24;
}

void checkRandom(OwnRanks &here) {
  Callers callers(here);
  size_t numCarried = 0;
  for (int number = 0; number < numSteps(); ++number) {
    const Step step = randomStep(static_cast<size_t>(number), here.size, here.ranks.size() == 1);
    std::minstd_rand random(static_cast<unsigned>(number * 131 + here.ranks[0].number + 3));
    random.discard(5);
    if (random() % 4 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    callers.run(step);
    numCarried += step.isCarried();
  }
  say("carried " + std::to_string(numCarried));
  callers.sayForwarded();
}

Step fullStep(size_t number, int size) {
  Step step;
  step.number = number;
  step.counts = makeCounts(size, 0);
  for (size_t from = 0; from < step.counts.size(); ++from)
    for (size_t to = 0; to < step.counts.size(); ++to)
      step.counts[from][to] = 100 + 10 * from + to;
  return step;
}

/// Begins a group whose calls are those of a full step, but for what `change` makes of it, and ends it.
void runApart(OwnRanks &here, const std::function<void(Caller &, const Step &)> &change) {
  Callers callers(here);
  const Step step = fullStep(1, here.size);
  for (Caller &each : callers.all)
    each.prepare(step);
  NCCL(ncclGroupStart());
  for (Caller &each : callers.all) {
    makeCurrent(each.rank.device);
    change(each, step);
  }
  NCCL(ncclGroupEnd());
  callers.finish(step, false);
  callers.run(fullStep(2, here.size)); // the next one is carried again
}

void callAll(const Caller &caller, const Step &step) {
  for (int peer = 0; peer < step.size(); ++peer)
    caller.callPeer(step, peer);
}

void callTwice(Caller &caller, const Step &step) {
  callAll(caller, step);
  const int next = (caller.rank.number + 1) % step.size(), last = (caller.rank.number + step.size() - 1) % step.size();
  NCCL(ncclSend(caller.input.address, 1, ncclInt8, next, caller.rank.comm, caller.rank.stream));
  NCCL(ncclRecv(caller.output.address, 1, ncclInt8, last, caller.rank.comm, caller.rank.stream));
}

void callWithCollective(Caller &caller, const Step &step) {
  callAll(caller, step);
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
    return callAll(caller, rest);
  }
  callAll(caller, step);
}

/// The second block is received where the first one is.
void callOverlapping(Caller &caller, const Step &step) {
  Memory kept = caller.output;
  caller.output.places[1] = caller.output.places[0] + 1;
  callAll(caller, step);
  caller.output = kept;
}

void callAtOnePlace(Caller &caller, const Step &step) {
  Memory kept = caller.output;
  caller.output.address = caller.input.address + 1;
  callAll(caller, step);
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

/// The last rank receives one element less from rank 0 than that rank sends.
void checkOtherCount(OwnRanks &here) {
  Callers callers(here);
  Step step = fullStep(1, here.size);
  for (Caller &each : callers.all)
    each.prepare(step);
  Rank &rank = here.ranks[0];
  step.counts[0][static_cast<size_t>(here.size - 1)] -= rank.number == here.size - 1;
  NCCL(ncclGroupStart());
  callAll(callers.all[0], step);
  ncclResult_t code = ncclGroupEnd();
  while (code == ncclSuccess) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    NCCL(ncclCommGetAsyncError(rank.comm, &code));
  }
  say("rank " + std::to_string(rank.number) + ": " + std::to_string(code) + " " + ncclGetLastError(rank.comm));
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

/// Rank 0 waits for the others, which do not come, until another thread aborts its communicator.
void abortWaitingGroup(OwnRanks &here) {
  Rank &rank = here.ranks[0];
  Callers callers(here);
  if (rank.number != 0)
    return std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    NCCL(ncclCommAbort(rank.comm));
  });
  const Step step = fullStep(1, here.size);
  callers.all[0].prepare(step);
  const auto begin = std::chrono::steady_clock::now();
  NCCL(ncclGroupStart());
  callAll(callers.all[0], step);
  ncclResult_t code = ncclGroupEnd();
  const auto took = std::chrono::steady_clock::now() - begin;
  say("rank 0: " + std::to_string(code) + " " + ncclGetLastError(nullptr));
  if (took > std::chrono::seconds(5))
    wrong("the wait did not end with the communicator");
  other.join();
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
    callAll(each, step);
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

/// The last rank is killed; the others give their group to NCCL when they have waited for it.
void endBeforeGroup(OwnRanks &here) {
  Callers callers(here);
  if (here.ranks.back().number == here.size - 1)
    raise(SIGKILL);
  const Step step = fullStep(1, here.size);
  callers.start(step);
  callers.finish(step, false);
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
} groupChecks[] = {{"random", checkRandom},
                   {"hasty", checkHasty},
                   {"late", checkLateGroup},
                   {"estimate", checkEstimate},
                   {"large", checkLargeBlocks},
                   {"capture", checkCapturedGroup},
                   {"communicators", checkTwoCommunicators},
                   {"windows", checkGroupInWindows}};

} // namespace

bool runGroups(OwnRanks &here, const std::string &name) {
  for (const auto &each : groupChecks)
    if (name == each.name)
      return each.run(here), true;
  for (const auto &each : apart)
    if (name == each.name)
      return runApart(here, each.change), true;
  if (name == "count")
    checkOtherCount(here);
  else if (name == "abort")
    abortWaitingGroup(here);
  else if (name == "death")
    endBeforeGroup(here);
  else
    wrong("no case 'groups, " + name + "'");
  return false;
}
