/* The C boundary between a compiled plugin and the runtime. Both sides include this file and nothing else of each
 * other.
 *
 * A plugin file is an ELF shared library, followed by a manifest (JSON, UTF-8), followed by a KoloPluginFooter, the
 * last bytes of the file. A loader reads the footer and the manifest, and checks both, before it maps any code. The
 * library exports one symbol, `kolo_plugin`, of type KoloPluginEntry. It has no constructors and needs no other
 * library, but for code that is instrumented for a sanitizer: that needs the sanitizer's functions of the process that
 * loads it.
 *
 * Nothing here throws, prints or aborts. All pointers stay owned by the side that made them. Sizes are bytes where the
 * name says so, elements otherwise.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct or a function type in this file changes in any way. */
#define KOLO_ABI_VERSION 12u
#define KOLO_MAX_MESH_DIMS 4
#define KOLO_MIN_TILE_BYTES 65536
#define KOLO_MAX_MESH_RANKS 1048576 /* of the largest mesh that a program is compiled, checked or predicted for */
#define KOLO_PLUGIN_SYMBOL "kolo_plugin"

/* The facts that every part of Kolo shares: the enums, names, sizes and parsers of all layers come from these four
 * lists, or are tied to them. Each row is X(constant, enumerator, name, ...). Numbers follow the order of the rows. */

/* X(constant, enumerator, name, size in bytes, KoloTypeKind) */
#define KOLO_FOR_EACH_TYPE(X)                                                                                          \
  X(F16, F16, "f16", 2, KOLO_FLOAT)                                                                                    \
  X(BF16, BF16, "bf16", 2, KOLO_FLOAT)                                                                                 \
  X(F32, F32, "f32", 4, KOLO_FLOAT)                                                                                    \
  X(F64, F64, "f64", 8, KOLO_FLOAT)                                                                                    \
  X(I8, I8, "i8", 1, KOLO_SIGNED)                                                                                      \
  X(U8, U8, "u8", 1, KOLO_UNSIGNED)                                                                                    \
  X(I32, I32, "i32", 4, KOLO_SIGNED)                                                                                   \
  X(U32, U32, "u32", 4, KOLO_UNSIGNED)                                                                                 \
  X(I64, I64, "i64", 8, KOLO_SIGNED)                                                                                   \
  X(U64, U64, "u64", 8, KOLO_UNSIGNED)

/* Average is the sum, divided once by the number of ranks reduced. Floating point is divided by IEEE division. On
 * hosts, averages of f16 and bf16 are summed and divided in f32, and rounded once; devices sum bf16 in bf16, and
 * average no f16. The sum of integers wraps before it is divided, towards zero: the average of 100 and 100 in i8 is
 * -28. Min and max of floating point are minimum and maximum of IEEE 754-2019: a NaN wins, and -0 is below +0. Every
 * result that is a NaN is the type's one NaN: positive, quiet, without payload. */
#define KOLO_FOR_EACH_REDUCTION(X)                                                                                     \
  X(SUM, Sum, "sum")                                                                                                   \
  X(PRODUCT, Product, "product")                                                                                       \
  X(MIN, Min, "min")                                                                                                   \
  X(MAX, Max, "max")                                                                                                   \
  X(AVERAGE, Average, "average")

/* X(constant, enumerator, name, KoloExtent of the input, KoloExtent of the output, whether it reduces) */
#define KOLO_FOR_EACH_COLLECTIVE(X)                                                                                    \
  X(ALL_GATHER, AllGather, "all_gather", KOLO_BLOCK, KOLO_BLOCKS, 0)                                                   \
  X(REDUCE_SCATTER, ReduceScatter, "reduce_scatter", KOLO_BLOCKS, KOLO_BLOCK, 1)                                       \
  X(ALL_REDUCE, AllReduce, "all_reduce", KOLO_BLOCK, KOLO_BLOCK, 1)                                                    \
  X(BROADCAST, Broadcast, "broadcast", KOLO_ROOT_BLOCK, KOLO_BLOCK, 0)                                                 \
  X(REDUCE, Reduce, "reduce", KOLO_BLOCK, KOLO_ROOT_BLOCK, 1)                                                          \
  X(GATHER, Gather, "gather", KOLO_BLOCK, KOLO_ROOT_BLOCKS, 0)                                                         \
  X(SCATTER, Scatter, "scatter", KOLO_ROOT_BLOCKS, KOLO_BLOCK, 0)                                                      \
  X(ALL_TO_ALL, AllToAll, "all_to_all", KOLO_BLOCKS, KOLO_BLOCKS, 0)                                                   \
  X(SCAN, Scan, "scan", KOLO_BLOCK, KOLO_BLOCK, 1)                                                                     \
  X(EXSCAN, Exscan, "exscan", KOLO_BLOCK, KOLO_BLOCK, 1)

