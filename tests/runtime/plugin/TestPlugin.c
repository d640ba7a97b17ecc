/* A plugin written by hand: what the compiler would write, for the runtime's own tests. Every buffer of a peer is
 * reached both ways, through its address where it has one and through put and get where not. */
#include "kolo/runtime/PluginAbi.h"

#include <stddef.h>

typedef const KoloInvocation *In;

static void copyBytes(void *dst, const void *src, int64_t sizeBytes) {
  for (int64_t i = 0; i < sizeBytes; ++i)
    ((char *)dst)[i] = ((const char *)src)[i];
}

static int64_t numRanks(const int64_t *dims) { return dims[0] * dims[1] * dims[2] * dims[3]; }
static int64_t selfRank(In in) {
  int64_t rank = 0;
  for (int dim = 0; dim < KOLO_MAX_MESH_DIMS; ++dim)
    rank = rank * in->dimSizes[dim] + in->coordinates[dim];
  return rank;
}

static void signalTo(In in, int64_t peer, int32_t semaphore) {
  in->services->signal((KoloInvocation *)in, peer, semaphore);
}
static int32_t waitFor(In in, int64_t peer, int32_t semaphore, int32_t statement) {
  return in->services->wait((KoloInvocation *)in, peer, semaphore, statement);
}

static void putTo(In in, int64_t peer, int32_t role, int64_t offset, const void *src, int64_t sizeBytes) {
  if (in->peers[role][peer])
    copyBytes((char *)in->peers[role][peer] + offset, src, sizeBytes);
  else
    in->services->put((KoloInvocation *)in, peer, role, offset, src, sizeBytes);
}

/* This lane's part [begin, end) of count elements. */
typedef struct Part {
  int64_t begin, end;
} Part;
static Part partOf(In in) {
  Part part = {in->count * in->lane / in->numLanes, in->count * (in->lane + 1) / in->numLanes};
  return part;
}

/* Semaphores: 0 entered, 1 data, 2 done. */
static int32_t meetAll(In in, int32_t semaphore, int32_t statement) {
  int64_t size = numRanks(in->dimSizes), me = selfRank(in);
  for (int64_t peer = 0; peer < size; ++peer)
    if (peer != me)
      signalTo(in, peer, semaphore);
  for (int64_t peer = 0; peer < size; ++peer) {
    int32_t status = peer == me ? 0 : waitFor(in, peer, semaphore, statement);
    if (status)
      return status;
  }
  return 0;
}

static int32_t ringAllGather(In in) {
  int64_t size = numRanks(in->dimSizes), me = selfRank(in), next = (me + 1) % size, previous = (me + size - 1) % size;
  int64_t e = in->elementBytes, chunk = in->count * e;
  Part part = partOf(in);
  int64_t begin = part.begin * e, bytes = (part.end - part.begin) * e;
  char *out = (char *)in->local[KOLO_OUTPUT];
  if (bytes && out + me * chunk != (char *)in->local[KOLO_INPUT])
    copyBytes(out + me * chunk + begin, (char *)in->local[KOLO_INPUT] + begin, bytes);
  signalTo(in, previous, 0);
  int32_t status = waitFor(in, next, 0, 0);
  for (int64_t step = 0; !status && step < size - 1; ++step) {
    int64_t offset = (me + size - step) % size * chunk + begin;
    if (bytes)
      putTo(in, next, KOLO_OUTPUT, offset, out + offset, bytes);
    signalTo(in, next, 1);
    status = waitFor(in, previous, 1, 1);
  }
  return status;
}

static void combine(In in, void *dst, const void *src, int64_t n) {
  const void *srcs[] = {dst, src};
  in->reduce(&dst, 1, srcs, 2, n, in->nonTemporal);
}

