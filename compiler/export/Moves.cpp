// What moves give, and where input and output share memory.
#include "compiler/export/Moves.h"

#include <map>

namespace kolo::msccl {

ChunkId Aliasing::place(int64_t rank, ChunkId place) const {
  if (!isInPlace)
    return place;
  int64_t ownBlock = rank * moves.chunksPerBlock;
  if (moves.collective == Collective::ReduceScatter) // the output is the rank's block of the input
    return place.memory == Memory::Output ? ChunkId{Memory::Input, ownBlock + place.chunk} : place;
  if (place.memory != Memory::Input)
    return place;
  return {Memory::Output, place.chunk + (moves.collective == Collective::AllGather ? ownBlock : 0)};
}

namespace {

/// splitmix64 of Steele, Lea and Flood, OOPSLA 2014.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

uint64_t contribution(int64_t rank, int64_t chunk) { return mix(mix(uint64_t(rank)) ^ uint64_t(chunk)); }

/// The contents of every place of every rank; a sum stands for a combination.
class SequentialRun {
public:
  SequentialRun(const Moves &moves, bool isInPlace)
      : moves(moves), aliasing(moves, isInPlace), contents(size_t(moves.numRanks)) {}

  bool run() {
    for (int64_t rank = 0; rank < moves.numRanks; ++rank)
      for (int64_t chunk = 0; chunk < moves.numInputChunks(); ++chunk)
        at(rank, {Memory::Input, chunk}) = contribution(rank, chunk);
    for (const Statement &statement : moves.statements)
      execute(statement);
    for (int64_t rank = 0; rank < moves.numRanks; ++rank)
      for (int64_t chunk = 0; chunk < moves.numOutputChunks(); ++chunk)
        if (at(rank, {Memory::Output, chunk}) != expected(rank, chunk))
          return false;
    return true;
  }

private:
  struct Write {
    int64_t rank;
    ChunkId place;
    uint64_t value;
  };

  uint64_t &at(int64_t rank, ChunkId place) {
    auto [entry, isNew] = contents[size_t(rank)].try_emplace(aliasing.place(rank, place), 0);
    if (isNew) // what was there before the call, which nobody may rely on
      entry->second = mix(contribution(rank, place.chunk) + 1 + uint64_t(place.memory));
    return entry->second;
  }

  void execute(const Statement &statement) {
    std::vector<Write> writes;
    for (const Move &move : statement.moves)
      for (const Run &run : move.runs)
        for (int64_t i = 0; i < run.numChunks; ++i)
          writes.push_back({move.receiver,
                            {run.destination.memory, run.destination.chunk + i},
                            at(move.sender, {run.source.memory, run.source.chunk + i})});
    for (const Write &write : writes) {
      uint64_t &value = at(write.rank, write.place);
      value = statement.reduces ? value + write.value : write.value;
    }
  }

  uint64_t expected(int64_t rank, int64_t chunk) const {
    int64_t block = chunk / moves.chunksPerBlock, inBlock = chunk % moves.chunksPerBlock;
    if (moves.collective == Collective::AllGather)
      return contribution(block, inBlock);
    int64_t own = rank * moves.chunksPerBlock;
    if (moves.collective == Collective::AllToAll)
      return contribution(block, own + inBlock);
    uint64_t sum = 0;
    for (int64_t sender = 0; sender < moves.numRanks; ++sender)
      sum += contribution(sender, moves.collective == Collective::ReduceScatter ? own + chunk : chunk);
    return sum;
  }

  const Moves &moves;
  Aliasing aliasing;
  std::vector<std::map<ChunkId, uint64_t>> contents; // [rank]
};

} // namespace

bool givesResult(const Moves &moves, bool isInPlace) { return SequentialRun(moves, isInPlace).run(); }

} // namespace kolo::msccl
