/* MPI programs at the edges of what a door may do: `corners CASE`. Each checks its results. */
#include "checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Datatypes of absolute addresses, which MPI_BOTTOM goes with: every second element is part of a message. */
static void bottom(void) {
  enum { count = 40 };
  int *gapped = calloc(2 * count * (size_t)size, sizeof(int)), *dense = malloc(sizeof(int) * count * (size_t)size);
  MPI_Datatype every, absolute, block;
  MPI_Aint address;
  MPI_Get_address(gapped, &address);
  MPI_Type_vector(count, 1, 2, MPI_INT, &every);
  MPI_Type_create_resized(every, 0, 2 * count * (int)sizeof(int), &block);
  MPI_Type_create_hindexed_block(1, 1, &address, block, &absolute);
  MPI_Type_commit(&absolute);
#define FILL(EXPRESSION)                                                                                               \
  for (int i = 0; i < 2 * count * size; ++i)                                                                           \
  gapped[i] = (EXPRESSION)
  sums(MPI_COMM_WORLD, 4);
  for (int root = 0; root < size; ++root) {
    FILL(rank == root ? i : -1);
    MPI_Bcast(MPI_BOTTOM, 1, absolute, root, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * count; ++i)
      check(gapped[i] == (rank == root || i % 2 == 0 ? i : -1), "broadcast");
    FILL(rank * 1000 + i);
    MPI_Gather(MPI_BOTTOM, 1, absolute, dense, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < count * size; ++i)
      check(rank != root || dense[i] == i / count * 1000 + 2 * (i % count), "gather");
    if (rank == root)
      MPI_Scatter(dense, count, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root, MPI_COMM_WORLD);
    else
      MPI_Scatter(NULL, 0, MPI_INT, MPI_BOTTOM, 1, absolute, root, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * count; ++i)
      check(gapped[i] == rank * 1000 + i, "scatter");
  }
  FILL(-1);
  for (int i = 0; i < count; ++i)
    dense[i] = rank * 1000 + i;
  MPI_Allgather(dense, count, MPI_INT, MPI_BOTTOM, 1, absolute, MPI_COMM_WORLD);
  for (int i = 0; i < count * size; ++i)
    check(gapped[2 * i] == i / count * 1000 + i % count && gapped[2 * i + 1] == -1, "all-gather");
  MPI_Alltoall(MPI_BOTTOM, 1, absolute, dense, count, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < count * size; ++i)
    check(dense[i] == rank * 1000 + i % count, "all-to-all");
  MPI_Type_free(&every);
  MPI_Type_free(&block);
  MPI_Type_free(&absolute);
  free(gapped);
  free(dense);
}

/* Wrong: MPI_IN_PLACE where it may not stand, or sides that differ. `number` says which. */
static void misplaced(int number) {
  enum { count = 8 };
  int in[count * 8] = {0}, out[count * 8], counts[8], places[8];
  MPI_Datatype types[8];
  void *const place = MPI_IN_PLACE;
  int isRoot = rank == 0;
  MPI_Comm all = MPI_COMM_WORLD;
  for (int i = 0; i < 8; ++i) {
    counts[i] = count;
    places[i] = i * count;
    types[i] = MPI_INT;
  }
  sums(all, 4);
  switch (number) {
  case 0:
    MPI_Allreduce(in, place, count, MPI_INT, MPI_SUM, all);
    break;
  case 1:
    MPI_Reduce(in, isRoot ? place : NULL, count, MPI_INT, MPI_SUM, 0, all);
    break;
  case 2:
    MPI_Reduce(isRoot ? in : place, out, count, MPI_INT, MPI_SUM, 0, all);
    break;
  case 3:
    MPI_Reduce_scatter_block(in, place, count, MPI_INT, MPI_SUM, all);
    break;
  case 4:
    MPI_Reduce_scatter(in, place, counts, MPI_INT, MPI_SUM, all);
    break;
  case 5:
    MPI_Bcast(place, count, MPI_INT, 0, all);
    break;
  case 6:
    MPI_Gather(isRoot ? in : place, count, MPI_INT, out, count, MPI_INT, 0, all);
    break;
  case 7:
    MPI_Gather(in, count, MPI_INT, isRoot ? place : out, count, MPI_INT, 0, all);
    break;
  case 8:
    MPI_Scatter(in, count, MPI_INT, isRoot ? out : place, count, MPI_INT, 0, all);
    break;
  case 9:
    MPI_Scatter(isRoot ? place : in, count, MPI_INT, out, count, MPI_INT, 0, all);
    break;
  case 10:
    MPI_Allgather(in, count, MPI_INT, place, count, MPI_INT, all);
    break;
  case 11:
    MPI_Alltoall(in, count, MPI_INT, place, count, MPI_INT, all);
    break;
  case 12:
    MPI_Gather(in, count, MPI_INT, out, count, MPI_DATATYPE_NULL, 0, all);
    break;
  case 13:
    MPI_Allgather(in, count, MPI_INT, out, -1, MPI_INT, all);
    break;
  case 14:
    MPI_Allgather(in, count, MPI_INT, out, count / 2, MPI_INT, all);
    break;
  case 15:
    MPI_Gather(in, count, MPI_INT, out, count / 2, MPI_INT, 0, all);
    break;
  case 16:
    MPI_Allgatherv(in, count, MPI_INT, place, counts, places, MPI_INT, all);
    break;
  case 17:
    MPI_Alltoallv(in, counts, places, MPI_INT, place, counts, places, MPI_INT, all);
    break;
  case 18:
    MPI_Alltoallw(in, counts, places, types, place, counts, places, types, all);
    break;
  case 19:
    MPI_Gatherv(in, count, MPI_INT, isRoot ? place : out, counts, places, MPI_INT, 0, all);
    break;
  case 20:
    MPI_Gatherv(isRoot ? in : place, count, MPI_INT, out, counts, places, MPI_INT, 0, all);
    break;
  case 21:
    MPI_Scatterv(in, counts, places, MPI_INT, isRoot ? out : place, count, MPI_INT, 0, all);
    break;
  case 22:
    MPI_Scatterv(isRoot ? place : in, counts, places, MPI_INT, out, count, MPI_INT, 0, all);
    break;
  case 23:
    MPI_Scan(in, place, count, MPI_INT, MPI_SUM, all);
    break;
  case 24:
    MPI_Exscan(in, place, count, MPI_INT, MPI_SUM, all);
    break;
  }
  printf("rank %d went on\n", rank);
}

int main(int argc, char **argv) {
  const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"halves", halves}, {"spawned", spawned}, {"finalize", finalize}, {"past", halves}, {"bottom", bottom}};
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
  if (strcmp(name, "misplaced") == 0)
    misplaced(atoi(argv[2]));
  MPI_Finalize();
  return 0;
}
