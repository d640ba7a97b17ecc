// Elements by number, which are used again. Used by Simulator.
#pragma once

#include <cstdint>
#include <vector>

namespace kolo::cost {

template <typename T> struct Pool {
  std::vector<T> all;
  std::vector<uint32_t> free;

  uint32_t add(const T &element) {
    if (free.empty()) {
      all.push_back(element);
      return uint32_t(all.size() - 1);
    }
    uint32_t number = free.back();
    free.pop_back();
    all[number] = element;
    return number;
  }
  T &operator[](uint32_t number) { return all[number]; }
};

} // namespace kolo::cost
