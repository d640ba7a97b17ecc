/* Collectives whose blocks have counts of their own, beside the MPI library's own results: `tables CASE`. */
#include "checks.h"

#include <complex.h>
#include <stdlib.h>
#include <string.h>

enum { mostRanks = 8, numKinds = 5, numSpreads = 5, hugeUnits = 131072, slack = 64 };

/* A unit is 8 bytes of data. So many elements of a datatype make one. */
typedef struct {
  MPI_Datatype type;
  int perUnit, extent;
} Kind;
static Kind kinds[numKinds];

static void makeKinds(void) {
  MPI_Datatype vector, gapped, pair;
  MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
  MPI_Type_create_resized(vector, 0, 16, &gapped);
  MPI_Type_commit(&gapped);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  const Kind all[numKinds] = {{MPI_INT, 2, 4}, {MPI_LONG, 1, 8}, {MPI_BYTE, 8, 1}, {gapped, 1, 16}, {pair, 1, 8}};
  memcpy(kinds, all, sizeof(all));
  MPI_Type_free(&vector);
}

static int draw(int i, int j, int seed) {
  return (int)(((unsigned)(i * 7919 + j * 104729 + seed * 31) * 2654435761u) >> 20);
}

/* Units that rank `from` gives to rank `to`; the same the other way round. */
static int unitsBetween(int spread, int from, int to) {
  const int low = from < to ? from : to, high = from < to ? to : from;
  const int drawn = draw(low, high, 5) % 40;
  const int units[numSpreads] = {9, drawn % 3 ? drawn : 0, low == 0 && high == 1 ? 5 : 0, 0,
                                 low == 0 && high == 1 ? hugeUnits : drawn};
  return units[spread];
}
/* Units of a rank's block where each rank has one. */
static int unitsOf(int spread, int of) { return unitsBetween(spread, of == 1 ? 0 : of, of == 1 ? 1 : of + 2); }

/* A buffer with blocks in another order, with gaps between them. Displacements count from its middle. */
typedef struct {
  char *memory, *middle;
  size_t bytes;
  int blocks, counts[mostRanks], elements[mostRanks], displacements[mostRanks]; /* these in bytes, and in elements */
  MPI_Datatype types[mostRanks];
} Buffer;

static void place(Buffer *buffer, const int *units, const Kind *const *ofBlocks, int gap) {
  size_t next = slack;
  int begins[mostRanks];
  for (int i = 0; i < buffer->blocks; ++i) {
    const int block = (i * 3 + 1 + rank) % buffer->blocks; /* all of 2, of 4, and of 5 */
    const Kind *kind = ofBlocks[block];
    begins[block] = (int)next;
    buffer->counts[block] = units[block] * kind->perUnit;
    buffer->types[block] = kind->type;
    next += (size_t)buffer->counts[block] * (size_t)kind->extent + (size_t)(gap * (block % 3));
  }
  buffer->bytes = (next / 32 + 8) * 32;
  MPI_Alloc_mem((MPI_Aint)buffer->bytes, MPI_INFO_NULL, &buffer->memory);
  const int middle = (int)(buffer->bytes / 64) * 32;
  buffer->middle = buffer->memory + middle;
  for (int block = 0; block < buffer->blocks; ++block) {
    buffer->displacements[block] = begins[block] - middle;
    buffer->elements[block] = (begins[block] - middle) / ofBlocks[block]->extent;
  }
}

static Buffer makeBuffer(int blocks, const int *units, const Kind *kind) {
  const Kind *all[mostRanks];
  for (int i = 0; i < mostRanks; ++i)
    all[i] = kind;
  Buffer buffer = {.blocks = blocks};
  place(&buffer, units, all, 16);
  return buffer;
}

static void fill(char *to, size_t bytes, int seed) {
  for (size_t i = 0; i < bytes; ++i)
    to[i] = (char)draw((int)i, rank, seed);
}

static void same(const void *found, const void *wanted, size_t bytes, const char *what) {
  if (bytes != 0 && memcmp(found, wanted, bytes) != 0) {
    size_t at = 0;
    while (((const char *)found)[at] == ((const char *)wanted)[at])
      ++at;
    fprintf(stderr, "%s: byte %zu of %zu\n", what, at, bytes);
    check(0, what);
  }
}

