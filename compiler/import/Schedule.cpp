#include "compiler/import/Schedule.h"

#include <fmt/format.h>

#include <array>

namespace kolo::foreign {

ChunkPlace resolve(const ForeignSchedule &schedule, bool isInPlace, ChunkPlace place) {
  if (!isInPlace || place.memory == Memory::Scratch)
    return place;
  int32_t own = place.rank * schedule.chunksPerBlock;
  switch (schedule.collective) {
  case Collective::AllGather:
    if (place.memory == Memory::Input)
      place.chunk += own;
    place.memory = Memory::Output;
    break;
  case Collective::ReduceScatter:
    if (place.memory == Memory::Output)
      place.chunk += own;
    place.memory = Memory::Input;
    break;
  case Collective::AllReduce:
  case Collective::AllToAll:
    place.memory = Memory::Output;
  }
  return place;
}

std::string describe(const ForeignSchedule &schedule, const ChunkPlace &place) {
  static constexpr std::array names{"input", "output", "scratch memory"};
  std::string part;
  if (schedule.pieces > 1)
    part = fmt::format("part {} of {} of ", place.chunk % schedule.pieces + 1, schedule.pieces);
  return fmt::format("{}chunk {} of the {} of rank {}", part, place.chunk / schedule.pieces,
                     names[size_t(place.memory)], place.rank);
}

} // namespace kolo::foreign
