// Events by time; those of one time follow each other in the order in which they were added. Used by Simulator.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace kolo::cost {

/// Most events of a symmetric program share their times with many others, so times have buckets, and a heap has times.
template <typename Event> class EventQueue {
public:
  void push(double time, const Event &event) {
    uint32_t &cached = cache[hash(time)];
    if (cached >= buckets.size() || !buckets[cached].isOpen || buckets[cached].time != time)
      cached = open(time);
    buckets[cached].events.push_back(event);
  }

  /// Infinity: there is no event.
  double nextTime() const { return heap.empty() ? std::numeric_limits<double>::infinity() : heap.front().time; }

  /// Takes the events up to this time.
  void popInto(double until, std::vector<Event> &events) {
    events.clear();
    while (nextTime() <= until) {
      Bucket &bucket = buckets[heap.front().bucket];
      if (events.empty())
        std::swap(events, bucket.events);
      events.insert(events.end(), bucket.events.begin(), bucket.events.end());
      bucket.events.clear();
      bucket.isOpen = false;
      free.push_back(heap.front().bucket);
      std::ranges::pop_heap(heap, isLater);
      heap.pop_back();
    }
  }

private:
  struct Bucket {
    double time = 0;
    bool isOpen = false;
    std::vector<Event> events;
  };
  struct Entry {
    double time;
    uint64_t order; // in which buckets were opened
    uint32_t bucket;
  };
  static bool isLater(const Entry &a, const Entry &b) { return a.time != b.time ? a.time > b.time : a.order > b.order; }
  static size_t hash(double time) { return (std::bit_cast<uint64_t>(time) * 0x9e3779b97f4a7c15) >> 54; }

  uint32_t open(double time) {
    if (free.empty()) {
      free.push_back(uint32_t(buckets.size()));
      buckets.emplace_back();
    }
    uint32_t number = free.back();
    free.pop_back();
    buckets[number].time = time;
    buckets[number].isOpen = true;
    heap.push_back({time, numOpened++, number});
    std::ranges::push_heap(heap, isLater);
    return number;
  }

  std::vector<Bucket> buckets;
  std::vector<uint32_t> free;
  std::vector<Entry> heap;
  std::array<uint32_t, 1024> cache = {};
  uint64_t numOpened = 0;
};

} // namespace kolo::cost
