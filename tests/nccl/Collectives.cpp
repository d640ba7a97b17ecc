#include "Collectives.h"

int valueOf(int rank, size_t element) { return rank * 100003 + static_cast<int>(element * 31 % 4093) + 1; }

int sumOf(int numRanks, size_t element) {
  int sum = 0;
  for (int rank = 0; rank < numRanks; ++rank)
    sum += valueOf(rank, element);
  return sum;
}

Collective allReduceOf(int numRanks, size_t count) {
  return {"all_reduce", "all-reduce of " + std::to_string(count),
          [=](Rank &r) { return ncclAllReduce(r.input, r.output, count, ncclInt, ncclSum, r.comm, r.stream); },
          [=](int) { return count; }, [=](int, size_t i) { return sumOf(numRanks, i); }};
}

std::vector<Collective> reductionsOf(int numRanks, size_t count) {
  auto all = [=](int) { return count; };
  auto sum = [=](int, size_t i) { return sumOf(numRanks, i); };
  auto block = [=](int rank, size_t i) { return sumOf(numRanks, static_cast<size_t>(rank) * count + i); };
  auto ownBlock = [=](Rank &r) { return r.input + static_cast<size_t>(r.number) * count; };
  auto input = [](Rank &r) { return r.input; };
  auto reduce = [=](ncclRedOp_t operation) {
    return [=](Rank &r) { return pncclAllReduce(r.input, r.output, count, ncclInt, operation, r.comm, r.stream); };
  };
  const std::string of = " of " + std::to_string(count);
  const int root = 1 % numRanks;
  return {
      allReduceOf(numRanks, count),
      {"all_reduce", "all-reduce in place" + of,
       [=](Rank &r) { return ncclAllReduce(r.input, r.input, count, ncclInt, ncclSum, r.comm, r.stream); }, all, sum,
       input},
      {"all_reduce", "maximum" + of, reduce(ncclMax), all, [=](int, size_t i) { return valueOf(numRanks - 1, i); }},
      {"all_reduce", "minimum" + of, reduce(ncclMin), all, [=](int, size_t i) { return valueOf(0, i); }},
      {"all_reduce", "average" + of, reduce(ncclAvg), all,
       [=](int, size_t i) { return sumOf(numRanks, i) / numRanks; }},
      {"reduce", "reduce" + of,
       [=](Rank &r) { return ncclReduce(r.input, r.output, count, ncclInt, ncclSum, root, r.comm, r.stream); },
       [=](int rank) { return rank == root ? count : 0; }, sum},
      {"reduce_scatter", "reduce-scatter" + of,
       [=](Rank &r) { return ncclReduceScatter(r.input, r.output, count, ncclInt, ncclSum, r.comm, r.stream); }, all,
       block},
      {"reduce_scatter", "reduce-scatter in place" + of,
       [=](Rank &r) { return ncclReduceScatter(r.input, ownBlock(r), count, ncclInt, ncclSum, r.comm, r.stream); }, all,
       block, ownBlock},
  };
}

std::vector<Collective> movesOf(int numRanks, size_t count) {
  auto one = [=](int) { return count; };
  auto whole = [=](int) { return count * static_cast<size_t>(numRanks); };
  auto block = [=](int, size_t i) { return valueOf(static_cast<int>(i / count), i % count); };
  const std::string of = " of " + std::to_string(count);
  const int root = numRanks - 1;
  auto ofRoot = [=](int, size_t i) { return valueOf(root, i); };
  auto rootAlone = [=](int rank) { return rank == root ? whole(rank) : 0; };
  return {
      {"all_gather", "all-gather" + of,
       [=](Rank &r) { return ncclAllGather(r.input, r.output, count, ncclInt, r.comm, r.stream); }, whole, block},
      {"all_gather", "all-gather in place" + of, // of the blocks that the ranks' inputs have at these places
       [=](Rank &r) {
         return ncclAllGather(r.input + static_cast<size_t>(r.number) * count, r.input, count, ncclInt, r.comm,
                              r.stream);
       },
       whole, [=](int, size_t i) { return valueOf(static_cast<int>(i / count), i); }, [](Rank &r) { return r.input; }},
      {"broadcast", "broadcast" + of,
       [=](Rank &r) { return ncclBroadcast(r.input, r.output, count, ncclInt, root, r.comm, r.stream); }, one, ofRoot},
      {"broadcast", "broadcast in place" + of,
       [=](Rank &r) { return ncclBcast(r.input, count, ncclInt, root, r.comm, r.stream); }, one, ofRoot,
       [](Rank &r) { return r.input; }},
      {"all_to_all", "all-to-all" + of,
       [=](Rank &r) { return ncclAlltoAll(r.input, r.output, count, ncclInt, r.comm, r.stream); }, whole,
       [=](int rank, size_t i) {
         return valueOf(static_cast<int>(i / count), static_cast<size_t>(rank) * count + i % count);
       }},
      {"gather", "gather" + of,
       [=](Rank &r) { return ncclGather(r.input, r.output, count, ncclInt, root, r.comm, r.stream); }, rootAlone,
       block},
      {"scatter", "scatter" + of,
       [=](Rank &r) { return ncclScatter(r.input, r.output, count, ncclInt, root, r.comm, r.stream); }, one,
       [=](int rank, size_t i) { return valueOf(root, static_cast<size_t>(rank) * count + i); }},
  };
}
