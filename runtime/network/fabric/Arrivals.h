// Arrivals: which signals of one peer may be raised, where writes arrive in any order and each says so.
//
// An interval of a lane is the puts between two of its signals. Every write carries the number of its interval, and the
// signal's message carries how many puts that interval has. A signal is due when its interval, and all earlier ones,
// have all their puts. Counting all puts together would be wrong: a later put may arrive before an earlier one.
#pragma once

#include "network/Transport.h"

#include <functional>
#include <map>
#include <optional>

namespace kolo::runtime::fabric {

/// A sender begins no interval before all writes of the one that is so many earlier are complete. A write carries 8
/// bits of the number.
inline constexpr uint64_t mostOpenIntervals = 128;
inline constexpr uint32_t maxCountedLanes = 1 << 7, maxCountedRanks = 1 << 17;

/// What a write carries.
constexpr uint32_t markOf(int rank, uint32_t lane, uint64_t interval) {
  return static_cast<uint32_t>(rank) << 15 | lane << 8 | static_cast<uint32_t>(interval & 0xff);
}
constexpr int rankOfMark(uint32_t mark) { return static_cast<int>(mark >> 15); }
constexpr uint32_t laneOfMark(uint32_t mark) { return mark >> 8 & (maxCountedLanes - 1); }

/// The message behind the puts of an interval.
struct SignalMessage {
  uint32_t lane = 0;
  uint64_t interval = 0, numPuts = 0;
  RemoteSignal signal;
};

class Arrivals {
public:
  using Raise = std::function<void(uint32_t lane, const RemoteSignal &signal)>;

  /// A write with this mark has arrived. Calls `raise` for the signals that are due.
  void notePut(uint32_t mark, const Raise &raise) {
    Lane &lane = lanes[laneOfMark(mark)];
    uint64_t interval = lane.first + ((mark - lane.first) & 0xff);
    ++lane.intervals[interval].numArrived;
    raiseDue(laneOfMark(mark), lane, raise);
  }

  void noteSignal(const SignalMessage &message, const Raise &raise) {
    Lane &lane = lanes[message.lane];
    lane.intervals[message.interval].message = message;
    raiseDue(message.lane, lane, raise);
  }

private:
  struct Interval {
    uint64_t numArrived = 0;
    std::optional<SignalMessage> message;
  };
  struct Lane {
    uint64_t first = 0; // the first interval that is not complete
    std::map<uint64_t, Interval> intervals;
  };

  static void raiseDue(uint32_t number, Lane &lane, const Raise &raise) {
    for (auto found = lane.intervals.find(lane.first); found != lane.intervals.end();
         found = lane.intervals.find(lane.first)) {
      const Interval &interval = found->second;
      if (!interval.message || interval.numArrived != interval.message->numPuts)
        return;
      raise(number, interval.message->signal);
      lane.intervals.erase(found);
      ++lane.first;
    }
  }

  std::map<uint32_t, Lane> lanes;
};

} // namespace kolo::runtime::fabric
