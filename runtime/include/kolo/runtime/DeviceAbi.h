/* The C boundary between a plugin's kernels and their launcher. Both sides include this file and nothing else of each
 * other. It uses plain memory only: no type of a GPU library and no struct of a communication library.
 *
 * A plugin with code for devices exports the symbol `kolo_device_plugin`, of type KoloDevicePluginEntry, beside
 * `kolo_plugin`.
 *
 * The launcher launches numLanes x numRanks x 1 blocks of numThreads x 1 x 1 threads, without dynamic shared memory.
 * The kernel's one parameter is `const KoloDeviceInvocation *invocations`. Block (lane, i) runs that lane of the rank
 * that invocations[i] describes. So one launch can run several ranks that share a device. All blocks of all ranks of a
 * call wait for each other, so the devices must hold all of them at once. numLanes is the same on all ranks. numThreads
 * is a multiple of 64, at most KOLO_DEVICE_MAX_THREADS.
 *
 * System-scope stores to buffers and semaphores of peers must be visible to other devices while a kernel runs. On AMD
 * devices this memory must be fine-grained or uncached.
 */
#pragma once

#include "kolo/runtime/PluginAbi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every change of a struct, of a function type or of the launch in this file raises this number. */
#define KOLO_DEVICE_ABI_VERSION 9u
#define KOLO_DEVICE_SYMBOL "kolo_device_plugin"
#define KOLO_DEVICE_MAX_THREADS 512

/* Why a lane could not finish. */
typedef enum KoloDeviceFailureCode {
  KOLO_DEVICE_OK,
  KOLO_DEVICE_TIMEOUT, /* a signal did not come within timeoutNs */
  KOLO_DEVICE_ABORTED  /* the host or another lane set *abort */
} KoloDeviceFailureCode;

#define KOLO_DEVICE_PACKETS (-1)
#define KOLO_DEVICE_QUEUE (-2)

/* What a lane waited for when it failed. A failing lane writes its own record, `code` last and with a system-scope
 * release. If `code` is already set, an earlier call has failed, and the lane keeps that call's record. */
typedef struct KoloDeviceFailure {
  uint64_t code; /* KoloDeviceFailureCode; zero before the launch */
  int64_t peer;  /* rank of the mesh, row-major; KOLO_DEVICE_PACKETS: the lane waited for a packet of an unknown rank */
  int64_t semaphore; /* of `peer`; KOLO_DEVICE_PACKETS likewise; KOLO_DEVICE_QUEUE: the lane waited until its
                      * KoloDeviceQueue had room for what goes to `peer` */
  int64_t statement; /* index into the manifest's statements of the program */
  uint64_t expected; /* value of the semaphore, or sequence of the packets, that the lane waited for */
  uint64_t found;    /* value that the lane saw last; 0 for packets */
} KoloDeviceFailure;

/* One rank in one call, in memory that the device can read. The launcher fills it before the launch and leaves it
 * unchanged until the launch has ended. Kernels only read it.
 *
 * Semaphores are counters that only grow, one per (lane, semaphore, sending rank), in the receiving rank's memory.
 * `sent` and `awaited` count the signals and the waits of this rank. All of them start at zero and are kept from call
 * to call of the same program with the same peers; nobody resets them. Calls of one rank that use the same counters
 * must not overlap. After a failure the counters are out of step, and the communicator cannot be used any more.
 *
 * All indices are row-major. S is the number of semaphores of the program (in the manifest); R is numRanks. */
