// The collectives of NCCL, and what each of them has to make of the ranks' inputs. For programs that know NCCL and CUDA
// alone: that of tests/nccl on stand-ins, and that of tests/gpu on a device.
#pragma once

#include <cuda.h>
#include <nccl.h>

#include <functional>
#include <string>
#include <vector>

/// One rank: its device, its stream, its memory.
struct Rank {
  int number = 0, device = 0;
  ncclComm_t comm = nullptr;
  CUstream stream = nullptr;
  int *input = nullptr, *output = nullptr;
};

/// What a rank's input has.
int valueOf(int rank, size_t element);
int sumOf(int numRanks, size_t element);

struct Collective {
  const char *kind; // as Kolo calls it: "all_reduce"
  std::string title;
  std::function<ncclResult_t(Rank &)> call;
  std::function<size_t(int rank)> number; // of elements that the rank gets
  std::function<int(int rank, size_t element)> right;
  std::function<int *(Rank &)> result = [](Rank &rank) { return rank.output; };
};

/// Of `count` elements, by NCCL's rules. Each call reads the inputs as they were filled, and may overwrite them.
Collective allReduceOf(int numRanks, size_t count);
std::vector<Collective> reductionsOf(int numRanks, size_t count);
std::vector<Collective> movesOf(int numRanks, size_t count);