/* Every rank pulls every input, through its tile where the input has no address here. */
static int32_t pullAllReduce(In in) {
  int64_t size = numRanks(in->dimSizes), me = selfRank(in), e = in->elementBytes;
  Part part = partOf(in);
  int32_t status = meetAll(in, 0, 2);
  if (status)
    return status;
  char *out = (char *)in->local[KOLO_OUTPUT];
  int64_t step = in->tileBytes / e;
  for (int64_t at = part.begin; at < part.end; at += step) {
    int64_t n = part.end - at < step ? part.end - at : step;
    copyBytes(out + at * e, (char *)in->local[KOLO_INPUT] + at * e, n * e);
    for (int64_t hop = 1; hop < size; ++hop) {
      int64_t peer = (me + hop) % size;
      const char *src = (const char *)in->peers[KOLO_INPUT][peer];
      if (src) {
        src += at * e;
      } else {
        in->services->get((KoloInvocation *)in, peer, KOLO_INPUT, at * e, in->tile, n * e);
        src = (const char *)in->tile;
      }
      combine(in, out + at * e, src, n);
    }
    if (in->average) {
      void *const sum = out + at * e;
      in->average(&sum, 1, (const void *const *)&sum, 1, n, 0, size);
    }
  }
  return meetAll(in, 2, 3);
}

/* Every rank pulls its block of every input. */
static int32_t pullAllToAll(In in) {
  int64_t size = numRanks(in->dimSizes), me = selfRank(in), e = in->elementBytes;
  Part part = partOf(in);
  int64_t bytes = (part.end - part.begin) * e;
  int32_t status = meetAll(in, 0, 0);
  for (int64_t peer = 0; !status && bytes && peer < size; ++peer) {
    int64_t from = (me * in->count + part.begin) * e;
    char *dst = (char *)in->local[KOLO_OUTPUT] + (peer * in->count + part.begin) * e;
    if (in->peers[KOLO_INPUT][peer])
      copyBytes(dst, (char *)in->peers[KOLO_INPUT][peer] + from, bytes);
    else
      in->services->get((KoloInvocation *)in, peer, KOLO_INPUT, from, dst, bytes);
  }
  return status ? status : meetAll(in, 2, 1);
}

/* Every rank pushes its input into everybody's scratch. */
static int32_t scratchAllReduce(In in) {
  int64_t size = numRanks(in->dimSizes), me = selfRank(in), e = in->elementBytes, whole = in->count * e;
  Part part = partOf(in);
  int64_t begin = part.begin * e, n = part.end - part.begin;
  int32_t status = meetAll(in, 0, 4);
  for (int64_t peer = 0; !status && n && peer < size; ++peer)
    putTo(in, peer, KOLO_SCRATCH, me * whole + begin, (char *)in->local[KOLO_INPUT] + begin, n * e);
  if (!status)
    status = meetAll(in, 1, 5);
  if (status || !n)
    return status;
  char *out = (char *)in->local[KOLO_OUTPUT] + begin, *slots = (char *)in->local[KOLO_SCRATCH] + begin;
  copyBytes(out, slots, n * e);
  for (int64_t rank = 1; rank < size; ++rank)
    combine(in, out, slots + rank * whole, n);
  return 0;
}

/* Along the last of two dimensions. */
static int32_t rowBroadcast(In in) {
  int64_t gpus = in->dimSizes[1], row = in->coordinates[0] * gpus, me = in->coordinates[1], e = in->elementBytes;
  Part part = partOf(in);
  int64_t begin = part.begin * e, bytes = (part.end - part.begin) * e;
  if (me != in->root) {
    signalTo(in, row + in->root, 0);
    return waitFor(in, row + in->root, 1, 6);
  }
  const char *src = (const char *)in->local[KOLO_INPUT] + begin;
  if (bytes && in->local[KOLO_OUTPUT] != in->local[KOLO_INPUT])
    copyBytes((char *)in->local[KOLO_OUTPUT] + begin, src, bytes);
  for (int64_t gpu = 0; gpu < gpus; ++gpu) {
    if (gpu == me)
      continue;
    int32_t status = waitFor(in, row + gpu, 0, 7);
    if (status)
      return status;
    if (bytes)
      putTo(in, row + gpu, KOLO_OUTPUT, begin, src, bytes);
    signalTo(in, row + gpu, 1);
  }
  return 0;
}