typedef struct KoloDeviceInvocation {
  int64_t dimSizes[KOLO_MAX_MESH_DIMS];    /* ranks along each mesh dimension, slowest first; 1 past the last */
  int64_t coordinates[KOLO_MAX_MESH_DIMS]; /* of this rank; 0 past the last */
  int64_t rank, numRanks;                  /* this rank's number in the mesh, row-major, and the size of the mesh */
  int64_t count;                           /* elements, as the collective counts them: see `count` in KoloProgram */
  int64_t elementBytes;
  int64_t root;                       /* rank number inside the group the collective runs over */
  int64_t type, reduction;            /* KoloType, KoloReduction; ignored when the program reduces nothing */
  void *local[KOLO_NUM_BUFFER_ROLES]; /* this rank's buffers, by KoloBufferRole, aligned to elements; may be null when
                                         empty */
  void *const *peers[KOLO_NUM_BUFFER_ROLES]; /* [role][rank]: that rank's buffer as mapped here, this rank's included */
  uint64_t *const *peerSemaphores;           /* [rank]: that rank's semaphores as mapped here, this rank's included */
  uint64_t *semaphores;                      /* this rank's, which peers raise: [lane][S][R], by sending rank */
  uint64_t *sent;                            /* [lane][S][R], by receiving rank; device memory of this rank alone */
  uint64_t *awaited;                         /* [lane][S][R], by sending rank; device memory of this rank alone */
  uint64_t *calls;       /* [lane]: calls so far of this program on this rank: what stochastic codecs draw by; memory
                          * of this rank alone, zero at first */
  uint64_t *packetCalls; /* [lane]: calls so far with this packet buffer; memory of this rank alone, zero at
                          * first. Null when the program has no packets */
  int64_t packetBytes;   /* KoloProgram.packetBytes: from one half of the packet buffer to the other */
  uint64_t *abort;       /* in host memory; non-zero: waiting lanes end. A lane that times out sets it */
  KoloDeviceFailure *failures; /* [lane], in host memory */
  uint64_t timeoutNs;          /* nanoseconds until a wait times out, by the device's clock */
  /* kolo_reciprocal of dimSizes and of numLanes: kernels multiply where they would divide. */
  uint64_t dimReciprocals[KOLO_MAX_MESH_DIMS], laneReciprocal;
  /* Block tables, as in KoloInvocation, of a call that has some: [KoloBufferRole], input and output alone. Null
   * otherwise. A rank reads the table of a peer's places where it accesses that buffer, in the peer's memory or
   * elsewhere. */
  const int64_t *blockCounts[2];       /* [block]: elements of each block of this rank */
  const int64_t *blockPlaces[2];       /* [block]: elements from the beginning of this rank's buffer to it */
  const int64_t *const *peerPlaces[2]; /* [rank][block]: the same for every rank, this rank included */
} KoloDeviceInvocation;

/* What a lane asks the host to write to a rank of another host. */
typedef struct KoloDeviceRequest {
  uint32_t kind;      /* KoloDeviceRequestKind */
  uint32_t semaphore; /* SIGNAL: of the program */
  int64_t peer;       /* rank of the mesh */
  uint64_t agreement; /* number by which the peer knows the memory, or the cells */
  uint64_t offset;    /* PUT: bytes from the beginning of the peer's memory */
  uint64_t value;     /* PUT: bytes, 1 to KOLO_DEVICE_CHUNK_BYTES; SIGNAL: the new count */
  const void *source; /* PUT: a chunk of the lane's outbox */
  uint64_t reserved[2];
} KoloDeviceRequest;

typedef enum KoloDeviceRequestKind { KOLO_DEVICE_PUT, KOLO_DEVICE_SIGNAL } KoloDeviceRequestKind;

#define KOLO_DEVICE_CHUNK_BYTES 131072u
#define KOLO_DEVICE_CHUNKS 4u
#define KOLO_DEVICE_REQUESTS 64u

/* The requests of one lane, in memory of the host that the device accesses. The lane writes request n, from 0, to
 * requests[n % KOLO_DEVICE_REQUESTS] once taken + KOLO_DEVICE_REQUESTS > n. Then it writes n + 1 to `written`, with a
 * system-scope release after all that the block has stored. The host takes requests in order, so that a signal arrives
 * after the lane's earlier puts to that peer. The k-th put of a lane, from 0, lies in chunk k % KOLO_DEVICE_CHUNKS of
 * the outbox, which the lane writes once freed + KOLO_DEVICE_CHUNKS > k. All counts only grow. The host goes on taking
 * requests, and freeing chunks, after a failure. */
typedef struct KoloDeviceQueue {
  KoloDeviceRequest requests[KOLO_DEVICE_REQUESTS];
  uint64_t written; /* by the lane */
  uint64_t apart[7];
  uint64_t taken, freed; /* by the host: requests that it has read, and chunks that may be overwritten */
  uint64_t apartToo[6];
  unsigned char *outbox; /* KOLO_DEVICE_CHUNKS chunks of KOLO_DEVICE_CHUNK_BYTES bytes; memory as that of inboxes */
  uint64_t reserved[7];
} KoloDeviceQueue;

/* Counts of a lane, in device memory of its rank alone, zero at first, and kept from call to call of all programs. */
typedef struct KoloDeviceQueueCounts {
  uint64_t requests, puts; /* that the lane has written */
} KoloDeviceQueueCounts;

/* A cell that a network raises, in memory of the host: 64 bytes, of which the first 8 hold twice the count. */
#define KOLO_DEVICE_CELL_BYTES 64u

