/* Kernels written by hand, for the stand-in driver: what the compiler would write, with one thread per block. */
#include "../standin/Kernel.h"

#include "kolo/runtime/DeviceAbi.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* One lane of one rank: where it is, and how many semaphores its program has. */
typedef struct Lane {
  const KoloDeviceInvocation *in;
  int64_t number, count, semaphores;
} Lane;

static Lane laneOf(const void *argument, const StandInBlock *block, int64_t semaphores) {
  Lane lane = {(const KoloDeviceInvocation *)argument + block->y, block->x, block->gridX, semaphores};
  return lane;
}

static int64_t row(Lane lane, int64_t semaphore) { return lane.number * lane.semaphores + semaphore; }
static int64_t cell(Lane lane, int64_t semaphore, int64_t rank) {
  return row(lane, semaphore) * lane.in->numRanks + rank;
}

static void raise(uint64_t *theirs, uint64_t count) {
  atomic_store_explicit((_Atomic uint64_t *)theirs, count, memory_order_release);
}

static void signalTo(Lane lane, int64_t peer, int64_t semaphore) {
  raise(&lane.in->peerSemaphores[peer][cell(lane, semaphore, lane.in->rank)],
        ++lane.in->sent[cell(lane, semaphore, peer)]);
}

static int report(Lane lane, KoloDeviceFailure failure) {
  KoloDeviceFailure *record = &lane.in->failures[lane.number];
  uint64_t code = failure.code;
  failure.code = 0;
  if (record->code == KOLO_DEVICE_OK) {
    *record = failure;
    atomic_store_explicit((_Atomic uint64_t *)&record->code, code, memory_order_release);
  }
  if (code == KOLO_DEVICE_TIMEOUT)
    atomic_store((_Atomic uint64_t *)lane.in->abort, 1);
  return 1;
}

static int64_t nowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int waitFor(Lane lane, int64_t peer, int64_t semaphore, int64_t statement) {
  uint64_t target = ++lane.in->awaited[cell(lane, semaphore, peer)], found = 0;
  _Atomic uint64_t *own = (_Atomic uint64_t *)&lane.in->semaphores[cell(lane, semaphore, peer)];
  const int64_t begin = nowNs();
  for (;;) {
    found = atomic_load_explicit(own, memory_order_acquire);
    if (found >= target)
      return 0;
    int isAborted = atomic_load((_Atomic uint64_t *)lane.in->abort);
    if (isAborted || nowNs() - begin >= (int64_t)lane.in->timeoutNs) {
      KoloDeviceFailure failure = {
          isAborted ? KOLO_DEVICE_ABORTED : KOLO_DEVICE_TIMEOUT, peer, semaphore, statement, target, found};
      return report(lane, failure);
    }
    sched_yield(); /* whoever is waited for may need the core */
  }
}

static int meetAll(Lane lane, int64_t semaphore, int64_t statement) {
  const int64_t size = lane.in->numRanks, me = lane.in->rank;
  for (int64_t peer = 0; peer < size; ++peer)
    if (peer != me)
      signalTo(lane, peer, semaphore);
  for (int64_t peer = 0; peer < size; ++peer)
    if (peer != me && waitFor(lane, peer, semaphore, statement))
      return 1;
  return 0;
}

static void addTo(Lane lane, void *dst, const void *src, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (lane.in->type == KOLO_F32)
      ((float *)dst)[i] += ((const float *)src)[i];
    else
      ((uint32_t *)dst)[i] += ((const uint32_t *)src)[i]; /* as two's complement: rubbish may overflow */
}

/* This lane's part of count elements, in bytes. */
typedef struct Part {
  int64_t begin, bytes;
} Part;
static Part partOf(Lane lane) {
  int64_t begin = lane.in->count * lane.number / lane.count, end = lane.in->count * (lane.number + 1) / lane.count;
  Part part = {begin * lane.in->elementBytes, (end - begin) * lane.in->elementBytes};
  return part;
}