typedef struct {
  Buffer in, out;
  int root, isInPlace;
} Call;
typedef int (*Collective)(const Call *call, int isOwn);

#define EITHER(NAME, ...) (isOwn ? P##NAME(__VA_ARGS__) : NAME(__VA_ARGS__))
#define ONE(BUFFER) (BUFFER).middle + (BUFFER).displacements[0], (BUFFER).counts[0], (BUFFER).types[0]
#define TABLED(BUFFER) (BUFFER).middle, (BUFFER).counts, (BUFFER).elements, (BUFFER).types[0]
#define TYPED(BUFFER) (BUFFER).middle, (BUFFER).counts, (BUFFER).displacements, (BUFFER).types

static int allgatherv(const Call *c, int isOwn) {
  if (c->isInPlace)
    return EITHER(MPI_Allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, TABLED(c->out), MPI_COMM_WORLD);
  return EITHER(MPI_Allgatherv, ONE(c->in), TABLED(c->out), MPI_COMM_WORLD);
}
static int gatherv(const Call *c, int isOwn) {
  if (c->isInPlace && rank == c->root)
    return EITHER(MPI_Gatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, TABLED(c->out), c->root, MPI_COMM_WORLD);
  if (rank == c->root)
    return EITHER(MPI_Gatherv, ONE(c->in), TABLED(c->out), c->root, MPI_COMM_WORLD);
  return EITHER(MPI_Gatherv, ONE(c->in), NULL, NULL, NULL, MPI_DATATYPE_NULL, c->root, MPI_COMM_WORLD);
}
static int scatterv(const Call *c, int isOwn) {
  if (c->isInPlace && rank == c->root)
    return EITHER(MPI_Scatterv, TABLED(c->in), MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, c->root, MPI_COMM_WORLD);
  if (rank == c->root)
    return EITHER(MPI_Scatterv, TABLED(c->in), ONE(c->out), c->root, MPI_COMM_WORLD);
  return EITHER(MPI_Scatterv, NULL, NULL, NULL, MPI_DATATYPE_NULL, ONE(c->out), c->root, MPI_COMM_WORLD);
}
static int alltoallv(const Call *c, int isOwn) {
  if (c->isInPlace)
    return EITHER(MPI_Alltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, TABLED(c->out), MPI_COMM_WORLD);
  return EITHER(MPI_Alltoallv, TABLED(c->in), TABLED(c->out), MPI_COMM_WORLD);
}
static int alltoallw(const Call *c, int isOwn) {
  if (c->isInPlace)
    return EITHER(MPI_Alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, TYPED(c->out), MPI_COMM_WORLD);
  return EITHER(MPI_Alltoallw, TYPED(c->in), TYPED(c->out), MPI_COMM_WORLD);
}

/* What the call leaves in both buffers, twice with the same tables and other data. */
static void judge(Collective collective, Call *call, const char *what) {
  Buffer *in = &call->in, *out = &call->out;
  char *wantedIn = malloc(in->bytes), *wanted = malloc(out->bytes);
  for (int seed = 1; seed <= 2; ++seed) {
    for (int isOwn = 1; isOwn >= 0; --isOwn) {
      fill(in->memory, in->bytes, seed);
      fill(out->memory, out->bytes, seed + 10);
      check(collective(call, isOwn) == MPI_SUCCESS, what);
      if (isOwn) {
        memcpy(wanted, out->memory, out->bytes);
        memcpy(wantedIn, in->memory, in->bytes);
      }
    }
    same(out->memory, wanted, out->bytes, what);
    same(in->memory, wantedIn, in->bytes, what);
  }
  free(wantedIn);
  free(wanted);
}

static void judgeBoth(Collective collective, Buffer in, Buffer out, int root, const char *what) {
  for (int isInPlace = 0; isInPlace < 2; ++isInPlace) {
    Call call = {in, out, root, isInPlace};
    judge(collective, &call, what);
  }
  MPI_Free_mem(in.memory);
  MPI_Free_mem(out.memory);
}

