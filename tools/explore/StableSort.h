// Sorting that keeps the order of what is equal. Used by exploration.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace kolo::explore {

/// By a key, the smallest first. Compilers warn of std::stable_sort in libstdc++ 12, which calls what C++20 deprecates.
template <typename Item, typename Key> void sortStably(std::vector<Item> &items, Key key) {
  std::vector<std::pair<decltype(key(items.front())), size_t>> order;
  for (size_t number = 0; number < items.size(); ++number)
    order.emplace_back(key(items[number]), number);
  std::ranges::sort(order);
  std::vector<Item> sorted;
  for (const auto &[_, number] : order)
    sorted.push_back(std::move(items[number]));
  items = std::move(sorted);
}

} // namespace kolo::explore