/* Semaphores: 0 the neighbour is there, 1 data. */
void ringAllGather(const void *argument, const StandInBlock *block) {
  Lane lane = laneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.in;
  int64_t size = in->numRanks, me = in->rank, next = (me + 1) % size, previous = (me + size - 1) % size;
  int64_t chunk = in->count * in->elementBytes;
  Part part = partOf(lane);
  char *out = (char *)in->local[KOLO_OUTPUT], *own = out + me * chunk + part.begin;
  if (part.bytes && own != (char *)in->local[KOLO_INPUT] + part.begin)
    memcpy(own, (char *)in->local[KOLO_INPUT] + part.begin, (size_t)part.bytes);
  signalTo(lane, previous, 0);
  if (waitFor(lane, next, 0, 0))
    return;
  for (int64_t step = 0; step < size - 1; ++step) {
    int64_t offset = (me + size - step) % size * chunk + part.begin;
    if (part.bytes)
      memcpy((char *)in->peers[KOLO_OUTPUT][next] + offset, out + offset, (size_t)part.bytes);
    signalTo(lane, next, 1);
    if (waitFor(lane, previous, 1, 1))
      return;
  }
}

/* Every rank pulls every input; not in place. Semaphores: 0 entered, 1 done. */
void pullAllReduce(const void *argument, const StandInBlock *block) {
  Lane lane = laneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.in;
  Part part = partOf(lane);
  if (meetAll(lane, 0, 0))
    return;
  char *out = (char *)in->local[KOLO_OUTPUT] + part.begin;
  if (part.bytes)
    memcpy(out, (char *)in->local[KOLO_INPUT] + part.begin, (size_t)part.bytes);
  for (int64_t hop = 1; part.bytes && hop < in->numRanks; ++hop)
    addTo(lane, out, (char *)in->peers[KOLO_INPUT][(in->rank + hop) % in->numRanks] + part.begin,
          part.bytes / in->elementBytes);
  (void)meetAll(lane, 1, 1);
}

/* Every rank puts its input into everybody's scratch memory. Semaphores: 0 entered, 1 data. */
void scratchAllReduce(const void *argument, const StandInBlock *block) {
  Lane lane = laneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.in;
  Part part = partOf(lane);
  int64_t whole = in->count * in->elementBytes;
  if (meetAll(lane, 0, 0))
    return;
  for (int64_t peer = 0; part.bytes && peer < in->numRanks; ++peer)
    memcpy((char *)in->peers[KOLO_SCRATCH][peer] + in->rank * whole + part.begin,
           (char *)in->local[KOLO_INPUT] + part.begin, (size_t)part.bytes);
  if (meetAll(lane, 1, 1) || !part.bytes)
    return;
  char *out = (char *)in->local[KOLO_OUTPUT] + part.begin, *slots = (char *)in->local[KOLO_SCRATCH] + part.begin;
  memcpy(out, slots, (size_t)part.bytes);
  for (int64_t rank = 1; rank < in->numRanks; ++rank)
    addTo(lane, out, slots + rank * whole, part.bytes / in->elementBytes);
}

/* This lane's part of a block of so many elements, in bytes. Nothing of one that is longer than the call says. */
static Part partOfBlock(Lane lane, int64_t elements) {
  int64_t begin = elements * lane.number / lane.count, end = elements * (lane.number + 1) / lane.count;
  Part part = {begin * lane.in->elementBytes, elements > lane.in->count ? 0 : (end - begin) * lane.in->elementBytes};
  return part;
}

