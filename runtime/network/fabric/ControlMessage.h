// ControlMessage: what two ends of the fabric transport tell each other by mail, as bytes of fixed layout,
// little-endian, with a version.
#pragma once

#include "network/Transport.h"
#include "network/fabric/ProviderRules.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime::fabric {

inline constexpr uint16_t controlVersion = 5;
inline constexpr uint32_t maxRegions = 64;
inline constexpr size_t maxAddressBytes = 256;
/// One message takes so many; a rank that leaves writes as many messages as it needs.
inline constexpr size_t maxLastCounts = 500;
/// Longer reasons are cut.
inline constexpr size_t maxReasonBytes = 511;

enum class ControlKind : uint16_t {
  Address = 1,
  Ready = 2,
  Registered = 3,
  Released = 4,
  Question = 5,
  Leaving = 6,
  Farewell = 7,
  Passed = 8,
  Failed = 9
};

/// Memory as a peer names it in its writes. Nothing may be written where `sizeBytes` is 0.
struct RemoteRegion {
  uint64_t key = 0, address = 0, sizeBytes = 0;
};

/// What a peer lets this rank write in one agreement.
struct RemoteAgreement {
  std::vector<RemoteRegion> regions; // by role
  RemoteRegion cells;
  uint32_t numLanes = 0, numSemaphores = 0;
  uint32_t place = 0, numPlaces = 0; // this rank's among those with cells
  bool isBySender = false;
  bool isRaisedThere = false; // the peer raises the cells: it is sent messages
};

/// A put or signal that its sender cannot place.
struct Question {
  bool isSignal = false;
  bool isOld = false; // a signal whose count is not larger than the one before
  uint32_t lane = 0;
  RemotePlace place;
  uint64_t sizeBytes = 0;
  RemoteSignal signal;
};

/// The last count that a rank that leaves has signalled.
struct LastCount {
  uint32_t lane = 0;
  RemoteSignal signal;
};

/// A kind uses the fields that its name says.
struct ControlMessage {
  ControlKind kind = ControlKind::Ready;
  std::string provider;                          // Address
  SignalOrder order = SignalOrder::Acknowledged; // Address
  std::vector<std::byte> address;                // Address
  DeviceKind device;                             // Address
  uint64_t testKey = 0, testAddress = 0;         // Address: of the memory of the self-test, see SelfTest.h
  uint64_t agreement = 0;                        // Registered, Released
  RemoteAgreement registered;                    // Registered
  Question question;                             // Question
  std::vector<LastCount> lastCounts;             // Leaving
  bool isLast = false;                           // Leaving: no other such message follows
  std::string reason;                            // Failed
};

std::vector<std::byte> write(const ControlMessage &message);
/// Mismatch: says what is wrong.
Result<ControlMessage> parseControlMessage(std::span<const std::byte> bytes);

} // namespace kolo::runtime::fabric