/* Nobody ever signals the last rank, and everybody waits for it. */
static int32_t hang(In in) {
  int64_t size = numRanks(in->dimSizes), me = selfRank(in);
  return me == size - 1 ? waitFor(in, 0, 0, 8) : waitFor(in, size - 1, 0, 9);
}

/* Rank 0 waits for a packet that nobody sends; the others have nothing to do. */
static int32_t awaitNothing(In in) {
  static const uint64_t packet = UINT64_MAX; /* of no call */
  return selfRank(in) == 0 ? in->services->awaitPacket((KoloInvocation *)in, &packet, 0) : 0;
}

/* No rank waits before it puts: who has finished a call knows that all slots are free. */
static int32_t slotAllGather(In in) {
  int64_t size = numRanks(in->dimSizes), me = selfRank(in), e = in->elementBytes, chunk = in->count * e;
  Part part = partOf(in);
  int64_t begin = part.begin * e, bytes = (part.end - part.begin) * e;
  for (int64_t peer = 0; bytes && peer < size; ++peer)
    putTo(in, peer, KOLO_SCRATCH, me * chunk + begin, (char *)in->local[KOLO_INPUT] + begin, bytes);
  int32_t status = meetAll(in, 0, 0);
  for (int64_t rank = 0; !status && bytes && rank < size; ++rank) {
    int64_t offset = rank * chunk + begin;
    copyBytes((char *)in->local[KOLO_OUTPUT] + offset, (char *)in->local[KOLO_SCRATCH] + offset, bytes);
  }
  return status ? status : meetAll(in, 1, 1);
}

/* Says by which stores it was asked to write. */
static int32_t storesAllGather(In in) {
  int64_t bytes = numRanks(in->dimSizes) * in->count * in->elementBytes;
  for (int64_t i = 0; i < bytes; ++i)
    ((char *)in->local[KOLO_OUTPUT])[i] = (char)in->nonTemporal;
  return 0;
}

/* Ranks need nothing of each other. */
static int32_t standAlone(In in) { return 0; }

static int32_t misbehave(In in) {
  if (in->root == 0)
    return 5;
  signalTo(in, 1000, 0);
  return waitFor(in, 0, 1000, 0);
}

static int64_t noScratch(const KoloShape *shape) { return 0; }
static int64_t slotPerRank(const KoloShape *shape) {
  return numRanks(shape->dimSizes) * shape->count * shape->elementBytes;
}

#define KERNEL(name, type, op)                                                                                         \
  static void name(void *const *dsts, int64_t numDsts, const void *const *srcs, int64_t numSrcs, int64_t n,            \
                   int64_t nonTemporal) {                                                                              \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      type value = ((const type *)srcs[0])[i];                                                                         \
      for (int64_t s = 1; s < numSrcs; ++s)                                                                            \
        value = value op((const type *)srcs[s])[i];                                                                    \
      for (int64_t d = 0; d < numDsts; ++d)                                                                            \
        ((type *)dsts[d])[i] = value;                                                                                  \
    }                                                                                                                  \
  }
KERNEL(sumF32, float, +)
KERNEL(sumI32, int32_t, +)
KERNEL(sumU8, uint8_t, +)
static void averageF32(void *const *dsts, int64_t numDsts, const void *const *srcs, int64_t numSrcs, int64_t n,
                       int64_t nonTemporal, int64_t ranks) {
  sumF32(dsts, numDsts, srcs, numSrcs, n, nonTemporal);
  for (int64_t d = 0; d < numDsts; ++d)
    for (int64_t i = 0; i < n; ++i)
      ((float *)dsts[d])[i] /= (float)ranks;
}

static const KoloReduceKernel reduceKernels[KOLO_NUM_TYPES][KOLO_NUM_REDUCTIONS] = {
    [KOLO_F32] = {[KOLO_SUM] = sumF32, [KOLO_AVERAGE] = sumF32},
    [KOLO_I32] = {[KOLO_SUM] = sumI32},
    [KOLO_U8] = {[KOLO_SUM] = sumU8},
};
static const KoloReduceKernel wrongKernels[KOLO_NUM_TYPES][KOLO_NUM_REDUCTIONS];
static const KoloAverageKernel averageKernels[KOLO_NUM_TYPES] = {[KOLO_F32] = averageF32};

