// One MPI library as a compared system. The same source for every library.
#include "Harness.h"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

using namespace kolo::bench;

namespace {

void require(int code, const char *what) {
  if (code != MPI_SUCCESS)
    throw Failure(std::string(what) + " returned " + std::to_string(code));
}

class MpiSystem : public System {
public:
  explicit MpiSystem(Pages kind) : pages(kind) {}

  void *allocate(size_t sizeBytes) override { return allocatePages(sizeBytes, pages); }

  void run(const Cell &cell, const float *input, float *output) override {
    auto count = static_cast<int>(cell.count);
    if (cell.tables)
      return runTabled(cell, *cell.tables, input, output);
    switch (cell.collective) {
    case Collective::AllReduce:
      return require(MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    case Collective::AllGather:
      return require(MPI_Allgather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, MPI_COMM_WORLD), "MPI_Allgather");
    case Collective::ReduceScatter:
      return require(MPI_Reduce_scatter_block(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
                     "MPI_Reduce_scatter_block");
    case Collective::AllToAll:
      return require(MPI_Alltoall(input, count, MPI_FLOAT, output, count, MPI_FLOAT, MPI_COMM_WORLD), "MPI_Alltoall");
    case Collective::Broadcast:
      return require(MPI_Bcast(output, count, MPI_FLOAT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    }
  }

private:
  static void runTabled(const Cell &cell, const Tables &tables, const float *input, float *output) {
    const int *inputCounts = tables.inputCounts.data(), *inputPlaces = tables.inputPlaces.data(),
              *outputCounts = tables.outputCounts.data(), *outputPlaces = tables.outputPlaces.data();
    if (cell.collective == Collective::AllGather)
      return require(
          MPI_Allgatherv(input, *inputCounts, MPI_FLOAT, output, outputCounts, outputPlaces, MPI_FLOAT, MPI_COMM_WORLD),
          "MPI_Allgatherv");
    if (cell.collective == Collective::ReduceScatter)
      return require(MPI_Reduce_scatter(input, output, inputCounts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
                     "MPI_Reduce_scatter");
    return require(MPI_Alltoallv(input, inputCounts, inputPlaces, MPI_FLOAT, output, outputCounts, outputPlaces,
                                 MPI_FLOAT, MPI_COMM_WORLD),
                   "MPI_Alltoallv");
  }

  Pages pages;
};

/// Rank 0 makes the board, the others open it through rank 0's descriptor. Ranks on several hosts open a file.
BoardMemory *shareBoard(int rank, const std::string &file) {
  if (!file.empty()) {
    int fd = openBoardFile(file);
    BoardMemory *memory = fd < 0 ? nullptr : mapBoard(fd);
    return memory ? memory : throw Failure("cannot map the board " + file);
  }
  int address[2] = {static_cast<int>(getpid()), rank == 0 ? createBoardFile() : -1};
  require(MPI_Bcast(address, 2, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  std::string path = "/proc/" + std::to_string(address[0]) + "/fd/" + std::to_string(address[1]);
  int fd = rank == 0 ? address[1] : open(path.c_str(), O_RDWR);
  BoardMemory *memory = fd < 0 ? nullptr : mapBoard(fd);
  if (!memory)
    throw Failure("cannot map the board");
  require(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); // rank 0 outlives the opening
  return memory;
}

int runRank(int argc, char **argv) {
  (void)numCores(); // before the launcher's library or anything else moves this thread
  require(MPI_Init(&argc, &argv), "MPI_Init");
  HarnessOptions options = parseOptions(argc, argv);
  int rank = 0, numRanks = 0;
  require(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  require(MPI_Comm_size(MPI_COMM_WORLD, &numRanks), "MPI_Comm_size");
  if (numRanks > maxRanks)
    throw Failure("too many ranks");
  Board board(shareBoard(rank, options.boardPath), rank, numRanks);
  if (options.isPinned)
    pinToCore(rank);
  MpiSystem system(options.pages);
  int status = serve(system, board, options);
  if (status == 0)
    MPI_Finalize();
  return status;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return runRank(argc, argv);
  } catch (const Failure &failure) {
    std::printf("failed %s\n", failure.what());
    return 1;
  }
}
