/* A plugin written by hand whose programs are for devices: their kernels are those of DeviceKernels.c, as its PTX for
 * sm_70 and its cubin for sm_100. The PTX for sm_100 is none, the cubin for sm_80 is one for sm_100, and there is an
 * image for a device that no test has. The host's code is never run. */
#include "kolo/runtime/DeviceAbi.h"

#include <stddef.h>

/* KOLO_TEST_KERNELS is the path of the library of DeviceKernels.c. */
__asm__(".section .rodata\n"
        ".balign 64\n"
        "cubinBegin: .ascii \"cubin 100\"\n" /* the head of the stand-in driver's cubins */
        ".balign 64\n"
        ".incbin \"" KOLO_TEST_KERNELS "\"\n"
        "cubinEnd: .byte 0\n"
        ".balign 64\n"
        "kernelsBegin: .incbin \"" KOLO_TEST_KERNELS "\"\n"
        "kernelsEnd: .byte 0\n"
        ".previous\n");
extern const char kernelsBegin[] __attribute__((visibility("hidden"))),
    kernelsEnd[] __attribute__((visibility("hidden"))), cubinBegin[] __attribute__((visibility("hidden"))),
    cubinEnd[] __attribute__((visibility("hidden")));

static int32_t runNot(const KoloInvocation *invocation) { return 1; }
static int64_t noScratch(const KoloShape *shape) { return 0; }
static int64_t slotPerRank(const KoloShape *shape) {
  return shape->dimSizes[0] * shape->dimSizes[1] * shape->dimSizes[2] * shape->dimSizes[3] * shape->count *
         shape->elementBytes;
}
static void reduceNot(void *const *dsts, int64_t numDsts, const void *const *srcs, int64_t numSrcs, int64_t n,
                      int64_t nonTemporal) {}
static void averageNot(void *const *dsts, int64_t numDsts, const void *const *srcs, int64_t numSrcs, int64_t n,
                       int64_t nonTemporal, int64_t ranks) {}

/* The host has code for more than the devices. */
static const KoloReduceKernel reduceKernels[KOLO_NUM_TYPES][KOLO_NUM_REDUCTIONS] = {
    [KOLO_F32] = {[KOLO_SUM] = reduceNot, [KOLO_MAX] = reduceNot, [KOLO_AVERAGE] = reduceNot},
    [KOLO_F16] = {[KOLO_AVERAGE] = reduceNot},
    [KOLO_F64] = {[KOLO_SUM] = reduceNot},
    [KOLO_I32] = {[KOLO_SUM] = reduceNot},
};
static const KoloAverageKernel averageKernels[KOLO_NUM_TYPES] = {[KOLO_F16] = averageNot, [KOLO_F32] = averageNot};

static const KoloProgram programs[] = {{.name = "ringAllGather", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "pullAllReduce", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "scratchAllReduce", .run = runNot, .scratchBytes = slotPerRank},
                                       {.name = "hang", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "directAllToAll", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "directGather", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "directScatter", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "ownAllGather", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "networkAllGather", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "networkAllReduce", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "networkHang", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "nodesAllGather", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "hostAllGather", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "networkFlood", .run = runNot, .scratchBytes = noScratch},
                                       {.name = "networkRing", .run = runNot, .scratchBytes = noScratch}};
#if defined(__x86_64__)
static const KoloKernels hostKernels[] = {{"x86-64", reduceKernels, averageKernels}};
#else
static const KoloKernels hostKernels[] = {{"generic-aarch64", reduceKernels, averageKernels}};
#endif
static const KoloPlugin plugin = {
    KOLO_ABI_VERSION, sizeof(programs) / sizeof(programs[0]), programs, 1, hostKernels, 0, NULL};

/* No test calls the last three of these eight without tables. Then come programs that may cross a network, and one that
 * may do so on the host alone. */
static const char *const kernels[] = {
    "ringAllGather",    "pullAllReduce",       "scratchAllReduce",     "hang",
    "directAllToAll",   "directGather_tables", "directScatter_tables", "ownAllGather_tables",
    "networkAllGather", "networkAllReduce",    "networkHang",          "networkAllGather",
    "ringAllGather",    "networkFlood",        "networkRing"};