/* Rooted programs that publish their inputs. */
static int64_t oneBlock(const KoloShape *shape) { return shape->count * shape->elementBytes; }

static void publishAtRoot(In in) {
  Part part = partOf(in);
  int64_t e = in->elementBytes, begin = part.begin * e;
  if (selfRank(in) == in->root)
    copyBytes((char *)in->local[KOLO_PUBLISHED] + begin, (const char *)in->local[KOLO_INPUT] + begin,
              (part.end - part.begin) * e);
}

static int32_t publishedBroadcast(In in) {
  Part part = partOf(in);
  int64_t e = in->elementBytes, begin = part.begin * e;
  copyBytes((char *)in->local[KOLO_OUTPUT] + begin, (const char *)in->peers[KOLO_PUBLISHED][in->root] + begin,
            (part.end - part.begin) * e);
  return 0;
}

static void publishEverywhere(In in) {
  Part part = partOf(in);
  int64_t e = in->elementBytes, begin = part.begin * e;
  copyBytes((char *)in->local[KOLO_PUBLISHED] + begin, (const char *)in->local[KOLO_INPUT] + begin,
            (part.end - part.begin) * e);
}

static int32_t publishedReduce(In in) {
  Part part = partOf(in);
  int64_t e = in->elementBytes, begin = part.begin * e;
  if (selfRank(in) != in->root)
    return 0;
  char *out = (char *)in->local[KOLO_OUTPUT] + begin;
  copyBytes(out, (const char *)in->peers[KOLO_PUBLISHED][0] + begin, (part.end - part.begin) * e);
  for (int64_t rank = 1; rank < numRanks(in->dimSizes); ++rank)
    combine(in, out, (const char *)in->peers[KOLO_PUBLISHED][rank] + begin, part.end - part.begin);
  return 0;
}

#define PROGRAM(function, scratch) {.name = #function, .run = function, .scratchBytes = scratch}
static const KoloProgram programs[] = {
    PROGRAM(ringAllGather, noScratch),
    PROGRAM(pullAllReduce, noScratch),
    PROGRAM(scratchAllReduce, slotPerRank),
    PROGRAM(rowBroadcast, noScratch),
    PROGRAM(hang, noScratch),
    PROGRAM(misbehave, noScratch),
    PROGRAM(pullAllToAll, noScratch),
    PROGRAM(awaitNothing, noScratch),
    PROGRAM(standAlone, noScratch),
    PROGRAM(slotAllGather, slotPerRank),
    PROGRAM(storesAllGather, slotPerRank),
    {.name = "togetherAllGather", .run = ringAllGather, .scratchBytes = noScratch},
    {.name = "publishedBroadcast",
     .run = publishedBroadcast,
     .scratchBytes = noScratch,
     .publish = publishAtRoot,
     .publishedBytes = oneBlock},
    {.name = "publishedReduce",
     .run = publishedReduce,
     .scratchBytes = noScratch,
     .publish = publishEverywhere,
     .publishedBytes = oneBlock},
};
#if defined(__x86_64__)
#define THIS_CPU "x86-64"
#else
#define THIS_CPU "generic-aarch64"
#endif
/* The last one that the host can execute is taken: not one for a kind that no host is of. */
static const KoloKernels kernels[] = {{"another", wrongKernels, averageKernels},
                                      {THIS_CPU, reduceKernels, averageKernels},
                                      {"a later one", wrongKernels, averageKernels}};
static const KoloPlugin plugin = {KOLO_ABI_VERSION,
                                  sizeof(programs) / sizeof(programs[0]),
                                  programs,
                                  sizeof(kernels) / sizeof(kernels[0]),
                                  kernels,
                                  0,
                                  NULL};

__attribute__((visibility("default"))) const KoloPlugin *kolo_plugin(void);
const KoloPlugin *kolo_plugin(void) { return &plugin; }
