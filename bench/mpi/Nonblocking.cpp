// Non-blocking collectives: the MPI library's own beside what Kolo does or could do, in turns. A call is started and
// completed at once, or completed after work that takes about as long as the library's call.
//
//   library     PMPI_Iallreduce and its like, then PMPI_Wait; "tested": PMPI_Test until it is complete
//   door        for barriers, the same by MPI_Ibarrier. Preload the door; without it, this is the library again
//   begun       for barriers, Communicator::beginBarrier, then finishBarrier
//   blocking    Communicator::run, or barrier, at once: what overlaps nothing
//   queue       Queue::enqueue, then Request::wait: a thread that begins a call within a millisecond
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "kolo/runtime/Door.h"
#include "kolo/runtime/Queue.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace kolo::runtime;

namespace {

int rank = 0, size = 1;
const std::thread::id mainThread = std::this_thread::get_id();

[[noreturn]] void giveUp(const std::string &why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  PMPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}
void check(const Status &status) {
  if (!status.isOk())
    giveUp(status.message());
}

Communicator connect() {
  CommunicatorOptions options;
  options.progress = [] { // MPI is initialised for one thread
    int isThere = 0;
    if (std::this_thread::get_id() == mainThread)
      PMPI_Iprobe(MPI_ANY_SOURCE, 32767, MPI_COMM_WORLD, &isThere, MPI_STATUS_IGNORE);
  };
  auto exchange = [](const void *own, size_t sizeBytes, void *all) -> Status {
    auto count = static_cast<int>(sizeBytes);
    PMPI_Allgather(own, count, MPI_BYTE, all, count, MPI_BYTE, MPI_COMM_WORLD);
    return {};
  };
  Result<Communicator> made = Communicator::create(rank, size, exchange, options);
  if (!made.isOk())
    giveUp(made.status().message());
  return std::move(made).value();
}

/// Work of a fixed amount, however long it takes.
double work(int64_t steps) {
  volatile double x = 1;
  for (int64_t i = 0; i < steps; ++i)
    x = x * 1.0000001 + 1e-9;
  return x;
}

/// A way to make the call: starts it, and returns what completes it.
struct MeasuredWay {
  const char *name;
  std::function<void()> start, complete;
};

struct MeasuredKind {
  const char *name;
  CollectiveKind kind;
};
constexpr MeasuredKind kinds[] = {{"all-reduce", CollectiveKind::AllReduce},
                                  {"broadcast", CollectiveKind::Broadcast},
                                  {"all-to-all", CollectiveKind::AllToAll},
                                  {"all-gather", CollectiveKind::AllGather}};

/// The time that a quarter of the rounds do not exceed: other programs lengthen the others.
double lowerQuartile(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4), times.end());
  return times[times.size() / 4];
}