static void moves(int spread, const Kind *sent, const Kind *taken) {
  int one[mostRanks] = {unitsOf(spread, rank)}, each[mostRanks], between[mostRanks];
  for (int i = 0; i < size; ++i) {
    each[i] = unitsOf(spread, i);
    between[i] = unitsBetween(spread, rank, i);
  }
  const int root = spread % size;
  judgeBoth(allgatherv, makeBuffer(1, one, sent), makeBuffer(size, each, taken), 0, "MPI_Allgatherv");
  judgeBoth(gatherv, makeBuffer(1, one, sent), makeBuffer(size, each, taken), root, "MPI_Gatherv");
  judgeBoth(scatterv, makeBuffer(size, each, sent), makeBuffer(1, one, taken), root, "MPI_Scatterv");
  judgeBoth(alltoallv, makeBuffer(size, between, sent), makeBuffer(size, between, taken), 0, "MPI_Alltoallv");
}

/* Every block of another datatype, at bytes that are no multiple of its extent. */
static void typedMoves(int spread) {
  int between[mostRanks];
  const Kind *sent[mostRanks], *taken[mostRanks];
  for (int i = 0; i < size; ++i) {
    between[i] = unitsBetween(spread, rank, i);
    sent[i] = &kinds[(rank + 2 * i) % numKinds];
    taken[i] = &kinds[(3 * rank + i) % numKinds];
  }
  Buffer in = {.blocks = size}, out = {.blocks = size};
  place(&in, between, sent, 13);
  place(&out, between, taken, 7);
  judgeBoth(alltoallw, in, out, 0, "MPI_Alltoallw");
}

static void ready(void) {
  makeKinds();
  for (int i = 0; i < 6; ++i) /* enough collectives for a door to connect the ranks */
    MPI_Barrier(MPI_COMM_WORLD);
}

static void all(void) {
  const int pairs[][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {3, 0}, {4, 3}, {3, 3}};
  ready();
  for (int spread = 0; spread < numSpreads; ++spread) {
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); ++i)
      moves(spread, &kinds[pairs[i][0]], &kinds[pairs[i][1]]);
    typedMoves(spread);
  }
}

/* Small values, of which no sum is rounded. */
static void fillNumbers(void *to, MPI_Datatype type, size_t number, int seed) {
  for (size_t i = 0; i < number; ++i) {
    const int value = draw((int)i, rank, seed) % 9;
    if (type == MPI_DOUBLE)
      ((double *)to)[i] = value;
    else if (type == MPI_C_DOUBLE_COMPLEX)
      ((double complex *)to)[i] = value - 3 + 2 * I;
    else if (type == MPI_2INT)
      memcpy((int *)to + 2 * i, (int[]){value, rank}, 2 * sizeof(int));
    else
      ((int *)to)[i] = value;
  }
}

static void judgeReduction(const int *counts, MPI_Datatype type, size_t extent, MPI_Op operation) {
  size_t number = 0;
  for (int i = 0; i < size; ++i)
    number += (size_t)counts[i];
  const size_t bytes = number * extent + 16, own = (size_t)counts[rank] * extent;
  char *in, *out, *wanted = malloc(bytes);
  MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &in);
  MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &out);
  for (int seed = 1; seed <= 2; ++seed) {
    fillNumbers(in, type, number, seed);
    fill(wanted, bytes, seed);
    memcpy(out, wanted, bytes);
    PMPI_Reduce_scatter(in, wanted, counts, type, operation, MPI_COMM_WORLD);
    MPI_Reduce_scatter(in, out, counts, type, operation, MPI_COMM_WORLD);
    same(out, wanted, bytes, "MPI_Reduce_scatter");
    memcpy(out, in, bytes);
    MPI_Reduce_scatter(MPI_IN_PLACE, out, counts, type, operation, MPI_COMM_WORLD);
    same(out, wanted, own, "MPI_Reduce_scatter in place");
  }
  MPI_Free_mem(in);
  MPI_Free_mem(out);
  free(wanted);
}

