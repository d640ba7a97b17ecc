/* MPI programs that know nothing of Kolo: `cases CASE`. Each checks its results, or prints them for a comparison with
 * the same program under the MPI library alone. */
#include "checks.h"
#include "random_calls.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Enough collectives for a door to connect the ranks. */
static void warmUp(MPI_Comm comm) {
  for (int i = 0; i < 6; ++i)
    MPI_Barrier(comm);
}

/* Legal, because a collective makes progress: rank 0 sends before the collective what rank 1 completes after it. */
static void deadlock(void) {
  warmUp(MPI_COMM_WORLD);
  for (int bytes = 1; bytes <= 1 << 22; bytes *= 4) {
    char *data = calloc((size_t)bytes, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    int one = 1, sum = 0;
    if (rank == 1)
      MPI_Irecv(data, bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD, &request);
    if (rank == 0) {
      memset(data, 5, (size_t)bytes);
      MPI_Send(data, bytes, MPI_CHAR, 1, 3, MPI_COMM_WORLD);
    }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(sum == size, "sum");
    check(rank > 1 || data[bytes - 1] == 5, "message");
    free(data);
  }
}

/* One rooted call of kind 0 to 3; checks what it gives. */
static void rooted(int kind, int bytes, int value) {
  static char in[1 << 16], out[1 << 16];
  const int root = 1, isRoot = rank == root;
  double sum = 0, own = value + rank;
  memset(in, isRoot || kind > 1 ? value : 0, sizeof(in));
  if (kind == 0)
    MPI_Bcast(in, bytes, MPI_CHAR, root, MPI_COMM_WORLD);
  if (kind == 1)
    MPI_Scatter(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, root, MPI_COMM_WORLD);
  if (kind == 2)
    MPI_Gather(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, root, MPI_COMM_WORLD);
  if (kind == 3)
    MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
  check(kind != 0 || in[bytes - 1] == value, "broadcast");
  check(kind != 1 || out[bytes - 1] == value, "scatter");
  check(kind != 2 || !isRoot || out[size * bytes - 1] == value, "gather");
  check(kind != 3 || !isRoot || sum == size * value + size * (size - 1) / 2, "sum");
}

/* Who needs nothing of others makes three calls before they come to the first one. MPI does not promise this. */
static void ahead(void) {
  const int root = 1;
  warmUp(MPI_COMM_WORLD);
  for (int round = 0; round < 10; ++round)
    for (int kind = 0; kind < 4; ++kind) {
      const int bytes = round % 2 ? 1 : 2000, waits = kind < 2 ? rank != root : rank == root;
      int token = 0;
      rooted(kind, bytes, 99);
      if (waits && kind < 2)
        MPI_Recv(&token, 1, MPI_INT, root, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 1; waits && kind >= 2 && i < size; ++i)
        MPI_Recv(&token, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int call = 0; call < 3; ++call)
        rooted(kind, bytes, round + call);
      for (int peer = 0; !waits && peer < size; ++peer)
        if (kind < 2 ? peer != root : peer == root)
          MPI_Send(&token, 1, MPI_INT, peer, 5, MPI_COMM_WORLD);
      MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* The root's type has gaps, the others' have none. */
static void strided(void) {
  enum { count = 37 };
  warmUp(MPI_COMM_WORLD);
  MPI_Datatype gapped;
  MPI_Type_vector(count, 1, 3, MPI_INT, &gapped);
  MPI_Type_commit(&gapped);
  MPI_Datatype resized; /* so that blocks follow each other */
  MPI_Type_create_resized(gapped, 0, 3 * count * (int)sizeof(int), &resized);
  MPI_Type_commit(&resized);
  int *wide = malloc(sizeof(int) * 3 * count * (size_t)size), *dense = malloc(sizeof(int) * count * (size_t)size);
  for (int root = 0; root < size; ++root) {
    for (int i = 0; i < 3 * count * size; ++i)
      wide[i] = rank == root ? i : -1;
    memset(dense, 255, sizeof(int) * count * (size_t)size);
    if (rank == root)
      MPI_Bcast(wide, 1, gapped, root, MPI_COMM_WORLD);
    else
      MPI_Bcast(dense, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
      check(rank == root || dense[i] == 3 * i, "broadcast");
    MPI_Scatter(wide, 1, resized, dense, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
      check(dense[i] == 3 * (count * rank + i), "scatter");
    for (int i = 0; i < 3 * count * size; ++i)
      wide[i] = -1;
    MPI_Gather(dense, count, MPI_INT, wide, 1, resized, root, MPI_COMM_WORLD);
    for (int i = 0; i < 3 * count * size; ++i)
      check(rank != root || wide[i] == (i % 3 ? -1 : i), "gather");
  }
  for (int i = 0; i < count; ++i)
    dense[i] = rank * 1000 + i;
  for (int i = 0; i < 3 * count * size; ++i)
    wide[i] = -1;
  MPI_Allgather(dense, count, MPI_INT, wide, 1, resized, MPI_COMM_WORLD);
  for (int i = 0; i < count * size; ++i)
    check(wide[3 * i] == i / count * 1000 + i % count && wide[3 * i + 1] == -1, "all-gather");
  MPI_Alltoall(wide, 1, resized, dense, count, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < count * size; ++i)
    check(dense[i] == rank * 1000 + i % count, "all-to-all");
  free(wide);
  free(dense);
  MPI_Type_free(&gapped);
  MPI_Type_free(&resized);
}

static void inPlace(void) {
  enum { count = 50 };
  warmUp(MPI_COMM_WORLD);
  double *data = malloc(sizeof(double) * count * (size_t)size), *other = malloc(sizeof(double) * count * (size_t)size);
  int total = size * (size + 1) / 2;
#define FILL(EXPRESSION)                                                                                               \
  for (int i = 0; i < count * size; ++i)                                                                               \
  data[i] = (EXPRESSION)
  FILL((rank + 1) * i);
  MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i)
    check(data[i] == total * i, "all-reduce");
  FILL((rank + 1) * i);
  MPI_Scan(MPI_IN_PLACE, data, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i)
    check(data[i] == (rank + 1) * (rank + 2) / 2 * i, "scan");
  FILL((rank + 1) * i);
  MPI_Exscan(MPI_IN_PLACE, data, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) /* the first rank's buffer stays as it was */
    check(data[i] == (rank == 0 ? 1 : rank * (rank + 1) / 2) * i, "exscan");
  FILL(i / count == rank ? rank * 100 + i : -1);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, count, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int i = 0; i < count * size; ++i)
    check(data[i] == i / count * 100 + i, "all-gather");
  FILL(rank * 1000 + i / count);
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, count, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int i = 0; i < count * size; ++i)
    check(data[i] == i / count * 1000 + rank, "all-to-all");
  FILL((rank + 1) * i);
  MPI_Reduce_scatter_block(MPI_IN_PLACE, data, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i)
    check(data[i] == total * (rank * count + i), "reduce-scatter");
  int *counts = malloc(sizeof(int) * (size_t)size);
  for (int i = 0; i < size; ++i)
    counts[i] = count;
  FILL((rank + 1) * i);
  MPI_Reduce_scatter(MPI_IN_PLACE, data, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i)
    check(data[i] == total * (rank * count + i), "reduce-scatter with counts");
  for (int root = 0; root < size; ++root) {
    FILL((rank + 1) * i);
    MPI_Reduce(rank == root ? MPI_IN_PLACE : data, data, count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
      check(rank != root || data[i] == total * i, "reduce");
    FILL(rank * 100 + i);
    if (rank == root)
      MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, count, MPI_DOUBLE, root, MPI_COMM_WORLD);
    else
      MPI_Gather(data + rank * count, count, MPI_DOUBLE, NULL, 0, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
    for (int i = 0; i < count * size; ++i)
      check(rank != root || data[i] == i / count * 100 + i, "gather");
    FILL(root * 100 + i);
    memset(other, 0, sizeof(double) * count);
    if (rank == root)
      MPI_Scatter(data, count, MPI_DOUBLE, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
    else
      MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, other, count, MPI_DOUBLE, root, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
      check((rank == root ? data + root * count : other)[i] == root * 100 + rank * count + i, "scatter");
  }
  free(data);
  free(other);
  free(counts);
}

static int countEntries(const char *path) {
  int number = 0;
  DIR *folder = opendir(path);
  while (readdir(folder))
    ++number;
  closedir(folder);
  return number;
}
static int countMappings(void) {
  int number = 0, c;
  FILE *file = fopen("/proc/self/maps", "r");
  while ((c = fgetc(file)) != EOF)
    number += c == '\n';
  fclose(file);
  return number;
}

static void useOnce(MPI_Comm comm) {
  for (int i = 0; i < 5; ++i) {
    int one = 1, sum = 0, members = 0;
    MPI_Comm_size(comm, &members);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    check(sum == members, "sum on a communicator");
  }
}

/* Thousands of communicators leave nothing behind, and many may live at a time. */
static void communicators(void) {
  int descriptors = 0, mappings = 0;
  for (int time = 0; time < 2000; ++time) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (time % 10 == 0)
      useOnce(comm);
    MPI_Comm_free(&comm);
    if (time == 100) {
      descriptors = countEntries("/proc/self/fd");
      mappings = countMappings();
    }
  }
  check(countEntries("/proc/self/fd") <= descriptors + 4, "descriptors were left behind");
  check(countMappings() <= mappings + 16, "mappings were left behind");
  MPI_Comm many[40];
  for (int i = 0; i < 40; ++i) {
    MPI_Comm_split(MPI_COMM_WORLD, (rank + i) % 2, -rank, &many[i]);
    useOnce(many[i]);
  }
  for (int i = 0; i < 39; ++i) /* the last one is never freed */
    MPI_Comm_free(&many[(i * 7) % 39]);
}

/* Memory that MPI allocates, before and after the ranks are connected, and at some ranks only. */
static void allocated(void) {
  enum { count = 40000 };
  for (int time = 0; time < 6; ++time) {
    double *in = NULL, *out = NULL, *ordinary = malloc(sizeof(double) * count);
    MPI_Alloc_mem(sizeof(double) * count, MPI_INFO_NULL, &in);
    MPI_Alloc_mem(sizeof(double) * count, MPI_INFO_NULL, &out);
    double *result = time == 4 && rank == 1 ? ordinary : out;
    for (int i = 0; i < count; ++i)
      in[i] = rank + i;
    for (int call = 0; call < 3; ++call) {
      MPI_Allreduce(in, result, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      for (int i = 0; i < count; ++i)
        check(result[i] == size * (size - 1) / 2 + (double)size * i, "all-reduce in allocated memory");
    }
    MPI_Free_mem(in);
    if (time != 5) /* the last one is never freed */
      MPI_Free_mem(out);
    free(ordinary);
  }
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
  (void)type;
  for (int i = 0; i < *count; ++i)
    ((int *)inout)[i] += ((int *)in)[i];
}

/* What a door must leave alone. */
static void forwarded(void) {
  warmUp(MPI_COMM_WORLD);
  MPI_Op operation;
  MPI_Op_create(add, 1, &operation);
  int one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, operation, MPI_COMM_WORLD);
  check(sum == size, "user operation");
  struct {
    double value;
    int place;
  } mine = {rank, rank}, best = {0, 0};
  MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  check(best.place == size - 1, "maximum with its place");
  MPI_Bcast(&mine, 1, MPI_DOUBLE_INT, 1, MPI_COMM_WORLD); /* only moves, with a gap */
  check(mine.place == 1 && mine.value == 1, "pair");
  MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm half, inter;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 9, &inter);
  for (int i = 0; i < 6; ++i)
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
  check(sum == (rank % 2 ? (size + 1) / 2 : size / 2), "inter-communicator");
  useOnce(MPI_COMM_SELF);
  MPI_Op_free(&operation);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

/* Sums in a communicator to which this rank gives a name. */
static void sumInNamed(const char *name) {
  MPI_Comm group;
  MPI_Comm_dup(MPI_COMM_WORLD, &group);
  MPI_Comm_set_name(group, name);
  warmUp(group);
  float third = 1.0f / 3, sum = 0;
  for (int i = 0; i < 10; ++i)
    MPI_Allreduce(&third, &sum, 1, MPI_FLOAT, MPI_SUM, group);
  check(sum > 0.3f * (float)size && sum < 0.4f * (float)size, "sum in a group with a name");
  MPI_Comm_free(&group);
}

static void named(void) { sumInNamed("dp"); }

static void namedApart(void) { sumInNamed(rank == 0 ? "tp" : "dp"); }

/* Rounded results of reductions to all: every rank has the bits that rank 0 has. */
static void alike(void) {
  enum { most = 100000 };
  const MPI_Op operations[] = {MPI_SUM, MPI_PROD};
  double *in = malloc(sizeof(double) * most), *out = malloc(sizeof(double) * most),
         *first = malloc(sizeof(double) * most);
  warmUp(MPI_COMM_WORLD);
  for (int count = 1; count <= most; count = count * 3 + 1)
    for (int kind = 0; kind < 4; ++kind) {
      int isFloat = kind % 2, bytes = count * (isFloat ? 4 : 8);
      for (int i = 0; i < count; ++i) {
        double value = 0.5 + (rank * 7919 + i * 104729 + kind) % 1009 / 1009.0;
        if (isFloat)
          ((float *)in)[i] = (float)value;
        else
          in[i] = value;
      }
      MPI_Allreduce(in, out, count, isFloat ? MPI_FLOAT : MPI_DOUBLE, operations[kind / 2], MPI_COMM_WORLD);
      memcpy(first, out, (size_t)bytes);
      MPI_Bcast(first, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
      check(memcmp(first, out, (size_t)bytes) == 0, "ranks have different bits");
    }
  free(in);
  free(out);
  free(first);
}

/* Wrong: ranks differ in the count. */
static void counts(void) {
  int in[2] = {1, 1}, out[2];
  warmUp(MPI_COMM_WORLD);
  MPI_Allreduce(in, out, rank == 0 ? 2 : 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d went on\n", rank);
}

/* A rank ends while the others wait for it. */
static void death(void) {
  int one = 1, sum = 0;
  warmUp(MPI_COMM_WORLD);
  if (rank == 1)
    _exit(9);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d went on\n", rank);
}

/* Calls that Kolo does not carry, and then ten of 1 MiB. */
static void worth(void) {
  enum { count = 1 << 17 };
  double *in = malloc(sizeof(double) * count), *out = malloc(sizeof(double) * count);
  MPI_Op own;
  MPI_Op_create(add, 1, &own);
  for (int i = 0; i < count; ++i)
    in[i] = rank + i;
  for (int call = 0; call < 1500; ++call)
    MPI_Allreduce(in, out, 1, MPI_INT, own, MPI_COMM_WORLD);
  for (int call = 0; call < 60; ++call) {
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
      check(out[i] == size * (size - 1) / 2 + (double)size * i, "all-reduce of 1 MiB");
  }
  MPI_Op_free(&own);
  free(in);
  free(out);
}

/* One call of each function that moves blocks of so many integers from or to a root, or from rank to rank. */
static void oneWay(int count, int root) {
  int *own = malloc(sizeof(int) * (size_t)count), *all = malloc(sizeof(int) * (size_t)(count * size));
  const int last = count - 1, sum = size * (size - 1) / 2, before = rank * (rank - 1) / 2;
  for (int i = 0; i < count; ++i)
    own[i] = rank;
  MPI_Gather(own, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD);
  for (int i = 0; rank == root && i < size; ++i)
    check(all[i * count + last] == i, "gather");
  MPI_Scatter(all, count, MPI_INT, own, count, MPI_INT, root, MPI_COMM_WORLD);
  check(own[last] == rank, "scatter");
  MPI_Reduce(own, all, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
  check(rank != root || all[last] == sum, "reduce");
  MPI_Scan(own, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  check(all[last] == before + rank, "scan");
  MPI_Exscan(own, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  check(rank == 0 || all[last] == before, "exscan");
  MPI_Bcast(own, count, MPI_INT, root, MPI_COMM_WORLD);
  check(own[last] == root, "broadcast");
  free(all);
  free(own);
}

/* Hundred calls of each function with less than 1 KiB, 60 all-reduces of 1 MiB, and ten of each again with less and
 * with 1 KiB. */
static void fewBytes(void) {
  enum { count = 1 << 17, kilobyte = 256 };
  double *in = calloc(count, sizeof(double)), *out = malloc(sizeof(double) * count);
  for (int call = 0; call < 100; ++call)
    oneWay(kilobyte - 1, call % size);
  for (int call = 0; call < 60; ++call)
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int call = 0; call < 10; ++call) {
    oneWay(kilobyte - 1, call % size);
    oneWay(kilobyte, call % size);
  }
  free(in);
  free(out);
}

/* Nanoseconds of an all-reduce of 8 bytes: the least over some rounds. */
static void speed(void) {
  double one = 1, sum = 0, best = 1;
  warmUp(MPI_COMM_WORLD);
  for (int round = 0; round < 20; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < 20000; ++i)
      MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double each = (MPI_Wtime() - start) / 20000;
    best = each < best ? each : best;
  }
  if (rank == 0)
    printf("%.1f\n", best * 1e9);
}

int main(int argc, char **argv) {
  const struct Case cases[] = {{"ahead", ahead},
                               {"deadlock", deadlock},
                               {"strided", strided},
                               {"in-place", inPlace},
                               {"communicators", communicators},
                               {"random", randomCalls},
                               {"forwarded", forwarded},
                               {"counts", counts},
                               {"death", death},
                               {"allocated", allocated},
                               {"alike", alike},
                               {"speed", speed},
                               {"worth", worth},
                               {"few-bytes", fewBytes},
                               {"named", named},
                               {"named-apart", namedApart}};
  return runCase(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
