// The data movement of five collectives by a plain kernel, to compare with: all ranks are buffers of one device, and
// nobody waits for anybody. For nvcc; and for the host's compiler, whose library the stand-in driver runs.
#include <stdint.h>

struct alignas(16) Vector {
  float x, y, z, w;
};

// As PlainJob in Figures.cpp. `blockVectors` is the size of a block: of all data for broadcast and all-reduce.
struct Job {
  uint32_t collective, numRanks;
  uint64_t blockVectors;
  const Vector *inputs[8];
  Vector *outputs[8];
};
enum Collective { AllGather, ReduceScatter, AllReduce, Broadcast, AllToAll };

#ifdef __CUDACC__
#define FUNCTION __device__ static inline
#else
#define FUNCTION static inline
#endif

FUNCTION Vector sum(const Job &job, uint64_t at) {
  Vector total = job.inputs[0][at];
  for (uint32_t rank = 1; rank < job.numRanks; ++rank) {
    Vector other = job.inputs[rank][at];
    total.x += other.x, total.y += other.y, total.z += other.z, total.w += other.w;
  }
  return total;
}

FUNCTION void store(const Job &job, uint64_t at, Vector value) {
  for (uint32_t rank = 0; rank < job.numRanks; ++rank)
    job.outputs[rank][at] = value;
}

FUNCTION void moveVector(const Job &job, uint32_t block, uint64_t inside) {
  uint64_t at = block * job.blockVectors + inside;
  switch (job.collective) {
  case AllGather:
    return store(job, at, job.inputs[block][inside]);
  case ReduceScatter:
    job.outputs[block][inside] = sum(job, at);
    return;
  case AllReduce:
    return store(job, at, sum(job, at));
  case Broadcast:
    return store(job, at, job.inputs[0][at]);
  case AllToAll:
    for (uint32_t rank = 0; rank < job.numRanks; ++rank)
      job.outputs[rank][at] = job.inputs[block][rank * job.blockVectors + inside];
  }
}

FUNCTION void moveAll(const Job &job, uint64_t first, uint64_t step) {
  bool hasOneBlock = job.collective == AllReduce || job.collective == Broadcast;
  for (uint32_t block = 0; block < (hasOneBlock ? 1 : job.numRanks); ++block)
    for (uint64_t inside = first; inside < job.blockVectors; inside += step)
      moveVector(job, block, inside);
}

#ifdef __CUDACC__
extern "C" __global__ void plainMove(const Job *job) {
  moveAll(*job, uint64_t(blockIdx.x) * blockDim.x + threadIdx.x, uint64_t(gridDim.x) * blockDim.x);
}
extern "C" __global__ void plainNothing(const Job *) {}
#else
struct StandInBlock {
  uint32_t x, y, gridX, gridY, numThreads;
};
// All threads of a block do the same.
extern "C" void plainMove(const Job *job, const StandInBlock *block) { moveAll(*job, block->x, block->gridX); }
extern "C" void plainNothing(const Job *, const StandInBlock *) {}
#endif