static void reductions(void) {
  ready();
  for (int spread = 0; spread < numSpreads; ++spread) {
    int counts[mostRanks];
    for (int i = 0; i < size; ++i)
      counts[i] = unitsOf(spread, i);
    if (spread == 3) /* no data: nothing to carry */
      continue;
    judgeReduction(counts, MPI_INT, sizeof(int), MPI_SUM);
    judgeReduction(counts, MPI_DOUBLE, sizeof(double), MPI_MAX);
    judgeReduction(counts, MPI_DOUBLE, sizeof(double), MPI_SUM);
    judgeReduction(counts, MPI_INT, sizeof(int), MPI_BXOR);
    judgeReduction(counts, MPI_INT, sizeof(int), MPI_LAND);
    judgeReduction(counts, MPI_2INT, 2 * sizeof(int), MPI_MAXLOC);
    judgeReduction(counts, MPI_C_DOUBLE_COMPLEX, sizeof(double complex), MPI_PROD);
  }
}

/* Blocks that are sent lie between those that are received, and all are named by their addresses. */
static void interleaved(void) {
  ready();
  for (int count = 1; count <= 300000; count = count * 40 + 3) {
    int *memory = calloc((size_t)(2 * size * count), sizeof(int)), counts[mostRanks], sent[mostRanks], taken[mostRanks];
    MPI_Datatype addressed[mostRanks], ints[mostRanks];
    for (int i = 0; i < size; ++i) {
      counts[i] = count - (rank + i) % 2;
      sent[i] = 2 * i * count;
      taken[i] = (2 * i + 1) * count;
      for (int j = 0; j < count; ++j)
        memory[sent[i] + j] = rank * 1000 + i * 10 + j;
    }
    MPI_Alltoallv(memory, counts, sent, MPI_INT, memory, counts, taken, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < count; ++j)
        check(memory[taken[i] + j] == (j < counts[i] ? i * 1000 + rank * 10 + j : 0), "interleaved");
    int ones[mostRanks], zeros[mostRanks] = {0};
    for (int i = 0; i < size; ++i) {
      MPI_Aint address;
      ones[i] = 1;
      taken[i] *= (int)sizeof(int);
      ints[i] = MPI_INT;
      MPI_Get_address(memory + sent[i], &address);
      MPI_Type_create_hindexed(1, &counts[i], &address, MPI_INT, &addressed[i]);
      MPI_Type_commit(&addressed[i]);
      memory[(2 * i + 1) * count] = -1;
    }
    MPI_Alltoallw(MPI_BOTTOM, ones, zeros, addressed, memory, counts, taken, ints, MPI_COMM_WORLD);
    for (int i = 0; i < size; ++i) {
      check(memory[(2 * i + 1) * count] == (counts[i] ? i * 1000 + rank * 10 : -1), "addresses");
      MPI_Type_free(&addressed[i]);
    }
    free(memory);
  }
}

/* Wrong, and MPI libraries do it: all blocks are received at one place. */
static void overlapping(void) {
  ready();
  for (int count = 1; count <= 5000; count *= 5000) {
    int *in = calloc((size_t)count, sizeof(int)), *out = calloc((size_t)count, sizeof(int)), counts[mostRanks],
        places[mostRanks] = {0};
    for (int i = 0; i < mostRanks; ++i)
      counts[i] = count;
    for (int i = 0; i < count; ++i)
      in[i] = i + 7;
    MPI_Allgatherv(in, count, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
    same(out, in, (size_t)count * sizeof(int), "overlapping");
    free(in);
    free(out);
  }
}

/* Wrong: rank 1 takes another count than rank 0 gives. */
static void countsDiffer(void) {
  int in[2] = {1, 2}, out[2] = {0}, counts[mostRanks] = {0}, places[mostRanks] = {0};
  ready();
  counts[1 - rank] = rank + 1;
  MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
  printf("rank %d went on\n", rank);
}

int main(int argc, char **argv) {
  const struct Case cases[] = {{"all", all},
                               {"reductions", reductions},
                               {"interleaved", interleaved},
                               {"overlapping", overlapping},
                               {"counts-differ", countsDiffer}};
  return runCase(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
