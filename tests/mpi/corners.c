/* MPI programs at the edges of what a door may do: `corners CASE`. Each checks its results. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void check(int holds, const char *what) {
  if (holds)
    return;
  printf("rank %d: wrong: %s\n", rank, what);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 7);
}

static void sums(MPI_Comm comm, int times) {
  int members = 0, one = 1;
  MPI_Comm_size(comm, &members);
  for (int i = 0; i < times; ++i) {
    int sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    check(sum == members, "sum");
    MPI_Barrier(comm);
  }
}

/* The ranks of each half, and all. */
static void halves(void) {
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &half);
  sums(half, 20);
  sums(MPI_COMM_WORLD, 20);
  MPI_Comm_free(&half);
}

/* A communicator of the program's processes and of those that it starts. */
static void spawned(void) {
  MPI_Comm parent, children, both;
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    char self[4096] = {0};
    FILE *file = fopen("/proc/self/cmdline", "r");
    check(file && fread(self, 1, sizeof(self) - 1, file) > 0, "name");
    fclose(file);
    char *arguments[] = {"spawned", NULL};
    MPI_Comm_spawn(self, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(children, 0, &both);
  } else
    MPI_Intercomm_merge(parent, 1, &both);
  sums(both, 20);
  sums(MPI_COMM_WORLD, 20);
  MPI_Comm_free(&both);
  if (parent == MPI_COMM_NULL)
    MPI_Comm_disconnect(&children);
  else
    MPI_Comm_disconnect(&parent);
}

static int sumInCallback(MPI_Comm comm, int key, void *value, void *extra) {
  (void)comm, (void)key, (void)extra;
  sums(MPI_COMM_WORLD, 10);
  if (value)
    sums(*(MPI_Comm *)value, 10);
  return MPI_SUCCESS;
}

/* MPI_Finalize calls back first. Ranks registered before and after their first collectives, and the callback uses
 * collectives: of a communicator in use, and of one that had too few calls to be carried. */
static void finalize(void) {
  static MPI_Comm other;
  int key;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, sumInCallback, &key, NULL);
  if (rank % 2)
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &other);
  sums(MPI_COMM_WORLD, 1);
  sums(other, 1);
  if (rank % 4 == 2)
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &other);
  sums(MPI_COMM_WORLD, 10);
  if (rank % 4 == 0)
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &other);
}

int main(int argc, char **argv) {
  const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"halves", halves}, {"spawned", spawned}, {"finalize", finalize}, {"past", halves}};
  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "past") == 0)
    PMPI_Init(&argc, &argv);
  else
    MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
    if (strcmp(name, cases[i].name) == 0)
      cases[i].run();
  MPI_Finalize();
  return 0;
}