/* Published memory is the runtime's. A rank writes it in `publish`; every rank may read it in `run` of the same call.
 *
 * Memory for packets is the runtime's too. It holds packets only, and zeros at first. An LL packet is 8 bytes, aligned,
 * read and written at once: the lower half is data, the upper half the `sequence` of the call that wrote it. An LL128
 * line is 128 bytes, aligned: 120 bytes of data, then a word of 8. The word's upper half is the sequence, its lower
 * half is 0. A rank that reads the word of a call finds the data of that call. The manifest says whether a program uses
 * LL packets or LL128 lines. The two never share memory, since data in a line may look like any word. */
#define KOLO_FOR_EACH_BUFFER_ROLE(X)                                                                                   \
  X(INPUT, Input, "input")                                                                                             \
  X(OUTPUT, Output, "output")                                                                                          \
  X(SCRATCH, Scratch, "scratch")                                                                                       \
  X(PUBLISHED, Published, "published")                                                                                 \
  X(PACKETS, Packets, "packets")

/* How much of a buffer a rank has: a block of `count` elements, or one such block per rank of the group. */
typedef enum KoloExtent {
  KOLO_BLOCK,
  KOLO_BLOCKS,
  KOLO_ROOT_BLOCK, /* at the root alone */
  KOLO_ROOT_BLOCKS /* at the root alone */
} KoloExtent;

typedef enum KoloTypeKind { KOLO_FLOAT, KOLO_SIGNED, KOLO_UNSIGNED } KoloTypeKind;

#define KOLO_CONSTANT(CONSTANT, ...) KOLO_##CONSTANT,
typedef enum KoloType { KOLO_FOR_EACH_TYPE(KOLO_CONSTANT) KOLO_NUM_TYPES } KoloType;
typedef enum KoloReduction { KOLO_FOR_EACH_REDUCTION(KOLO_CONSTANT) KOLO_NUM_REDUCTIONS } KoloReduction;
typedef enum KoloCollective { KOLO_FOR_EACH_COLLECTIVE(KOLO_CONSTANT) KOLO_NUM_COLLECTIVES } KoloCollective;
typedef enum KoloBufferRole { KOLO_FOR_EACH_BUFFER_ROLE(KOLO_CONSTANT) KOLO_NUM_BUFFER_ROLES } KoloBufferRole;
#undef KOLO_CONSTANT

/* dsts[d][i] = srcs[0][i] op srcs[1][i] op ..., from the left, for all d < numDsts and i < numElements. At least one
 * source; a destination may be a source, but does not overlap one otherwise. `nonTemporal`: see KoloInvocation; then
 * everything is visible to whoever sees what is stored afterwards, all the same. */
typedef void (*KoloReduceKernel)(void *const *dsts, int64_t numDsts, const void *const *srcs, int64_t numSrcs,
                                 int64_t numElements, int64_t nonTemporal);
/* The same for a sum that is divided by numRanks before it is stored: what an average ends with. */
typedef void (*KoloAverageKernel)(void *const *dsts, int64_t numDsts, const void *const *srcs, int64_t numSrcs,
                                  int64_t numElements, int64_t nonTemporal, int64_t numRanks);

typedef struct KoloInvocation KoloInvocation;

/* Memory that non-temporal stores write. Programs may use them for outputs whatever bit is set. */
typedef enum KoloNonTemporal {
  KOLO_TO_OUTPUT = 1, /* `run` to outputs, `publish` to published memory */
  KOLO_TO_SCRATCH = 2
} KoloNonTemporal;

/* What generated code asks of the runtime. `peer` is a rank number of the mesh, row-major.
 *
 * Semaphores are counters that only grow, one per (semaphore, sending rank, receiving rank, lane). The k-th wait on one
 * returns once it was signalled k times. Everything that this lane wrote before `signal` is visible to the peer's lane
 * after the matching `wait` returns. */
