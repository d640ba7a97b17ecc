// What the door for MPI costs per call: MPI_Allreduce of one double beside Communicator::run of the same plugin, in
// turns. Preload the door; without it, the first column is the MPI library's own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "kolo/runtime/Door.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int rounds = 21, callsPerRound = 20000;

double nanosecondsPerCall(const std::function<void()> &call) {
  PMPI_Barrier(MPI_COMM_WORLD);
  double start = PMPI_Wtime();
  for (int i = 0; i < callsPerRound; ++i)
    call();
  return (PMPI_Wtime() - start) / callsPerRound * 1e9;
}

std::string summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  char text[64];
  std::snprintf(text, sizeof(text), "%.0f [%.0f-%.0f] ns", times[times.size() / 2], times.front(), times.back());
  return text;
}

int giveUp(const Status &status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  PMPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  auto exchange = [](const void *own, size_t sizeBytes, void *all) -> Status {
    auto count = static_cast<int>(sizeBytes);
    PMPI_Allgather(own, count, MPI_BYTE, all, count, MPI_BYTE, MPI_COMM_WORLD);
    return {};
  };
  CommunicatorOptions options;
  options.progress = [] {
    int isThere = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, 32767, MPI_COMM_WORLD, &isThere, MPI_STATUS_IGNORE);
  };
  Result<Communicator> communicator = Communicator::create(rank, size, exchange, options);
  if (!communicator.isOk())
    return giveUp(communicator.status());
  Result<Door> door = Door::open("bench");
  if (!door.isOk())
    return giveUp(door.status());
  double in = 1, out = 0;
  CallArguments arguments{"", *Mesh::create({{"rank", size}}), 1, DataType::F64};
  arguments.collective = CollectiveKind::AllReduce;
  arguments.input = &in;
  arguments.output = &out;
  Status status;
  auto runDirectly = [&] {
    if (status.isOk())
      status = communicator->run(door->plugins().front(), arguments);
  };
  auto callMpi = [&] { MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); };
  std::vector<double> throughMpi, direct;
  for (int round = 0; round < rounds; ++round) {
    throughMpi.push_back(nanosecondsPerCall(callMpi));
    direct.push_back(nanosecondsPerCall(runDirectly));
  }
  if (!status.isOk())
    return giveUp(status);
  if (rank == 0)
    std::printf("all-reduce of 8 bytes, %d ranks: MPI_Allreduce %s, Communicator::run %s\n", size,
                summary(throughMpi).c_str(), summary(direct).c_str());
  MPI_Finalize();
}