/* That of "hang" is missing, although the manifest says that it takes tables. */
static const char *const tableKernels[] = {"ringAllGather_tables",
                                           NULL,
                                           NULL,
                                           NULL,
                                           "directAllToAll_tables",
                                           "directGather_tables",
                                           "directScatter_tables",
                                           "ownAllGather_tables",
                                           NULL,
                                           NULL,
                                           NULL,
                                           NULL,
                                           NULL,
                                           NULL,
                                           NULL};
static int64_t (*const inboxBytes[])(const KoloShape *) = {NULL,      NULL,        NULL, NULL,        NULL,
                                                           NULL,      NULL,        NULL, slotPerRank, slotPerRank,
                                                           noScratch, slotPerRank, NULL, slotPerRank, slotPerRank};
static int64_t numRanks(const KoloDevicePeers *rank) {
  return rank->dimSizes[0] * rank->dimSizes[1] * rank->dimSizes[2] * rank->dimSizes[3];
}
static int64_t numberOf(const KoloDevicePeers *rank) {
  int64_t number = 0;
  for (int dim = 0; dim < KOLO_MAX_MESH_DIMS; ++dim)
    number = number * rank->dimSizes[dim] + rank->coordinates[dim];
  return number;
}
static void allPeers(const KoloDevicePeers *rank) {
  for (int64_t peer = 0; peer < numRanks(rank); ++peer)
    if (peer != numberOf(rank))
      rank->note(rank->context, peer);
}
/* The last rank waits for rank 0. All others wait for the last, or put to it. */
static void lastPeer(const KoloDevicePeers *rank) {
  int64_t last = numRanks(rank) - 1;
  rank->note(rank->context, numberOf(rank) == last ? 0 : last);
}
static void neighbours(const KoloDevicePeers *rank) {
  int64_t size = numRanks(rank), me = numberOf(rank);
  rank->note(rank->context, (me + 1) % size);
  rank->note(rank->context, (me + size - 1) % size);
}
static void (*const peers[])(const KoloDevicePeers *) = {
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, allPeers, allPeers, lastPeer, allPeers, NULL, lastPeer, neighbours};
static const KoloDeviceReduction reductions[] = {{KOLO_F32, KOLO_SUM}, {KOLO_I32, KOLO_SUM}, {KOLO_F16, KOLO_AVERAGE}};
static const char noImage[] = ".version 7.0";
static KoloDeviceImage images[] = {
    {"cuda", "sm_100", noImage, sizeof(noImage), KOLO_DEVICE_PTX, 0},
    {"cuda", "sm_70", NULL, 0, KOLO_DEVICE_PTX, 0},
    {"cuda", "sm_100", NULL, 0, KOLO_DEVICE_CUBIN, 0},
    {"cuda", "sm_80", NULL, 0, KOLO_DEVICE_CUBIN, 0},
    {"hip", "gfx1234", noImage, sizeof(noImage), KOLO_DEVICE_HSACO, 0},
    {"hip", "gfx90a", NULL, 0, KOLO_DEVICE_HSACO, 0},
};
static const KoloDevicePlugin devicePlugin = {KOLO_DEVICE_ABI_VERSION,
                                              sizeof(kernels) / sizeof(kernels[0]),
                                              kernels,
                                              sizeof(reductions) / sizeof(reductions[0]),
                                              sizeof(images) / sizeof(images[0]),
                                              reductions,
                                              images,
                                              tableKernels,
                                              inboxBytes,
                                              peers};

/* The first function that is called, and by one thread: it completes the table of images. */
__attribute__((visibility("default"))) const KoloPlugin *kolo_plugin(void);
const KoloPlugin *kolo_plugin(void) {
  images[1].data = images[5].data = kernelsBegin;
  images[1].sizeBytes = images[5].sizeBytes = (uint64_t)(kernelsEnd - kernelsBegin);
  images[2].data = images[3].data = cubinBegin;
  images[2].sizeBytes = images[3].sizeBytes = (uint64_t)(cubinEnd - cubinBegin);
  return &plugin;
}

__attribute__((visibility("default"))) const KoloDevicePlugin *kolo_device_plugin(void);
const KoloDevicePlugin *kolo_device_plugin(void) { return &devicePlugin; }
