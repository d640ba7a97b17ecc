/* What the programs `NAME CASE` share: a check that ends the job, and the choice of the case. */
#pragma once

#include <mpi.h>

#include <stdio.h>
#include <string.h>

static int rank, size;

static void check(int holds, const char *what) {
  if (holds)
    return;
  printf("rank %d: wrong: %s\n", rank, what);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 7);
}

struct Case {
  const char *name;
  void (*run)(void);
};

/* Between MPI_Init and MPI_Finalize. */
static inline int runCase(int argc, char **argv, const struct Case *cases, size_t number) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (size_t i = 0; i < number; ++i)
    if (argc > 1 && strcmp(argv[1], cases[i].name) == 0)
      cases[i].run();
  MPI_Finalize();
  return 0;
}