/* The same with block tables. */
void ringAllGather_tables(const void *argument, const StandInBlock *block) {
  Lane lane = laneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.in;
  int64_t size = in->numRanks, me = in->rank, next = (me + 1) % size, previous = (me + size - 1) % size;
  const int64_t *counts = in->blockCounts[KOLO_OUTPUT], *places = in->blockPlaces[KOLO_OUTPUT];
  Part part = partOfBlock(lane, counts[me]);
  char *out = (char *)in->local[KOLO_OUTPUT], *own = out + places[me] * in->elementBytes + part.begin;
  char *input = (char *)in->local[KOLO_INPUT] + in->blockPlaces[KOLO_INPUT][0] * in->elementBytes + part.begin;
  if (part.bytes && own != input)
    memcpy(own, input, (size_t)part.bytes);
  signalTo(lane, previous, 0);
  if (waitFor(lane, next, 0, 0))
    return;
  for (int64_t step = 0; step < size - 1; ++step) {
    int64_t from = (me + size - step) % size;
    part = partOfBlock(lane, counts[from]);
    if (part.bytes)
      memcpy((char *)in->peers[KOLO_OUTPUT][next] + in->peerPlaces[KOLO_OUTPUT][next][from] * in->elementBytes +
                 part.begin,
             out + places[from] * in->elementBytes + part.begin, (size_t)part.bytes);
    signalTo(lane, next, 1);
    if (waitFor(lane, previous, 1, 1))
      return;
  }
}

/* Every rank puts its blocks into everybody's output. Semaphores: 0 entered, 1 data. */
void directAllToAll(const void *argument, const StandInBlock *block) {
  Lane lane = laneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.in;
  Part part = partOf(lane);
  int64_t whole = in->count * in->elementBytes;
  if (meetAll(lane, 0, 0))
    return;
  for (int64_t peer = 0; part.bytes && peer < in->numRanks; ++peer)
    memcpy((char *)in->peers[KOLO_OUTPUT][peer] + in->rank * whole + part.begin,
           (char *)in->local[KOLO_INPUT] + peer * whole + part.begin, (size_t)part.bytes);
  (void)meetAll(lane, 1, 1);
}

void directAllToAll_tables(const void *argument, const StandInBlock *block) {
  Lane lane = laneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.in;
  if (meetAll(lane, 0, 0))
    return;
  for (int64_t peer = 0; peer < in->numRanks; ++peer) {
    Part part = partOfBlock(lane, in->blockCounts[KOLO_INPUT][peer]);
    if (part.bytes)
      memcpy((char *)in->peers[KOLO_OUTPUT][peer] + in->peerPlaces[KOLO_OUTPUT][peer][in->rank] * in->elementBytes +
                 part.begin,
             (char *)in->local[KOLO_INPUT] + in->blockPlaces[KOLO_INPUT][peer] * in->elementBytes + part.begin,
             (size_t)part.bytes);
  }
  (void)meetAll(lane, 1, 1);
}

/* Every rank puts its block into the root's output. Semaphores: 0 entered, 1 data. */
void directGather_tables(const void *argument, const StandInBlock *block) {
  Lane lane = laneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.in;
  Part part = partOfBlock(lane, in->blockCounts[KOLO_INPUT][0]);
  if (meetAll(lane, 0, 0))
    return;
  if (part.bytes)
    memcpy((char *)in->peers[KOLO_OUTPUT][in->root] +
               in->peerPlaces[KOLO_OUTPUT][in->root][in->rank] * in->elementBytes + part.begin,
           (char *)in->local[KOLO_INPUT] + in->blockPlaces[KOLO_INPUT][0] * in->elementBytes + part.begin,
           (size_t)part.bytes);
  (void)meetAll(lane, 1, 1);
}

/* Every rank pulls its block out of the root's input. Semaphores: 0 entered, 1 done. */
void directScatter_tables(const void *argument, const StandInBlock *block) {
  Lane lane = laneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.in;
  Part part = partOfBlock(lane, in->blockCounts[KOLO_OUTPUT][0]);
  if (meetAll(lane, 0, 0))
    return;
  if (part.bytes)
    memcpy((char *)in->local[KOLO_OUTPUT] + in->blockPlaces[KOLO_OUTPUT][0] * in->elementBytes + part.begin,
           (char *)in->peers[KOLO_INPUT][in->root] + in->peerPlaces[KOLO_INPUT][in->root][in->rank] * in->elementBytes +
               part.begin,
           (size_t)part.bytes);
  (void)meetAll(lane, 1, 1);
}

