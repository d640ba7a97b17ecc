// DeviceSummary: what the records of some ranks say together when they meet. All that ranks decide by records of other
// hosts follows from the summary of all.
#pragma once

#include "device/DeviceRecord.h"
#include "peers/CombinedRecords.h"

#include <array>
#include <bitset>
#include <string>

namespace kolo::runtime {

/// Why a summary keeps the terms of a rank: First has the lowest number; the others are the lowest that say something
/// else than it.
enum class DeviceKept : uint8_t {
  First,
  OtherPurpose,
  OtherCalls,
  OtherSettings,
  OtherSize,
  OtherMapping,
  OtherWindow
};
inline constexpr size_t numDeviceKept = 7;

class DeviceSummary final : public CombinedRecords {
public:
  /// Of no rank, in a world of so many.
  explicit DeviceSummary(int numRanksOfWorld) : numRanks(numRanksOfWorld) {}

  /// `published` is a DeviceRecord.
  void addRank(int rank, const std::byte *published) override;
  Status add(std::span<const std::byte> others) override;
  std::vector<std::byte> write() const override;

  bool has(DeviceKept why) const { return one(why).rank >= 0; }
  int rankOf(DeviceKept why) const { return one(why).rank; }
  /// Require `has`.
  const DeviceTerms &termsOf(DeviceKept why) const { return one(why).terms; }
  const DeviceTerms &first() const { return termsOf(DeviceKept::First); }

  /// The lowest rank that refuses. Rank -1: none does.
  struct NamedRefusal {
    int rank = -1;
    StatusCode code = StatusCode::Ok;
    std::string message;
  };
  const NamedRefusal &refusal() const { return firstRefusal; }
  /// The lowest rank whose network does not reach its device; -1: there is none.
  int unreached() const { return firstUnreached; }
  /// Whether the host of some rank may be the machine of another host with another name.
  bool someMayShare() const { return mayBeShared; }
  /// The shapes that graphs of some rank use.
  const std::bitset<mostShapes> &captured() const { return allCaptured; }

private:
  struct KeptTerms {
    int rank = -1;
    DeviceTerms terms;
  };
  KeptTerms &one(DeviceKept why) { return kept[static_cast<size_t>(why)]; }
  const KeptTerms &one(DeviceKept why) const { return kept[static_cast<size_t>(why)]; }
  void add(const DeviceSummary &other);
  void addKept(const DeviceSummary &other);
  bool isEmpty() const { return !has(DeviceKept::First); }
  bool read(std::span<const std::byte> bytes);
  bool isRank(int rank) const { return rank >= -1 && rank < numRanks; }

  int numRanks;
  std::array<KeptTerms, numDeviceKept> kept;
  NamedRefusal firstRefusal;
  int firstUnreached = -1;
  bool mayBeShared = false;
  std::bitset<mostShapes> allCaptured;
};

} // namespace kolo::runtime
