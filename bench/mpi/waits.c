/* What it costs that a rank waits in a collective: `waits [ROUNDS]`, 2 to 8 ranks. Each line is a median of rank 0, in
 * microseconds, but for `compute`, which is in milliseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int rank, size, rounds = 300;
static double *taken;

static double now(void) { return MPI_Wtime() * 1e6; }

static void compute(double us) {
  for (double end = now() + us; now() < end;)
    ;
}

/* Work of a fixed amount, however long it takes. */
static double work(long steps) {
  volatile double x = 1;
  for (long i = 0; i < steps; ++i)
    x = x * 1.0000001 + 1e-9;
  return x;
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

static void report(const char *what, int number, double unit) {
  qsort(taken, (size_t)number, sizeof(double), compare);
  if (rank == 0)
    printf("%-34s %8.1f (10%% %.1f, 90%% %.1f)\n", what, taken[number / 2] / unit, taken[number / 10] / unit,
           taken[number * 9 / 10] / unit);
}

/* Rank 0 sends to the last rank, which waits in a barrier since `early` us. */
static void ssend(double early, const char *what) {
  int word = 0, last = size - 1;
  for (int i = 0; i < rounds; ++i) {
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == last)
      MPI_Irecv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
    if (rank == 0) {
      compute(early);
      double start = now();
      MPI_Ssend(&word, 1, MPI_INT, last, 1, MPI_COMM_WORLD);
      taken[i] = now() - start;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == last)
      MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  report(what, rounds, 1);
}

/* Rank 0 locks, adds to and unlocks a window of the last rank, which waits in a barrier. */
static void passive(void) {
  double *memory, one = 1;
  MPI_Win window;
  MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  int number = rounds / 3;
  for (int i = 0; i < number; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      double start = now();
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, size - 1, 0, window);
      MPI_Accumulate(&one, 1, MPI_DOUBLE, size - 1, 0, 1, MPI_DOUBLE, MPI_SUM, window);
      MPI_Win_unlock(size - 1, window);
      taken[i] = now() - start;
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Win_free(&window);
  report("lock, accumulate, unlock", number, 1);
}

/* A call of 8 bytes that all ranks make one after the other. */
static void small(void) {
  double in = rank, out;
  for (int i = 0; i < rounds; ++i) {
    double start = now();
    for (int j = 0; j < 20; ++j)
      MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    taken[i] = (now() - start) / 20;
  }
  report("all-reduce of 8 bytes", rounds, 1);
}

/* All ranks work 100 us between calls of 8 bytes. */
static void mixed(void) {
  double in = rank, out;
  for (int i = 0; i < rounds; ++i) {
    double start = now();
    for (int j = 0; j < 5; ++j) {
      work(50000 + 10000 * ((rank + j) % size));
      MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    taken[i] = (now() - start) / 5;
  }
  report("work, then all-reduce of 8 bytes", rounds, 1);
}

/* Rank 0 works while all others wait. */
static void alone(void) {
  int number = rounds / 30 + 1;
  for (int i = 0; i < number; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      double start = now();
      work(20000000);
      taken[i] = now() - start;
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  report("compute while the others wait, ms", number, 1000);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1)
    rounds = atoi(argv[1]);
  taken = calloc((size_t)rounds, sizeof(double));
  for (int i = 0; i < 8; ++i)
    MPI_Barrier(MPI_COMM_WORLD);
  ssend(20, "Ssend to a rank in a barrier");
  ssend(2000, "the same, waiting for 2 ms");
  passive();
  small();
  mixed();
  alone();
  free(taken);
  return MPI_Finalize();
}
