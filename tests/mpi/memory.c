/* MPI_Alloc_mem, and what communicators take: `memory CASE`. Each checks itself; PMPI_Alloc_mem is the MPI library's
 * own. */
#include "checks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static void *allocate(size_t bytes) {
  void *memory = NULL;
  check(MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory) == MPI_SUCCESS && memory, "MPI_Alloc_mem");
  return memory;
}

static size_t residentBytes(void) {
  size_t pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  check(file && fscanf(file, "%*u %zu", &pages) == 1, "statm");
  fclose(file);
  return pages * 4096;
}

/* Mappings of at least 64 MiB of memory that ranks share through a door. */
static int largeMappings(void) {
  int number = 0;
  char line[4096];
  FILE *file = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof(line), file)) {
    unsigned long begin, end;
    number += strstr(line, "memfd:kolo") && sscanf(line, "%lx-%lx", &begin, &end) == 2 && end - begin >= 64u << 20;
  }
  fclose(file);
  return number;
}

/* Memory that nobody uses is not there, and what was freed does not stay. */
static void unused(void) {
  size_t before = residentBytes();
  void *many[16];
  for (int i = 0; i < 16; ++i)
    many[i] = allocate(256u << 20);
  check(residentBytes() < before + (8u << 20), "memory that nobody has touched is there");
  for (int i = 0; i < 16; ++i)
    MPI_Free_mem(many[i]);
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 16; ++i)
      memset(many[i] = allocate(((size_t)(i + round) << 20) + 5), 1, (size_t)(i + round) << 20);
    for (int i = 0; i < 16; ++i)
      MPI_Free_mem(many[(i * 7) % 16]);
  }
  check(residentBytes() < before + (160u << 20), "freed memory stays");
}

/* Random allocations keep what is stored in them. */
static void stamps(void) {
  enum { most = 200 };
  static struct {
    unsigned char *memory;
    size_t bytes;
  } held[most];
  unsigned random = (unsigned)rank + 1;
  for (int step = 0; step < 6000; ++step) {
    int i = (int)((random = random * 1664525u + 1013904223u) >> 16) % most;
    unsigned char stamp = (unsigned char)(i + 1);
    if (held[i].memory) {
      size_t last = held[i].bytes - 1;
      check(held[i].memory[0] == stamp && held[i].memory[last / 2] == stamp && held[i].memory[last] == stamp, "stamp");
      memset(held[i].memory, 0, 1);
      MPI_Free_mem(held[i].memory);
      held[i].memory = NULL;
      continue;
    }
    int order = 10 + (int)((random = random * 1664525u + 1013904223u) >> 16) % 13;
    held[i].bytes = ((size_t)1 << order) + (random >> 8) % ((size_t)1 << order);
    held[i].memory = allocate(held[i].bytes);
    memset(held[i].memory, stamp, order < 16 ? held[i].bytes : 1);
    held[i].memory[(held[i].bytes - 1) / 2] = held[i].memory[held[i].bytes - 1] = stamp;
  }
  printf("rank %d: stamps in %s\n", rank, largeMappings() ? "pieces" : "memory of MPI");
}