/* Over the last dimension of a mesh, which has size 1: every rank is a group. No semaphores. */
void ownAllGather_tables(const void *argument, const StandInBlock *block) {
  Lane lane = laneOf(argument, block, 0);
  const KoloDeviceInvocation *in = lane.in;
  Part part = partOfBlock(lane, in->blockCounts[KOLO_INPUT][0]);
  if (part.bytes)
    memcpy((char *)in->local[KOLO_OUTPUT] + in->blockPlaces[KOLO_OUTPUT][0] * in->elementBytes + part.begin,
           (char *)in->local[KOLO_INPUT] + in->blockPlaces[KOLO_INPUT][0] * in->elementBytes + part.begin,
           (size_t)part.bytes);
}

/* Nobody ever signals the last rank, and everybody waits for it. */
void hang(const void *argument, const StandInBlock *block) {
  Lane lane = laneOf(argument, block, 1);
  int64_t last = lane.in->numRanks - 1;
  (void)waitFor(lane, lane.in->rank == last ? 0 : last, 0, lane.in->rank == last ? 0 : 1);
}

/* One lane of one rank of a program that may cross a network. */
typedef struct NetworkLane {
  Lane at;
  const KoloDeviceNetworkInvocation *in;
  KoloDeviceQueue *queue;        /* null where all ranks are on one host */
  KoloDeviceQueueCounts *counts; /* likewise */
} NetworkLane;

static NetworkLane networkLaneOf(const void *argument, const StandInBlock *block, int64_t semaphores) {
  const KoloDeviceNetworkInvocation *in = (const KoloDeviceNetworkInvocation *)argument + block->y;
  NetworkLane lane = {{&in->call, block->x, block->gridX, semaphores}, in, NULL, NULL};
  if (in->queues) {
    lane.queue = &in->queues[block->x];
    lane.counts = &in->queueCounts[block->x];
  }
  return lane;
}

/* Waits until a word that others raise has reached a value; `failure` says what for. */
static int awaitWord(Lane lane, const void *word, uint64_t target, KoloDeviceFailure failure) {
  const int64_t begin = nowNs();
  for (;;) {
    failure.found = atomic_load_explicit((_Atomic uint64_t *)word, memory_order_acquire);
    if (failure.found >= target)
      return 0;
    int isAborted = atomic_load((_Atomic uint64_t *)lane.in->abort);
    if (isAborted || nowNs() - begin >= (int64_t)lane.in->timeoutNs) {
      failure.code = isAborted ? KOLO_DEVICE_ABORTED : KOLO_DEVICE_TIMEOUT;
      failure.expected = target;
      return report(lane, failure);
    }
    sched_yield();
  }
}

/* Whether the rank is on another host. */
static int isFar(NetworkLane lane, int64_t peer) { return lane.in->places[peer] >= lane.in->numHere; }

static int request(NetworkLane lane, KoloDeviceRequest wanted, int64_t statement) {
  uint64_t number = lane.counts->requests;
  KoloDeviceFailure failure = {0, wanted.peer, KOLO_DEVICE_QUEUE, statement, 0, 0};
  if (number >= KOLO_DEVICE_REQUESTS &&
      awaitWord(lane.at, &lane.queue->taken, number - KOLO_DEVICE_REQUESTS + 1, failure))
    return 1;
  lane.queue->requests[number % KOLO_DEVICE_REQUESTS] = wanted;
  lane.counts->requests = number + 1;
  atomic_store_explicit((_Atomic uint64_t *)&lane.queue->written, number + 1, memory_order_release);
  return 0;
}