typedef struct KoloServices {
  uint32_t abiVersion;
  /* Never blocks. Does nothing once the invocation has failed. */
  void (*signal)(KoloInvocation *invocation, int64_t peer, int32_t semaphore);
  /* Blocks until signalled. Returns 0, or non-zero once the invocation has failed (timeout, lost peer, earlier
   * failure); the caller must then return that value at once and touch no peer's memory. `statement` indexes the
   * manifest's statements and only serves error messages. */
  int32_t (*wait)(KoloInvocation *invocation, int64_t peer, int32_t semaphore, int32_t statement);
  /* Moves bytes to or from a peer's buffer that is not mapped here (its base pointer is null). `get` returns when the
   * bytes are there. The source of `put` is in use until the lane's next `flush` returns; what the lane signals to that
   * peer afterwards arrives after the bytes. A failure is kept in the invocation and reported by the next wait or at
   * the end. */
  void (*put)(KoloInvocation *invocation, int64_t peer, int32_t role, int64_t offsetBytes, const void *src,
              int64_t sizeBytes);
  void (*get)(KoloInvocation *invocation, int64_t peer, int32_t role, int64_t offsetBytes, void *dst,
              int64_t sizeBytes);
  /* Blocks until a packet in this rank's memory, or the last word of a line, has this invocation's sequence, which it
   * loads with acquire. Returns as `wait` does. */
  int32_t (*awaitPacket)(KoloInvocation *invocation, const uint64_t *packet, int32_t statement);
  /* Blocks until the sources of this lane's puts may be overwritten. A failure is kept as that of `put`. */
  void (*flush)(KoloInvocation *invocation);
  /* Of an invocation with row lists: moves bytes from this rank's buffer of one role to a rank's of another, of which
   * one is the caller's own. Offsets and sizes are those without lists; the runtime finds the rows. `peer` is this
   * rank, too. KOLO_ADDRESS is the role of other memory of this rank, whose offset is its address. Otherwise as `put`,
   * which also says when the source is read. */
  void (*moveRows)(KoloInvocation *invocation, int64_t peer, int32_t toRole, int64_t toBytes, int32_t fromRole,
                   int64_t fromBytes, int64_t sizeBytes);
} KoloServices;

#define KOLO_ADDRESS (-1)

/* One lane of one rank in one call. Filled by the runtime; generated code only reads it. */
struct KoloInvocation {
  const KoloServices *services;
  void *context;                           /* the runtime's own */
  int64_t dimSizes[KOLO_MAX_MESH_DIMS];    /* ranks along each mesh dimension, slowest first; 1 past the last */
  int64_t coordinates[KOLO_MAX_MESH_DIMS]; /* of this rank; 0 past the last */
  int64_t count; /* elements, as the collective counts them: see `count` in KoloProgram. With block tables, of the
                  * longest block of any rank */
  int64_t blockElements[2]; /* by KoloBufferRole: elements from one block of `count` elements to the next, in
                             * this rank's input and output; more than count where a call is run in pieces */
  int64_t elementBytes;
  int64_t root; /* rank number inside the group the collective runs over */
  int64_t lane, numLanes;
  void *local[KOLO_NUM_BUFFER_ROLES]; /* this rank's buffers, by KoloBufferRole; may be null when empty */
  void *const
      *peers[KOLO_NUM_BUFFER_ROLES]; /* [role][rank]: that rank's buffer as mapped here; null: use put and get */
  KoloReduceKernel reduce;           /* for this call's type and operation; null when the program reduces nothing */
  KoloAverageKernel average;         /* null unless the operation is KOLO_AVERAGE */
  void *tile;                        /* tileBytes bytes private to this lane, 64-byte aligned, to work in */
  int64_t tileBytes;                 /* a multiple of 64, at least KOLO_MIN_TILE_BYTES */
  int64_t sequence;                  /* from 1 to 2^32 - 1: of packets. The same on all ranks; another one than that
                                      * of any packet that is still in the memory for packets */
  int64_t nonTemporal;               /* bits of KoloNonTemporal: which stores are non-temporal */
  /* What programs read whose buffers have codecs. */
  int64_t type;                   /* KoloType: KOLO_F16, KOLO_BF16 or KOLO_F32 */
  int64_t call;                   /* invocations of all programs before this one: what stochastic codecs draw by */
  KoloReduceKernel reduceNumbers; /* as `reduce`, of f32 */
  int64_t *traffic;               /* by KoloTraffic: bytes that the program adds to; null: nobody counts */
  /* Block tables, of a call whose blocks have counts of their own: [KoloBufferRole], input and output alone. All null
   * in other calls, and where the program takes none. */
  const int64_t *blockCounts[2];       /* [block]: elements of each block of this rank */
  const int64_t *blockPlaces[2];       /* [block]: elements from the beginning of this rank's buffer to it */
  const int64_t *const *peerPlaces[2]; /* [rank][block]: the same for every rank */
  /* Not 0: blocks of the caller's buffers are rows that lists choose, and `moveRows` reads and writes these buffers. 0
   * where the program takes no such lists. */
  int64_t hasRows;
};

