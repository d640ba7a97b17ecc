// DeviceCalls: what ranks must agree on in a call of devices, and how ranks of different hosts find that they do not.
#pragma once

#include "call/CallIdentity.h"
#include "kolo/runtime/Status.h"
#include "peers/Control.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

namespace kolo::runtime {

class Peers;

/// A place in a registered window: its number, from 1, and an offset in it. 0: no place that ranks must agree on.
using DevicePlace = uint64_t;
inline constexpr int placeOffsetBits = 44;
inline DevicePlace placeAt(uint64_t window, uint64_t offsetBytes) { return window << placeOffsetBits | offsetBytes; }
inline uint64_t windowOf(DevicePlace place) { return place >> placeOffsetBits; }
inline uint64_t offsetOf(DevicePlace place) { return place & ((uint64_t(1) << placeOffsetBits) - 1); }

/// What ranks must agree on in a call.
struct DeviceCallKey {
  CallKey call;
  DevicePlace input = 0, output = 0;
  int64_t lanes = 0;
};

/// What one rank knows of one call, for others.
struct AnnouncedCall {
  uint64_t number = 0;              // from 1
  uint64_t digest = 0;              // of this call and all before it
  StatusCode code = StatusCode::Ok; // not Ok: the rank refused the call, and `message` says why
  DeviceCallKey key;
  std::string message;
};

/// The digest of all calls up to one with this key; `before`: of those before it.
uint64_t digestOf(const DeviceCallKey &key, uint64_t before);
/// Mismatch, or the refusal of a rank where the other rank goes on. `ranks`: this one and the other one.
Status compareDeviceCalls(std::array<int, 2> ranks, const AnnouncedCall &mine, const AnnouncedCall &theirs);

/// Calls that the speakers of hosts tell each other, in a ring of the hosts, by notes. Nobody waits for a note: who has
/// made both calls compares them when it hears of the other one, and aborts the communicator if they differ.
class HostCalls {
public:
  /// A call that ranks have made before is told only if its number is a multiple of this.
  static constexpr uint64_t interval = 64;

  /// Null on ranks that do not speak, and where there is one host. Takes notes from now on.
  static std::shared_ptr<HostCalls> start(Peers &peers);

  /// Notes a call of this rank, and tells the next host. Mismatch, or the other host's refusal.
  Status announce(const AnnouncedCall &mine, bool isNew);

private:
  explicit HostCalls(Peers &ofRank) : peers(ofRank) {}
  Status take(int sender, std::span<const std::byte> note);

  Peers &peers;
  std::mutex mutex;                                        // of what follows
  std::deque<AnnouncedCall> own;                           // the last ones, in order
  std::map<uint64_t, std::pair<int, AnnouncedCall>> early; // by number: of another host, with its speaker
};

} // namespace kolo::runtime
