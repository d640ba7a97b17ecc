/* Small collectives, called one after the other: `small [ROUNDS]`. Each line is a function, the bytes of a block, and
 * the time of a call on rank 0 in microseconds: median, least and most of the rounds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { calls = 3000, mostElements = 2048 };

static int rank, size;
static double *given, *taken;

static void barrier(int count, int call) {
  (void)count;
  (void)call;
  MPI_Barrier(MPI_COMM_WORLD);
}
static void broadcast(int count, int call) {
  (void)call;
  MPI_Bcast(given, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}
static void broadcastInTurns(int count, int call) { MPI_Bcast(given, count, MPI_DOUBLE, call % size, MPI_COMM_WORLD); }
static void reduce(int count, int call) {
  (void)call;
  MPI_Reduce(given, taken, count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void gather(int count, int call) {
  (void)call;
  MPI_Gather(given, count, MPI_DOUBLE, taken, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}
static void scatter(int count, int call) {
  (void)call;
  MPI_Scatter(given, count, MPI_DOUBLE, taken, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}
static void scan(int count, int call) {
  (void)call;
  MPI_Scan(given, taken, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void allReduce(int count, int call) {
  (void)call;
  MPI_Allreduce(given, taken, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void allGather(int count, int call) {
  (void)call;
  MPI_Allgather(given, count, MPI_DOUBLE, taken, count, MPI_DOUBLE, MPI_COMM_WORLD);
}
static void allToAll(int count, int call) {
  (void)call;
  MPI_Alltoall(given, count, MPI_DOUBLE, taken, count, MPI_DOUBLE, MPI_COMM_WORLD);
}

static const struct {
  const char *name;
  void (*call)(int count, int call);
} functions[] = {
    {"MPI_Barrier", barrier},  {"MPI_Bcast", broadcast},     {"MPI_Bcast, roots in turn", broadcastInTurns},
    {"MPI_Reduce", reduce},    {"MPI_Gather", gather},       {"MPI_Scatter", scatter},
    {"MPI_Scan", scan},        {"MPI_Allreduce", allReduce}, {"MPI_Allgather", allGather},
    {"MPI_Alltoall", allToAll}};

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

static double timeOf(void (*call)(int, int), int count) {
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  for (int number = 0; number < calls; ++number)
    call(count, number);
  MPI_Barrier(MPI_COMM_WORLD);
  return (MPI_Wtime() - begin) * 1e6 / calls;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 1 ? atoi(argv[1]) : 9;
  if (rounds < 1) {
    fprintf(stderr, "small: '%s' is no number of rounds\n", argv[1]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  given = calloc((size_t)size * mostElements, sizeof(double));
  taken = calloc((size_t)size * mostElements, sizeof(double));
  double *times = malloc((size_t)rounds * sizeof(double));
  for (size_t function = 0; function < sizeof(functions) / sizeof(functions[0]); ++function)
    for (int count = 1; count <= (functions[function].call == barrier ? 1 : mostElements);
         count *= count == 1 ? 16 : 8) {
      (void)timeOf(functions[function].call, count);
      for (int round = 0; round < rounds; ++round)
        times[round] = timeOf(functions[function].call, count);
      qsort(times, (size_t)rounds, sizeof(double), compare);
      if (rank == 0)
        printf("%-26s %6zu %8.2f [%.2f to %.2f]\n", functions[function].name, (size_t)count * sizeof(double),
               times[rounds / 2], times[0], times[rounds - 1]);
    }
  free(times);
  free(taken);
  free(given);
  MPI_Finalize();
  return 0;
}