/* What one rank has in a call of a program that may cross a network: one whose KoloDevicePlugin.inboxBytes is not null.
 * The kernel's parameter is `const KoloDeviceNetworkInvocation *invocations` then. The program writes to a rank of
 * another host only by puts to its inbox and by signals.
 *
 * Its tables are by place instead of by rank, and a rank has places only for those it shares a host with or talks to.
 * Places 0 to H - 1 are those of the H ranks of this host, in the order of their numbers: the same for all of them,
 * this rank included. Places H to H + F - 1 are those of the F ranks of other hosts that this rank signals, waits for
 * or puts to. `call.peers` and `call.peerSemaphores` have H + 1 entries. The last is null and stands for all ranks of
 * other hosts. `call.semaphores`, which ranks of this host raise, are [lane][S][H], by the sender's place. `call.sent`
 * and `call.awaited` are [lane][S][H + F]. `call.peerPlaces` are by rank. */
typedef struct KoloDeviceNetworkInvocation {
  KoloDeviceInvocation call;
  void *inbox;                        /* this rank's, aligned to 64 bytes, in memory of the host or of the device */
  void *const *peerInboxes;           /* [place], as `call.peers`: that rank's inbox as mapped here */
  uint64_t inboxAgreement;            /* what requests name: the memory in which the inboxes of all ranks are, */
  uint64_t inboxOffset;               /* bytes from its beginning to the inbox, the same on all ranks, */
  uint64_t cellsAgreement;            /* and the program's cells of all ranks */
  const void *cells;                  /* this rank's: [lane][S][F], by the sender's place, less H */
  const uint32_t *places;             /* [rank]; this rank's own for one that has none */
  int64_t numHere, numFar;            /* H and F */
  KoloDeviceQueue *queues;            /* [lane] */
  KoloDeviceQueueCounts *queueCounts; /* [lane] */
} KoloDeviceNetworkInvocation;

/* (2^64 - 1) / divisor, rounded down. With it, floor(a * reciprocal / 2^64) is a / divisor or one less, for every a. */
static inline uint64_t kolo_reciprocal(int64_t divisor) { return UINT64_MAX / (uint64_t)divisor; }

/* Scratch memory has KoloProgram.scratchBytes bytes, and is aligned to 64 bytes. The packet buffer has twice
 * KoloProgram.packetBytes bytes, is aligned to 128 bytes and starts zeroed. On every rank only calls of one shape use
 * it. */

typedef enum KoloDeviceFormat {
  KOLO_DEVICE_PTX,   /* text for cuModuleLoadData, with a terminating zero that sizeBytes counts */
  KOLO_DEVICE_HSACO, /* a code object for hipModuleLoadData */
  KOLO_DEVICE_CUBIN  /* machine code for cuModuleLoadData */
} KoloDeviceFormat;

/* A pair that every image has code for. A launch with any other pair ends in a trap, so the launcher refuses it. */
typedef struct KoloDeviceReduction {
  int32_t type;      /* KoloType */
  int32_t reduction; /* KoloReduction */
} KoloDeviceReduction;

typedef struct KoloDeviceImage {
  const char *kind;         /* "cuda" or "hip" */
  const char *architecture; /* "sm_90": PTX runs on it and on later ones, a cubin on it alone; "gfx90a" */
  const void *data;
  uint64_t sizeBytes;
  uint32_t format;   /* KoloDeviceFormat */
  uint32_t reserved; /* zero */
} KoloDeviceImage;

/* A rank in calls on this mesh with this root, and who asks about its peers. */
typedef struct KoloDevicePeers {
  int64_t dimSizes[KOLO_MAX_MESH_DIMS];    /* as in KoloDeviceInvocation */
  int64_t coordinates[KOLO_MAX_MESH_DIMS]; /* likewise */
  int64_t root;                            /* likewise */
  void (*note)(void *context, int64_t peer);
  void *context;
} KoloDevicePeers;

typedef struct KoloDevicePlugin {
  uint32_t abiVersion;        /* KOLO_DEVICE_ABI_VERSION */
  uint32_t numKernels;        /* as many as KoloPlugin has programs, in the same order */
  const char *const *kernels; /* names, in every image the same */
  uint32_t numReductions;
  uint32_t numImages;
  const KoloDeviceReduction *reductions;
  const KoloDeviceImage *images;
  /* Names of the kernels for calls with block tables, by program; null for a program that takes none. The other kernel
   * of such a program has no code for tables. */
  const char *const *tableKernels;
  /* By program: the bytes of a rank's inbox for this shape, the same on every rank; null for a program that needs all
   * ranks on one host. Scratch memory has room for the inbox, too, which kernels leave unused. */
  int64_t (*const *inboxBytes)(const KoloShape *shape);
  /* By program, null where inboxBytes is: calls `note` once or more for every rank that the rank signals, waits for, or
   * puts to the inbox of, in such a call. The count and the lane make no difference. */
  void (*const *peers)(const KoloDevicePeers *rank);
} KoloDevicePlugin;

typedef const KoloDevicePlugin *(*KoloDevicePluginEntry)(void);

#ifdef __cplusplus
}
#endif
