// Numbers of things by a hash of the things. Used by FlowKinds and FlowSharing.
#pragma once

#include <cstdint>
#include <vector>

namespace kolo::cost {

/// Numbers are small.
class NumbersByHash {
public:
  static constexpr uint32_t none = UINT32_MAX;

  /// One with this hash for which `isWanted` holds; none.
  template <typename Predicate> uint32_t find(uint64_t hash, Predicate isWanted) const {
    uint32_t number = first[placeOf(hash)];
    while (number != none && (entries[number].hash != hash || !isWanted(number)))
      number = entries[number].next;
    return number;
  }
  /// The number must not be there yet.
  void add(uint64_t hash, uint32_t number) {
    if (++size > first.size())
      grow();
    if (number >= entries.size())
      entries.resize(number + 1);
    uint32_t &place = first[placeOf(hash)];
    entries[number] = {hash, place};
    place = number;
  }
  /// Room for so many.
  void reserve(size_t numbers) {
    entries.reserve(numbers);
    while (first.size() < numbers)
      grow();
  }
  void remove(uint32_t number) {
    uint32_t *place = &first[placeOf(entries[number].hash)];
    while (*place != number)
      place = &entries[*place].next;
    *place = entries[number].next;
    --size;
  }

private:
  struct Entry {
    uint64_t hash;
    uint32_t next; // in the same place
  };
  size_t placeOf(uint64_t hash) const { return hash & (first.size() - 1); }
  void grow() {
    std::vector<uint32_t> before(2 * first.size(), none);
    std::swap(first, before);
    for (uint32_t number : before)
      while (number != none) {
        uint32_t next = entries[number].next, &place = first[placeOf(entries[number].hash)];
        entries[number].next = place;
        place = number;
        number = next;
      }
  }

  std::vector<uint32_t> first = std::vector<uint32_t>(64, none); // of those in each place
  std::vector<Entry> entries;                                    // by number
  size_t size = 0;
};

} // namespace kolo::cost
