#include "Host.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace kolo::race {
namespace {

/// Of the library that a plugin file begins with. Never unloaded: the sanitizer looks for symbols whenever it reports.
const KoloPlugin *loadTable(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library)
    throw std::runtime_error(dlerror());
  return reinterpret_cast<KoloPluginEntry>(dlsym(library, KOLO_PLUGIN_SYMBOL))();
}

struct alignas(64) Counter {
  std::atomic<uint64_t> value{0};
};

struct FreeMemory {
  void operator()(std::byte *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, FreeMemory>;

size_t rounded(int64_t sizeBytes) { return (static_cast<size_t>(sizeBytes) + 127) / 64 * 64; }

/// Aligned as the runtime's is.
Memory allocate(int64_t sizeBytes) {
  return Memory(static_cast<std::byte *>(std::aligned_alloc(64, rounded(sizeBytes))));
}

Memory allocateZeroed(int64_t sizeBytes) {
  Memory memory = allocate(sizeBytes);
  std::memset(memory.get(), 0, rounded(sizeBytes));
  return memory;
}

class BareHost : public Host {
public:
  BareHost(const std::string &path, const runtime::ProgramInfo &programInfo)
      : table(loadTable(path)), info(programInfo) {
    program = std::find_if(table->programs, table->programs + table->numPrograms,
                           [&](const KoloProgram &candidate) { return candidate.name == info.name; });
  }

  void prepare(const Job &newJob) override;
  std::string call(int rank) override;

private:
  static constexpr int64_t tileBytes = KOLO_MIN_TILE_BYTES;

  /// One lane of one rank in one job.
  struct Lane {
    BareHost *host;
    int rank, number;
    std::vector<uint64_t> sent, awaited; // by [semaphore][peer]
    std::byte *tile;
    uint64_t numCalls = 0;
    std::string failure;
  };

  static Lane &laneOf(KoloInvocation *invocation) { return *static_cast<Lane *>(invocation->context); }
  static void signal(KoloInvocation *invocation, int64_t peer, int32_t semaphore);
  static int32_t wait(KoloInvocation *invocation, int64_t peer, int32_t semaphore, int32_t statement);
  static void put(KoloInvocation *invocation, int64_t peer, int32_t, int64_t, const void *, int64_t) {
    laneOf(invocation).failure = "asked for a put to rank " + std::to_string(peer) + ", where it has no buffer";
  }
  static void get(KoloInvocation *invocation, int64_t peer, int32_t, int64_t, void *, int64_t) {
    laneOf(invocation).failure = "asked for a get from rank " + std::to_string(peer) + ", where it has no buffer";
  }
  static int32_t awaitPacket(KoloInvocation *invocation, const uint64_t *packet, int32_t statement);
  static void flush(KoloInvocation *) {} // puts are stores here
  static void moveRows(KoloInvocation *, int64_t, int32_t, int64_t, int32_t, int64_t, int64_t) {} // no call has rows
  static constexpr KoloServices services = {KOLO_ABI_VERSION, signal, wait, put, get, awaitPacket, flush, moveRows};

  Counter &counter(int receiver, int lane, int semaphore, int sender) {
    size_t numRanks = job->buffers.size();
    size_t row = (static_cast<size_t>(receiver) * static_cast<size_t>(job->lanes) + static_cast<size_t>(lane)) *
                     static_cast<size_t>(info.numSemaphores) +
                 static_cast<size_t>(semaphore);
    return counters[row * numRanks + static_cast<size_t>(sender)];
  }
  void runLane(Lane &lane);
  void makeTables();
  void enter(Lane &lane);

  const KoloPlugin *table;
  runtime::ProgramInfo info;
  const KoloProgram *program;
  const Job *job = nullptr;
  std::vector<Counter> counters;
  std::vector<std::vector<Lane>> lanes; // by rank
  std::vector<Memory> tiles;            // by rank and lane, of one job after the other
  std::vector<Memory> scratch;          // by rank
  std::vector<Memory> published;        // by turn and rank
  std::vector<void *> publishedBases;   // likewise
  std::vector<Memory> packets;          // likewise
  std::vector<void *> packetBases;      // likewise
  std::vector<Counter> entered;         // by rank and lane
  std::vector<void *> peers[KOLO_NUM_BUFFER_ROLES];
  std::vector<std::vector<int64_t>> counts[2], places[2]; // block tables by rank
  std::vector<const int64_t *> peerPlaces[2];
};

void BareHost::signal(KoloInvocation *invocation, int64_t peer, int32_t semaphore) {
  Lane &lane = laneOf(invocation);
  size_t numRanks = lane.host->job->buffers.size();
  uint64_t count = ++lane.sent[static_cast<size_t>(semaphore) * numRanks + static_cast<size_t>(peer)];
  lane.host->counter(static_cast<int>(peer), lane.number, semaphore, lane.rank)
      .value.store(count, std::memory_order_release);
}

int32_t BareHost::wait(KoloInvocation *invocation, int64_t peer, int32_t semaphore, int32_t) {
  Lane &lane = laneOf(invocation);
  if (!lane.failure.empty())
    return 1;
  size_t numRanks = lane.host->job->buffers.size();
  uint64_t target = ++lane.awaited[static_cast<size_t>(semaphore) * numRanks + static_cast<size_t>(peer)];
  std::atomic<uint64_t> &value = lane.host->counter(lane.rank, lane.number, semaphore, static_cast<int>(peer)).value;
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (int round = 1; value.load(std::memory_order_acquire) < target; ++round) {
    sched_yield();
    if (round % 256 == 0 && std::chrono::steady_clock::now() > deadline) {
      lane.failure = "timed out in a wait for rank " + std::to_string(peer);
      return 1;
    }
  }
  return 0;
}

int32_t BareHost::awaitPacket(KoloInvocation *invocation, const uint64_t *packet, int32_t) {
  Lane &lane = laneOf(invocation);
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (int round = 1; lane.failure.empty(); ++round) {
    if (static_cast<int64_t>(__atomic_load_n(packet, __ATOMIC_ACQUIRE) >> 32) == invocation->sequence)
      return 0;
    sched_yield();
    if (round % 256 == 0 && std::chrono::steady_clock::now() > deadline)
      lane.failure = "timed out waiting for packets";
  }
  return 1;
}

void BareHost::prepare(const Job &newJob) {
  job = &newJob;
  size_t numRanks = job->buffers.size(), numLanes = static_cast<size_t>(job->lanes);
  size_t perLane = static_cast<size_t>(info.numSemaphores) * numRanks;
  counters = std::vector<Counter>(numRanks * numLanes * perLane);
  KoloShape shape = {{1, 1, 1, 1}, job->shape.count, static_cast<int64_t>(runtime::sizeBytes(job->type)), job->lanes};
  std::copy(job->shape.mesh.begin(), job->shape.mesh.end(), shape.dimSizes);
  for (std::vector<void *> &role : peers)
    role.clear();
  scratch.clear();
  published.clear();
  publishedBases.clear();
  packets.clear();
  packetBases.clear();
  for (size_t i = 0; i < 2 * numRanks; ++i) {
    published.push_back(allocateZeroed(program->publish ? program->publishedBytes(&shape) : 0));
    publishedBases.push_back(published.back().get());
    packets.push_back(allocateZeroed(program->packetBytes ? program->packetBytes(&shape) : 0));
    packetBases.push_back(packets.back().get());
  }
  entered = std::vector<Counter>(numRanks * numLanes);
  while (tiles.size() < numRanks * numLanes)
    tiles.push_back(allocate(tileBytes));
  makeTables();
  lanes.clear();
  for (size_t rank = 0; rank < numRanks; ++rank) {
    scratch.push_back(allocateZeroed(program->scratchBytes(&shape)));
    peers[KOLO_INPUT].push_back(job->buffers[rank].input);
    peers[KOLO_OUTPUT].push_back(job->buffers[rank].output);
    peers[KOLO_SCRATCH].push_back(scratch.back().get());
    std::vector<Lane> &own = lanes.emplace_back();
    for (size_t lane = 0; lane < numLanes; ++lane)
      own.push_back({this,
                     static_cast<int>(rank),
                     static_cast<int>(lane),
                     std::vector<uint64_t>(perLane),
                     std::vector<uint64_t>(perLane),
                     tiles[rank * numLanes + lane].get(),
                     0,
                     {}});
  }
}

void BareHost::makeTables() {
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT}) {
    counts[role].clear();
    places[role].clear();
    peerPlaces[role].clear();
    for (int rank = 0; rank < job->shape.numRanks(); ++rank) {
      counts[role].push_back(job->shape.counts(role, rank));
      places[role].push_back(job->shape.places(role, rank));
      counts[role].back().resize(static_cast<size_t>(job->shape.groupSize())); // a table, also where there is no block
      places[role].back().resize(static_cast<size_t>(job->shape.groupSize()));
    }
    for (const std::vector<int64_t> &table : places[role])
      peerPlaces[role].push_back(table.data());
  }
}

