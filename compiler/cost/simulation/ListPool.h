// Many short lists whose elements lie in one array. Used by FlowSharing and what it is made of.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo::cost {

/// Elements that follow each other. Where a list has much room, it is a power of two.
struct PooledList {
  uint32_t first = 0, size = 0, room = 0;
};

/// What is added may move all elements: spans and references end then.
template <typename T> class ListPool {
public:
  T &operator[](uint32_t number) { return all[number]; }
  const T &operator[](uint32_t number) const { return all[number]; }
  std::span<T> of(const PooledList &list) { return std::span(all).subspan(list.first, list.size); }
  std::span<const T> of(const PooledList &list) const { return std::span(all).subspan(list.first, list.size); }

  /// A list of so many elements, which are anything.
  PooledList make(size_t size) {
    size_t room = size <= mostExact ? size : std::bit_ceil(size);
    std::vector<uint32_t> &places = freeOf(room);
    if (places.empty()) {
      places.push_back(uint32_t(all.size()));
      all.resize(all.size() + room);
    }
    PooledList list{places.back(), uint32_t(size), uint32_t(room)};
    places.pop_back();
    return list;
  }
  void push(PooledList &list, const T &element) {
    if (list.size == list.room) {
      PooledList larger = make(std::max<size_t>(2 * list.room, leastRoom));
      std::ranges::copy(of(list), all.begin() + larger.first);
      larger.size = list.size;
      clear(list);
      list = larger;
    }
    all[list.first + list.size++] = element;
  }
  void pop(PooledList &list) { --list.size; }
  void clear(PooledList &list) {
    if (list.room > 0)
      freeOf(list.room).push_back(list.first);
    list = {};
  }

  void reserve(size_t elements) { all.reserve(elements); }

private:
  static constexpr size_t leastRoom = 2, mostExact = 32;
  std::vector<uint32_t> &freeOf(size_t room) {
    return free[room <= mostExact ? room : mostExact + size_t(std::countr_zero(room))];
  }

  std::vector<T> all;
  // By room, and by its logarithm where it is not exact:
  std::vector<std::vector<uint32_t>> free = std::vector<std::vector<uint32_t>>(mostExact + 32);
};

} // namespace kolo::cost