/* What a lane moves between ranks, wherever the memory is. Packets count as the data in them. */
typedef enum KoloTraffic { KOLO_SENT, KOLO_FETCHED, KOLO_NUM_TRAFFIC } KoloTraffic;

/* Shape of one call, enough to size its scratch memory. */
typedef struct KoloShape {
  int64_t dimSizes[KOLO_MAX_MESH_DIMS];
  int64_t count;
  int64_t elementBytes;
  int64_t numLanes;
} KoloShape;

/* One collective. `count` is, as in NCCL: elements per rank of the input of all-gather and gather and of the output of
 * reduce-scatter and scatter; elements per pair of ranks for all-to-all; elements of the whole vector otherwise. */
typedef struct KoloProgram {
  const char *name;
  /* Runs this lane's part of the collective, once all ranks have entered the call, but see `publish`. Blocks until it
   * is complete on this rank: the outputs are written and no peer will touch this rank's buffers any more. Returns 0 or
   * what a wait returned. */
  int32_t (*run)(const KoloInvocation *invocation);
  /* Bytes of scratch memory that `run` needs for this shape; the same on every rank. */
  int64_t (*scratchBytes)(const KoloShape *shape);
  /* Writes what this lane publishes. Called for every lane before `run`, which is then called once those ranks whose
   * inputs this rank's result depends on have entered the call and published. Reads this rank's input, writes its
   * published memory, and touches nothing else. Null: the program publishes nothing. */
  void (*publish)(const KoloInvocation *invocation);
  /* Bytes that it publishes; the same on every rank. A call that publishes much is run in pieces, of fewer elements
   * each, one after the other, in each of which all ranks enter anew. Null as `publish`. */
  int64_t (*publishedBytes)(const KoloShape *shape);
  /* Bytes of memory for packets, of which there are two, for calls to use in turn; the same on every rank. Null: there
   * are no packets. */
  int64_t (*packetBytes)(const KoloShape *shape);
} KoloProgram;

/* What reduces on one kind of processor. A loader takes the last kind that it knows and that the host is of. */
typedef struct KoloKernels {
  const char *cpu; /* "x86-64-v3": as `target.cpu` in the manifest */
  const KoloReduceKernel (
      *reduce)[KOLO_NUM_REDUCTIONS]; /* [KoloType][KoloReduction]; the KOLO_AVERAGE column holds the sum */
  const KoloAverageKernel *average;  /* [KoloType] */
} KoloKernels;

/* A codec of the plugin's programs that gives the same bits in every call. */
typedef struct KoloCodec {
  const char *text; /* as in the manifest */
  /* Encodes `count` elements at local[KOLO_INPUT], a block of a call, and decodes them to local[KOLO_OUTPUT], which may
   * be the same. Reads of the invocation these, `call`, `elementBytes` and
   * `type`. */
  void (*roundTrip)(const KoloInvocation *invocation);
} KoloCodec;

typedef struct KoloPlugin {
  uint32_t abiVersion;
  uint32_t numPrograms;
  const KoloProgram *programs;
  uint64_t numKernels;
  const KoloKernels *kernels; /* for one kind of processor each, the most capable last; none when no program reduces */
  uint64_t numCodecs;
  const KoloCodec *codecs;
} KoloPlugin;

typedef const KoloPlugin *(*KoloPluginEntry)(void);

/* The last bytes of a plugin file. Integers are little-endian. */
#define KOLO_PLUGIN_MAGIC "KOLOPLUG"
typedef struct KoloPluginFooter {
  uint64_t elfBytes;      /* the shared library: bytes [0, elfBytes) of the file */
  uint64_t manifestBytes; /* the manifest: bytes [elfBytes, elfBytes + manifestBytes) */
  uint64_t checksum;      /* FNV-1a, 64 bits, of all bytes before the footer */
  uint32_t abiVersion;
  uint32_t footerBytes; /* sizeof(KoloPluginFooter) */
  char magic[8];        /* KOLO_PLUGIN_MAGIC, without its terminating zero */
} KoloPluginFooter;

#ifdef __cplusplus
}
#endif
