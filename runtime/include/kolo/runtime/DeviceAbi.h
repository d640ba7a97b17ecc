/* The C boundary between a plugin's kernels and whoever launches them. Both sides include this file and nothing else of
 * each other. It speaks of plain memory only: no type of any GPU library, no struct of any communication library.
 *
 * A plugin that carries code for devices exports, beside `kolo_plugin`, the symbol `kolo_device_plugin`, of type
 * KoloDevicePluginEntry.
 *
 * A launch: the grid is numLanes x numRanks x 1 blocks, blocks are numThreads x 1 x 1 threads, no dynamic shared
 * memory, one parameter: `const KoloDeviceInvocation *invocations`. Block (lane, i) runs that lane of the rank that
 * invocations[i] describes, so that one launch can run several ranks that share a device; a launch of one rank has
 * numRanks 1. All blocks of all ranks of a call wait for each other: they must all be resident at once. numLanes is the
 * same on all ranks. numThreads is a multiple of 64, at most KOLO_DEVICE_MAX_THREADS.
 *
 * Memory that peers read or write (buffers, semaphores) must show system-scope stores to other devices while a kernel
 * runs: on AMD devices it has to be fine-grained or uncached.
 */
#pragma once

#include "kolo/runtime/PluginAbi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct, a function type or the way to launch in this file changes in any way. */
#define KOLO_DEVICE_ABI_VERSION 3u
#define KOLO_DEVICE_SYMBOL "kolo_device_plugin"
#define KOLO_DEVICE_MAX_THREADS 512

/* How a lane ended that could not finish. */
typedef enum KoloDeviceFailureCode {
  KOLO_DEVICE_OK,
  KOLO_DEVICE_TIMEOUT, /* a signal did not come within pollLimit polls */
  KOLO_DEVICE_ABORTED  /* somebody set *abort */
} KoloDeviceFailureCode;

#define KOLO_DEVICE_PACKETS (-1)

/* What a lane waited for in vain. A lane that fails writes its own record, `code` last and with a system-scope release,
 * unless `code` is not zero any more: then an earlier call has failed, and its record tells more. */
typedef struct KoloDeviceFailure {
  uint64_t code; /* KoloDeviceFailureCode; zero before the launch */
  int64_t peer;  /* rank of the mesh, row-major; KOLO_DEVICE_PACKETS: it waited for packets, whoever was to put them */
  int64_t semaphore; /* likewise */
  int64_t statement; /* index into the manifest's statements of the program */
  uint64_t expected; /* value of the semaphore, or sequence of the packets, that was waited for */
  uint64_t found;    /* value that was seen last; of packets 0 */
} KoloDeviceFailure;

/* One rank in one call. Filled before the launch, in memory that the device can read; kernels only read it, and nobody
 * writes it before the launch has ended.
 *
 * Semaphores are counters that only grow, one per (lane, semaphore, sending rank), in the receiving rank's memory.
 * `sent` and `awaited` are the rank's own counts of what it has signalled and waited for: zero at first, like the
 * semaphores, then kept from call to call of the same program with the same peers, and never reset. Calls of one rank
 * on them must not overlap. After a failure they are out of step: the communicator is of no more use.
 *
 * All indices are row-major; S is the number of semaphores of the program (in the manifest), R is numRanks. */
typedef struct KoloDeviceInvocation {
  int64_t dimSizes[KOLO_MAX_MESH_DIMS];    /* ranks along each mesh dimension, slowest first; 1 past the last */
  int64_t coordinates[KOLO_MAX_MESH_DIMS]; /* of this rank; 0 past the last */
  int64_t rank, numRanks;                  /* this rank's number in the mesh, row-major, and the size of the mesh */
  int64_t count;                           /* elements, as the collective counts them: see `count` in KoloProgram */
  int64_t elementBytes;
  int64_t root;                       /* rank number inside the group the collective runs over */
  int64_t type, reduction;            /* KoloType, KoloReduction; of no meaning where the program reduces nothing */
  void *local[KOLO_NUM_BUFFER_ROLES]; /* this rank's buffers, by KoloBufferRole, aligned to elements; may be null when
                                         empty */
  void *const *peers[KOLO_NUM_BUFFER_ROLES]; /* [role][rank]: that rank's buffer as mapped here, this rank's included */
  uint64_t *const *peerSemaphores;           /* [rank]: that rank's semaphores as mapped here, this rank's included */
  uint64_t *semaphores;                      /* this rank's, which peers raise: [lane][S][R], by sending rank */
  uint64_t *sent;                            /* [lane][S][R], by receiving rank; device memory of this rank alone */
  uint64_t *awaited;                         /* [lane][S][R], by sending rank; device memory of this rank alone */
  uint64_t *packetCalls;       /* [lane]: calls so far with this memory for packets; of this rank alone, zero at
                                * first. Null where there are no packets */
  int64_t packetBytes;         /* from one turn of the memory for packets to the other: KoloProgram.packetBytes */
  uint64_t *abort;             /* in host memory; non-zero: waiting lanes end. A lane that times out sets it */
  KoloDeviceFailure *failures; /* [lane], in host memory */
  uint64_t pollLimit;          /* polls until a wait times out, at least 1; a poll takes up to a microsecond */
} KoloDeviceInvocation;

/* Bytes of scratch memory are what KoloProgram.scratchBytes says, with the same shape. Memory for packets is twice as
 * large as KoloProgram.packetBytes says, aligned to 128 bytes, zero at first, and used by calls of one shape alone, on
 * all ranks. */

typedef enum KoloDeviceFormat {
  KOLO_DEVICE_PTX,   /* text for cuModuleLoadData, with a terminating zero that sizeBytes counts */
  KOLO_DEVICE_HSACO, /* a code object for hipModuleLoadData */
  KOLO_DEVICE_CUBIN  /* machine code for cuModuleLoadData */
} KoloDeviceFormat;

/* What programs that reduce have code for, in every image. A launch with any other pair ends in a trap: refuse it
 * before. */
typedef struct KoloDeviceReduction {
  int32_t type;      /* KoloType */
  int32_t reduction; /* KoloReduction */
} KoloDeviceReduction;

typedef struct KoloDeviceImage {
  const char *kind;         /* "cuda" or "hip" */
  const char *architecture; /* "sm_90": PTX runs there and on later ones, a cubin there only, as on "gfx90a" */
  const void *data;
  uint64_t sizeBytes;
  uint32_t format;   /* KoloDeviceFormat */
  uint32_t reserved; /* zero */
} KoloDeviceImage;

typedef struct KoloDevicePlugin {
  uint32_t abiVersion;        /* KOLO_DEVICE_ABI_VERSION */
  uint32_t numKernels;        /* as many as KoloPlugin has programs, in the same order */
  const char *const *kernels; /* names, in every image the same */
  uint32_t numReductions;
  uint32_t numImages;
  const KoloDeviceReduction *reductions;
  const KoloDeviceImage *images;
} KoloDevicePlugin;

typedef const KoloDevicePlugin *(*KoloDevicePluginEntry)(void);

#ifdef __cplusplus
}
#endif