/* One put of at most a chunk. */
static int pushChunk(NetworkLane lane, int64_t peer, int64_t offset, const char *src, int64_t bytes,
                     int64_t statement) {
  uint64_t number = lane.counts->puts;
  KoloDeviceFailure failure = {0, peer, KOLO_DEVICE_QUEUE, statement, 0, 0};
  if (number >= KOLO_DEVICE_CHUNKS && awaitWord(lane.at, &lane.queue->freed, number - KOLO_DEVICE_CHUNKS + 1, failure))
    return 1;
  unsigned char *chunk = lane.queue->outbox + number % KOLO_DEVICE_CHUNKS * KOLO_DEVICE_CHUNK_BYTES;
  memcpy(chunk, src, (size_t)bytes);
  lane.counts->puts = number + 1;
  KoloDeviceRequest put = {.kind = KOLO_DEVICE_PUT,
                           .peer = peer,
                           .agreement = lane.in->inboxAgreement,
                           .offset = lane.in->inboxOffset + (uint64_t)offset,
                           .value = (uint64_t)bytes,
                           .source = chunk};
  return request(lane, put, statement);
}

static int putTo(NetworkLane lane, int64_t peer, int64_t offset, const char *src, int64_t bytes, int64_t statement) {
  if (!isFar(lane, peer)) {
    memcpy((char *)lane.in->peerInboxes[lane.in->places[peer]] + offset, src, (size_t)bytes);
    return 0;
  }
  while (bytes > 0) {
    int64_t piece = bytes < KOLO_DEVICE_CHUNK_BYTES ? bytes : KOLO_DEVICE_CHUNK_BYTES;
    if (pushChunk(lane, peer, offset, src, piece, statement))
      return 1;
    offset += piece, src += piece, bytes -= piece;
  }
  return 0;
}

/* Of a counter in `sent` or `awaited`. */
static int64_t counter(NetworkLane lane, int64_t semaphore, int64_t peer) {
  return row(lane.at, semaphore) * (lane.in->numHere + lane.in->numFar) + lane.in->places[peer];
}

static int signalFar(NetworkLane lane, int64_t peer, int64_t semaphore, int64_t statement) {
  uint64_t count = ++lane.in->call.sent[counter(lane, semaphore, peer)];
  if (!isFar(lane, peer)) {
    int64_t number = row(lane.at, semaphore) * lane.in->numHere + lane.in->places[lane.in->call.rank];
    raise(&lane.in->call.peerSemaphores[lane.in->places[peer]][number], count);
    return 0;
  }
  KoloDeviceRequest signal = {.kind = KOLO_DEVICE_SIGNAL,
                              .semaphore = (uint32_t)semaphore,
                              .peer = peer,
                              .agreement = lane.in->cellsAgreement,
                              .value = count};
  return request(lane, signal, statement);
}

static int waitForFar(NetworkLane lane, int64_t peer, int64_t semaphore, int64_t statement) {
  uint64_t target = ++lane.in->call.awaited[counter(lane, semaphore, peer)];
  int64_t at = row(lane.at, semaphore), place = lane.in->places[peer], here = lane.in->numHere;
  KoloDeviceFailure failure = {0, peer, semaphore, statement, 0, 0};
  if (place < here)
    return awaitWord(lane.at, &lane.in->call.semaphores[at * here + place], target, failure);
  const char *own = (const char *)lane.in->cells + (at * lane.in->numFar + place - here) * KOLO_DEVICE_CELL_BYTES;
  return awaitWord(lane.at, own, 2 * target, failure);
}

static int meetAllFar(NetworkLane lane, int64_t semaphore, int64_t statement) {
  const int64_t size = lane.in->call.numRanks, me = lane.in->call.rank;
  for (int64_t hop = 1; hop < size; ++hop)
    if (signalFar(lane, (me + hop) % size, semaphore, statement))
      return 1;
  for (int64_t hop = 1; hop < size; ++hop)
    if (waitForFar(lane, (me + hop) % size, semaphore, statement))
      return 1;
  return 0;
}