/* Becomes a window when a collective first uses it. */
static void window(void) {
  enum { count = 3 << 20 };
  int times = 0;
  double *in = allocate(sizeof(double) * count), *out = allocate(sizeof(double) * count);
  for (int i = 0; i < count; ++i)
    in[i] = rank + i % 1000;
  for (int i = 0; i < 6; ++i)
    MPI_Barrier(MPI_COMM_WORLD);
  int before = largeMappings();
  for (; times < 8; ++times) { /* repetitions may move it to other pages */
    memset(out, 0, sizeof(double) * count);
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
      check(out[i] == size * (size - 1) / 2 + (double)size * (i % 1000), "all-reduce");
    MPI_Allreduce(MPI_IN_PLACE, out + 1000, count / 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  printf("rank %d: %d large mappings before, %d after\n", rank, before, largeMappings());
  MPI_Free_mem(in);
  in = allocate(sizeof(double) * count); /* other memory at the same place, perhaps */
  for (int i = 0; i < count; ++i)
    in[i] = rank;
  MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  check(out[count - 1] == size * (size - 1) / 2, "all-reduce after other memory");
  MPI_Free_mem(in);
  MPI_Free_mem(out);
}

static int countDescriptors(void) {
  int number = 0;
  for (int fd = 0; fd < 4096; ++fd)
    number += fcntl(fd, F_GETFD) != -1;
  return number;
}

static void sums(MPI_Comm comm, int count) {
  int *in = malloc(sizeof(int) * (size_t)count), *out = malloc(sizeof(int) * (size_t)count);
  for (int i = 0; i < count; ++i)
    in[i] = rank + i;
  MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < count; ++i)
    check(out[i] == size * (size - 1) / 2 + size * i, "sum");
  MPI_Allreduce(MPI_IN_PLACE, in, count, MPI_INT, MPI_SUM, comm);
  check(memcmp(in, out, sizeof(int) * (size_t)count) == 0, "sum in place");
  free(in);
  free(out);
}

static void growingSums(void) {
  for (int count = 1000; count < 2000000; count *= 4)
    sums(MPI_COMM_WORLD, count);
}

/* This rank opens no more than FREE_DESCRIPTORS at a time meanwhile. What is open stays open. */
static void growingSumsWithoutDescriptors(void) {
  const char *number = getenv("FREE_DESCRIPTORS");
  int numFree = number ? atoi(number) : 0;
  struct rlimit old, few;
  getrlimit(RLIMIT_NOFILE, &old);
  few = old;
  for (few.rlim_cur = 3; numFree > 0; ++few.rlim_cur)
    numFree -= fcntl((int)few.rlim_cur, F_GETFD) == -1;
  setrlimit(RLIMIT_NOFILE, &few);
  growingSums();
  setrlimit(RLIMIT_NOFILE, &old);
}

/* A rank has no descriptor left when a collective needs memory for the first time, and again later. */
static void limits(void) {
  for (int i = 0; i < 6; ++i)
    sums(MPI_COMM_WORLD, 1);
  (rank == 1 ? growingSumsWithoutDescriptors : growingSums)();
  growingSums();
}

/* None is left in the first collective. */
static void unopened(void) {
  (rank == 1 ? growingSumsWithoutDescriptors : growingSums)();
  growingSums();
}

static void unopenedOnAll(void) {
  growingSumsWithoutDescriptors();
  growingSums();
}

/* Communicators share descriptors. */
static void many(void) {
  enum { number = 150 };
  static MPI_Comm comms[number];
  int first = 0;
  for (int i = 0; i < number; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int time = 0; time < 6; ++time)
      sums(comms[i], 4);
    if (i == 0)
      first = countDescriptors();
  }
  printf("rank %d: %d descriptors more for %d communicators\n", rank, countDescriptors() - first, number - 1);
  for (int i = 0; i < number; ++i)
    MPI_Comm_free(&comms[i]);
}

/* Communicators in turn, one with fewer ranks among them, with calls that need memory of the door. What all hold
 * together is bounded, and results stay right. */
static void bounded(void) {
  enum { number = 64, count = 40000, rounds = 4 };
  static MPI_Comm comms[number];
  static double in[count], out[count];
  size_t before = 0;
  for (int i = 0; i < number; ++i) {
    int color = i % 3 == 2 && size > 2 ? rank / 2 : 0;
    MPI_Comm_split(MPI_COMM_WORLD, color, rank, &comms[i]);
  }
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < number; ++i) {
      int ranks = 0, first = rank;
      MPI_Comm_size(comms[i], &ranks);
      MPI_Bcast(&first, 1, MPI_INT, 0, comms[i]);
      for (int time = 0; time < 4; ++time) {
        int sumOfRanks = ranks * first + ranks * (ranks - 1) / 2, some = time % 2 ? count : count / 8;
        for (int j = 0; j < some; ++j)
          in[j] = rank + (i + j) % 1000;
        MPI_Allreduce(in, out, some, MPI_DOUBLE, MPI_SUM, comms[i]);
        for (int j = 0; j < some; ++j)
          check(out[j] == sumOfRanks + (double)ranks * ((i + j) % 1000), "all-reduce");
        MPI_Bcast(in, some, MPI_DOUBLE, ranks - 1, comms[i]);
        check(in[1] == first + ranks - 1 + (i + 1) % 1000, "broadcast");
      }
      if (round == 0 && i == 0)
        before = residentBytes();
    }
  printf("rank %d: %zu KiB more for %d communicators\n", rank, (residentBytes() - before) / 1024, number - 1);
  for (int i = 0; i < number; ++i)
    MPI_Comm_free(&comms[i]);
}

/* Nanoseconds of an allocation and of its end, through the door and of MPI: the least of many, in turns. */
static void speed(void) {
  for (size_t bytes = 16384; bytes <= 256u << 20; bytes *= 4) {
    double best[2] = {1, 1};
    for (int round = 0; round < 400; ++round)
      for (int isMpis = 0; isMpis < 2; ++isMpis) {
        void *memory = NULL;
        double start = MPI_Wtime();
        for (int i = 0; i < 10; ++i) {
          if (isMpis)
            PMPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory), PMPI_Free_mem(memory);
          else
            MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory), MPI_Free_mem(memory);
        }
        double each = (MPI_Wtime() - start) / 10;
        best[isMpis] = each < best[isMpis] ? each : best[isMpis];
      }
    if (rank == 0)
      printf("%zu bytes: %.0f ns, MPI %.0f ns\n", bytes, best[0] * 1e9, best[1] * 1e9);
  }
}

int main(int argc, char **argv) {
  const struct Case cases[] = {{"unused", unused},   {"stamps", stamps},     {"window", window},
                               {"speed", speed},     {"limits", limits},     {"many", many},
                               {"bounded", bounded}, {"unopened", unopened}, {"unopened-on-all", unopenedOnAll}};
  return runCase(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