/// All the order that a program may count on that enters, lane by lane.
void BareHost::enter(Lane &lane) {
  auto counterOf = [&](size_t rank) -> std::atomic<uint64_t> & {
    return entered[rank * static_cast<size_t>(job->lanes) + static_cast<size_t>(lane.number)].value;
  };
  counterOf(static_cast<size_t>(lane.rank)).store(lane.numCalls, std::memory_order_release);
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (size_t rank = 0; rank < job->buffers.size(); ++rank)
    for (int round = 1; counterOf(rank).load(std::memory_order_acquire) < lane.numCalls; ++round) {
      sched_yield();
      if (round % 256 == 0 && std::chrono::steady_clock::now() > deadline) {
        lane.failure = "timed out waiting for rank " + std::to_string(rank) + " to enter";
        return;
      }
    }
}

void BareHost::runLane(Lane &lane) {
  KoloInvocation invocation = {};
  invocation.services = &services;
  invocation.context = &lane;
  std::fill_n(invocation.dimSizes, KOLO_MAX_MESH_DIMS, 1);
  std::copy(job->shape.mesh.begin(), job->shape.mesh.end(), invocation.dimSizes);
  std::vector<int64_t> coordinates = job->shape.coordinates(lane.rank);
  std::copy(coordinates.begin(), coordinates.end(), invocation.coordinates);
  invocation.count = job->shape.count;
  invocation.elementBytes = static_cast<int64_t>(runtime::sizeBytes(job->type));
  invocation.root = job->shape.root;
  invocation.lane = lane.number;
  invocation.numLanes = job->lanes;
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT, KOLO_SCRATCH}) {
    invocation.local[role] = peers[role][static_cast<size_t>(lane.rank)];
    invocation.peers[role] = peers[role].data();
  }
  if (info.reduces) {
    invocation.reduce = table->kernels[0].reduce[static_cast<size_t>(job->type)][KOLO_SUM];
    invocation.reduceNumbers = table->kernels[0].reduce[KOLO_F32][KOLO_SUM];
  }
  invocation.type = static_cast<int64_t>(job->type);
  invocation.call = static_cast<int64_t>(lane.numCalls);
  invocation.blockElements[KOLO_INPUT] = invocation.blockElements[KOLO_OUTPUT] = invocation.count;
  for (size_t role : {KOLO_INPUT, KOLO_OUTPUT})
    if (job->shape.hasTables) {
      invocation.blockCounts[role] = counts[role][static_cast<size_t>(lane.rank)].data();
      invocation.blockPlaces[role] = places[role][static_cast<size_t>(lane.rank)].data();
      invocation.peerPlaces[role] = peerPlaces[role].data();
    }
  size_t turn = lane.numCalls++ % 2 * job->buffers.size();
  for (auto [role, bases] :
       {std::pair(KOLO_PUBLISHED, &publishedBases[turn]), std::pair(KOLO_PACKETS, &packetBases[turn])}) {
    invocation.local[role] = bases[lane.rank];
    invocation.peers[role] = bases;
  }
  invocation.sequence = static_cast<int64_t>(lane.numCalls);
  invocation.tile = lane.tile;
  invocation.tileBytes = tileBytes;
  if (program->publish)
    program->publish(&invocation);
  if (info.enters)
    enter(lane);
  int32_t code = lane.failure.empty() ? program->run(&invocation) : 1;
  if (code != 0 && lane.failure.empty())
    lane.failure = "returned " + std::to_string(code);
}

std::string BareHost::call(int rank) {
  std::vector<Lane> &own = lanes[static_cast<size_t>(rank)];
  std::vector<std::thread> others;
  for (size_t lane = 1; lane < own.size(); ++lane)
    others.emplace_back([&, lane] { runLane(own[lane]); });
  runLane(own.front());
  for (std::thread &thread : others)
    thread.join();
  std::string problems;
  for (const Lane &lane : own)
    problems += lane.failure;
  return problems;
}

} // namespace

std::unique_ptr<Host> makeBareHost(const std::string &path, const runtime::ProgramInfo &info) {
  return std::make_unique<BareHost>(path, info);
}

} // namespace kolo::race