/// Microseconds of the slowest rank.
double once(const MeasuredWay &system, int64_t steps) {
  PMPI_Barrier(MPI_COMM_WORLD);
  const double begin = PMPI_Wtime();
  system.start();
  if (steps > 0)
    (void)work(steps);
  system.complete();
  double own = (PMPI_Wtime() - begin) * 1e6, slowest = 0;
  PMPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

/// The lower quartile of each system, which take turns.
std::vector<double> measure(const std::vector<MeasuredWay> &systems, int64_t steps, int rounds) {
  std::vector<std::vector<double>> times(systems.size());
  for (int round = -2; round < rounds; ++round)
    for (size_t i = 0; i < systems.size(); ++i)
      if (double time = once(systems[i], steps); round >= 0)
        times[i].push_back(time);
  std::vector<double> quartiles;
  for (std::vector<double> &each : times)
    quartiles.push_back(lowerQuartile(std::move(each)));
  return quartiles;
}

void compare(const std::string &what, const std::vector<MeasuredWay> &systems, int rounds) {
  const std::vector<double> atOnce = measure(systems, 0, rounds);
  // As much work as one rank does in the time of the library's call. Its speed is the best of some looks.
  constexpr int64_t steps = 20000;
  double us = 1e9;
  for (int i = 0; i < 20; ++i) {
    const double begin = PMPI_Wtime();
    (void)work(steps);
    us = std::min(us, (PMPI_Wtime() - begin) * 1e6);
  }
  auto wanted = static_cast<int64_t>(double(steps) * atOnce[0] / us);
  PMPI_Bcast(&wanted, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  wanted = std::max<int64_t>(wanted, 1);
  const MeasuredWay nothing = {"nothing", [] {}, [] {}};
  const double alone = measure({nothing}, wanted, rounds)[0];
  const std::vector<double> beside = measure(systems, wanted, rounds);
  if (rank != 0)
    return;
  for (size_t i = 0; i < systems.size(); ++i)
    std::printf("| %s | %s | %.1f | %.1f | %.1f | %.0f %% |\n", what.c_str(), systems[i].name, atOnce[i], alone,
                beside[i], 100 * std::clamp((atOnce[i] + alone - beside[i]) / std::min(atOnce[i], alone), -9.0, 1.0));
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  const int most = argc > 1 ? std::atoi(argv[1]) : 200;
  Result<Door> door = Door::open("bench");
  if (!door.isOk())
    giveUp(door.status().message());
  Communicator direct = connect();
  Queue queue(connect());
  if (rank == 0)
    std::printf("%d ranks, lower quartiles of the slowest rank in us\n\n"
                "| call | how | at once | the work alone | both | overlap |\n|---|---|---|---|---|---|\n",
                size);
  MPI_Request request = MPI_REQUEST_NULL;
  auto start = [&] { PMPI_Ibarrier(MPI_COMM_WORLD, &request); };
  auto wait = [&] { PMPI_Wait(&request, MPI_STATUS_IGNORE); };
  auto test = [&] {
    for (int isDone = 0; !isDone;)
      PMPI_Test(&request, &isDone, MPI_STATUS_IGNORE);
  };
  auto startByDoor = [&] { MPI_Ibarrier(MPI_COMM_WORLD, &request); };
  auto testByDoor = [&] {
    for (int isDone = 0; !isDone;)
      MPI_Test(&request, &isDone, MPI_STATUS_IGNORE);
  };
  for (int i = 0; i < 8; ++i) // with KOLO_MPI_CARRY_FROM=4, the door carries then
    MPI_Barrier(MPI_COMM_WORLD);
  uint64_t begun = 0;
  std::unique_ptr<Request> queued;
  compare("barrier",
          {{"library", start, wait},
           {"door", startByDoor, [&] { MPI_Wait(&request, MPI_STATUS_IGNORE); }},
           {"library, tested", start, test},
           {"door, tested", startByDoor, testByDoor},
           {"begun", [&] { begun = *direct.beginBarrier(); }, [&] { check(direct.finishBarrier(begun)); }},
           {"blocking", [&] { check(direct.barrier()); }, [] {}},
           {"queue",
            [&] { queued = std::make_unique<Request>(queue.enqueue([](Communicator &own) { return own.barrier(); })); },
            [&] { check(queued->wait()); }}},
          most);
  for (const MeasuredKind &kind : kinds)
    for (int bytes : {8, 65536, 4 << 20}) {
      // Of the larger buffer; at least an element for each rank.
      const bool isCut = kind.kind == CollectiveKind::AllToAll || kind.kind == CollectiveKind::AllGather;
      const int elements = std::max(bytes / 8, isCut ? size : 1), block = isCut ? elements / size : elements;
      std::vector<double> in(static_cast<size_t>(elements), rank + 1), out(in.size());
      CallArguments arguments{"", *Mesh::create({{"rank", size}}), block, DataType::F64};
      arguments.collective = kind.kind;
      arguments.input = in.data();
      arguments.output = kind.kind == CollectiveKind::Broadcast ? in.data() : out.data();
      std::string why;
      const Plugin *plugin = door->find(direct, arguments, why);
      if (!plugin)
        giveUp(why);
      auto startData = [&] {
        switch (kind.kind) {
        case CollectiveKind::AllReduce:
          PMPI_Iallreduce(in.data(), out.data(), block, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
          break;
        case CollectiveKind::Broadcast:
          PMPI_Ibcast(in.data(), block, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request);
          break;
        case CollectiveKind::AllToAll:
          PMPI_Ialltoall(in.data(), block, MPI_DOUBLE, out.data(), block, MPI_DOUBLE, MPI_COMM_WORLD, &request);
          break;
        default:
          PMPI_Iallgather(in.data(), block, MPI_DOUBLE, out.data(), block, MPI_DOUBLE, MPI_COMM_WORLD, &request);
        }
      };
      auto run = [&, plugin](Communicator &own) { return own.run(*plugin, arguments); };
      compare(
          std::string(kind.name) + ", " + std::to_string(bytes) + " B",
          {{"library", startData, wait},
           {"blocking", [&] { check(run(direct)); }, [] {}},
           {"queue", [&] { queued = std::make_unique<Request>(queue.enqueue(run)); }, [&] { check(queued->wait()); }}},
          bytes > 1 << 20 ? most / 4 + 1 : most);
    }
  MPI_Finalize();
}