/* Every rank puts its input into everybody's inbox. Semaphores: 0 the inbox is free, 1 data. */
static int gatherInInbox(NetworkLane lane) {
  const KoloDeviceInvocation *in = &lane.in->call;
  Part part = partOf(lane.at);
  int64_t whole = in->count * in->elementBytes;
  if (meetAllFar(lane, 0, 0))
    return 1;
  for (int64_t hop = 0; part.bytes && hop < in->numRanks; ++hop)
    if (putTo(lane, (in->rank + hop) % in->numRanks, in->rank * whole + part.begin,
              (char *)in->local[KOLO_INPUT] + part.begin, part.bytes, 1))
      return 1;
  return meetAllFar(lane, 1, 1);
}

void networkAllGather(const void *argument, const StandInBlock *block) {
  NetworkLane lane = networkLaneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.at.in;
  Part part = partOf(lane.at);
  int64_t whole = in->count * in->elementBytes;
  if (gatherInInbox(lane))
    return;
  for (int64_t rank = 0; part.bytes && rank < in->numRanks; ++rank)
    memcpy((char *)in->local[KOLO_OUTPUT] + rank * whole + part.begin,
           (char *)lane.in->inbox + rank * whole + part.begin, (size_t)part.bytes);
}

void networkAllReduce(const void *argument, const StandInBlock *block) {
  NetworkLane lane = networkLaneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.at.in;
  Part part = partOf(lane.at);
  int64_t whole = in->count * in->elementBytes;
  if (gatherInInbox(lane) || !part.bytes)
    return;
  char *out = (char *)in->local[KOLO_OUTPUT] + part.begin, *slots = (char *)lane.in->inbox + part.begin;
  memcpy(out, slots, (size_t)part.bytes);
  for (int64_t rank = 1; rank < in->numRanks; ++rank)
    addTo(lane.at, out, slots + rank * whole, part.bytes / in->elementBytes);
}

/* Every rank talks to its two neighbours alone. Semaphores: 0 the inbox is free, 1 data. */
void networkRing(const void *argument, const StandInBlock *block) {
  NetworkLane lane = networkLaneOf(argument, block, 2);
  const KoloDeviceInvocation *in = lane.at.in;
  int64_t size = in->numRanks, me = in->rank, next = (me + 1) % size, previous = (me + size - 1) % size;
  int64_t whole = in->count * in->elementBytes;
  Part part = partOf(lane.at);
  char *inbox = (char *)lane.in->inbox + part.begin, *out = (char *)in->local[KOLO_OUTPUT] + part.begin;
  if (signalFar(lane, previous, 0, 0) || waitForFar(lane, next, 0, 0))
    return;
  memcpy(out + me * whole, (char *)in->local[KOLO_INPUT] + part.begin, (size_t)part.bytes);
  for (int64_t step = 0; step < size - 1; ++step) {
    int64_t sent = (me + size - step) % size * whole, come = (me + size - step - 1) % size * whole;
    if (putTo(lane, next, sent + part.begin, out + sent, part.bytes, 1) || signalFar(lane, next, 1, 1) ||
        waitForFar(lane, previous, 1, 1))
      return;
    memcpy(out + come, inbox + come, (size_t)part.bytes);
  }
}

/* Nobody ever signals the last rank, and everybody waits for it. */
void networkHang(const void *argument, const StandInBlock *block) {
  NetworkLane lane = networkLaneOf(argument, block, 1);
  int64_t last = lane.in->call.numRanks - 1;
  (void)waitForFar(lane, lane.in->call.rank == last ? 0 : last, 0, lane.in->call.rank == last ? 0 : 1);
}

/* All ranks put much into the last one's inbox, which must hold a chunk, and wait for nobody. */
void networkFlood(const void *argument, const StandInBlock *block) {
  NetworkLane lane = networkLaneOf(argument, block, 1);
  int64_t last = lane.in->call.numRanks - 1;
  for (int put = 0; put < 400 && lane.in->call.rank != last; ++put)
    if (putTo(lane, last, 0, (char *)lane.in->inbox, KOLO_DEVICE_CHUNK_BYTES, 0))
      return;
}
