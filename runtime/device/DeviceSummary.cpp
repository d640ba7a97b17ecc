#include "device/DeviceSummary.h"

#include "base/Error.h"
#include "network/Cursor.h"
#include "network/NetworkChoice.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace kolo::runtime {
namespace {

constexpr size_t messageBytes = sizeof(DeviceRecord::message), capturedBytes = mostShapes / 8;
constexpr size_t termsBytes = 2 * 4 + 4 * 8 + 4 * 4 + 8;
constexpr size_t headBytes = (numDeviceKept + 2) * 4 + 4;
constexpr size_t refusalBytes = 4 + messageBytes;
static_assert(headBytes + numDeviceKept * termsBytes + refusalBytes + capturedBytes <= maxCombinedBytes);
constexpr uint32_t shareFlag = 1, capturedFlag = 2;

bool areAlike(DeviceKept why, const DeviceTerms &left, const DeviceTerms &right) {
  switch (why) {
  case DeviceKept::First:
    break;
  case DeviceKept::OtherPurpose:
    return left.purpose == right.purpose;
  case DeviceKept::OtherCalls:
    return std::tie(left.numCalls, left.digest) == std::tie(right.numCalls, right.digest);
  case DeviceKept::OtherSettings:
    return left.settings == right.settings;
  case DeviceKept::OtherSize:
    return left.sizeBytes == right.sizeBytes;
  case DeviceKept::OtherMapping:
    return left.isMapped == right.isMapped;
  case DeviceKept::OtherWindow:
    return left.window == right.window;
  }
  return true;
}

/// Of two ranks, of which -1 is none.
bool isLower(int rank, int than) { return rank >= 0 && (than < 0 || rank < than); }

void writeTerms(Writer &writer, const DeviceTerms &terms) {
  writer.put(static_cast<int32_t>(terms.purpose));
  writer.put(uint32_t(terms.isMapped ? 1 : 0));
  for (uint64_t number : {terms.numCalls, terms.digest, terms.sizeBytes, terms.window})
    writer.put(number);
  for (int32_t number : {terms.settings.memory, terms.settings.lanes, terms.settings.threads, terms.settings.kind})
    writer.put(number);
  writer.put(terms.settings.internalBytes);
}

/// False: a field is out of range.
bool readTerms(Reader &reader, DeviceTerms &terms) {
  const auto purpose = reader.get<int32_t>();
  const auto isMapped = reader.get<uint32_t>();
  for (uint64_t *number : {&terms.numCalls, &terms.digest, &terms.sizeBytes, &terms.window})
    *number = reader.get<uint64_t>();
  DeviceSettings &settings = terms.settings;
  for (int32_t *number : {&settings.memory, &settings.lanes, &settings.threads, &settings.kind})
    *number = reader.get<int32_t>();
  settings.internalBytes = reader.get<uint64_t>();
  terms.purpose = static_cast<DevicePurpose>(purpose);
  terms.isMapped = isMapped == 1;
  return purpose >= 0 && purpose <= static_cast<int32_t>(DevicePurpose::Leave) && isMapped <= 1 &&
         settings.memory >= 0 && settings.memory <= static_cast<int32_t>(NetworkMemory::Auto);
}

void writeCaptured(Writer &writer, const std::bitset<mostShapes> &captured) {
  for (size_t byte = 0; byte < capturedBytes; ++byte) {
    uint8_t bits = 0;
    for (size_t bit = 0; bit < 8; ++bit)
      bits = static_cast<uint8_t>(bits | (captured[8 * byte + bit] ? 1u << bit : 0u));
    writer.put(bits);
  }
}

void readCaptured(Reader &reader, std::bitset<mostShapes> &captured) {
  for (size_t byte = 0; byte < capturedBytes; ++byte) {
    const auto bits = reader.get<uint8_t>();
    for (size_t bit = 0; bit < 8; ++bit)
      captured[8 * byte + bit] = (bits >> bit & 1u) != 0;
  }
}

} // namespace

void DeviceSummary::addRank(int rank, const std::byte *published) {
  DeviceRecord record;
  std::memcpy(&record, published, sizeof(record));
  DeviceSummary ofRank(numRanks);
  ofRank.one(DeviceKept::First) = {rank, record};
  if (record.code != StatusCode::Ok)
    ofRank.firstRefusal = {rank, record.code, record.message};
  ofRank.firstUnreached = record.isReached ? -1 : rank;
  ofRank.mayBeShared = record.mayShareMachine;
  ofRank.allCaptured = record.captured;
  add(ofRank);
}

void DeviceSummary::add(const DeviceSummary &other) {
  addKept(other);
  if (isLower(other.firstRefusal.rank, firstRefusal.rank))
    firstRefusal = other.firstRefusal;
  if (isLower(other.firstUnreached, firstUnreached))
    firstUnreached = other.firstUnreached;
  mayBeShared |= other.mayBeShared;
  allCaptured |= other.allCaptured;
}

void DeviceSummary::addKept(const DeviceSummary &other) {
  if (isEmpty() || other.isEmpty()) {
    kept = isEmpty() ? other.kept : kept;
    return;
  }
  const bool isFirst = isLower(other.rankOf(DeviceKept::First), rankOf(DeviceKept::First));
  std::array<KeptTerms, numDeviceKept> sum = isFirst ? other.kept : kept;
  const std::array<KeptTerms, numDeviceKept> &high = isFirst ? kept : other.kept;
  for (size_t why = 1; why < numDeviceKept; ++why) {
    const KeptTerms &theirs = areAlike(DeviceKept(why), sum[0].terms, high[0].terms) ? high[why] : high[0];
    if (isLower(theirs.rank, sum[why].rank))
      sum[why] = theirs;
  }
  kept = sum;
}

std::vector<std::byte> DeviceSummary::write() const {
  const auto numKept =
      static_cast<size_t>(std::ranges::count_if(kept, [](const KeptTerms &each) { return each.rank >= 0; }));
  const bool isRefused = firstRefusal.rank >= 0, hasCaptured = allCaptured.any();
  std::vector<std::byte> bytes(headBytes + numKept * termsBytes + (isRefused ? refusalBytes : 0) +
                               (hasCaptured ? capturedBytes : 0));
  Writer writer(bytes);
  for (const KeptTerms &each : kept)
    writer.put(static_cast<int32_t>(each.rank));
  writer.put(static_cast<int32_t>(firstRefusal.rank));
  writer.put(static_cast<int32_t>(firstUnreached));
  writer.put((mayBeShared ? shareFlag : 0) | (hasCaptured ? capturedFlag : 0));
  for (const KeptTerms &each : kept)
    if (each.rank >= 0)
      writeTerms(writer, each.terms);
  if (isRefused) {
    writer.put(static_cast<int32_t>(firstRefusal.code));
    writer.putText(firstRefusal.message, messageBytes);
  }
  if (hasCaptured)
    writeCaptured(writer, allCaptured);
  return bytes;
}

/// Into an empty summary. False: `write` makes no such bytes.
bool DeviceSummary::read(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  if (bytes.size() < headBytes)
    return false;
  bool isRight = true;
  size_t numKept = 0;
  for (KeptTerms &each : kept) {
    each.rank = reader.get<int32_t>();
    isRight &= isRank(each.rank);
    numKept += each.rank >= 0;
  }
  firstRefusal.rank = reader.get<int32_t>();
  firstUnreached = reader.get<int32_t>();
  const auto flags = reader.get<uint32_t>();
  const bool isRefused = firstRefusal.rank >= 0, hasCaptured = flags & capturedFlag;
  if (!isRight || isEmpty() || !isRank(firstRefusal.rank) || !isRank(firstUnreached) ||
      flags > (shareFlag | capturedFlag) ||
      bytes.size() !=
          headBytes + numKept * termsBytes + (isRefused ? refusalBytes : 0) + (hasCaptured ? capturedBytes : 0))
    return false;
  mayBeShared = flags & shareFlag;
  for (KeptTerms &each : kept)
    isRight &= each.rank < 0 || readTerms(reader, each.terms);
  if (isRefused) {
    const auto code = reader.get<int32_t>();
    isRight &= code > 0 && code <= static_cast<int32_t>(StatusCode::DeviceError);
    firstRefusal.code = static_cast<StatusCode>(code);
    firstRefusal.message = reader.getText(messageBytes);
  }
  if (hasCaptured)
    readCaptured(reader, allCaptured);
  return isRight;
}

Status DeviceSummary::add(std::span<const std::byte> others) {
  DeviceSummary other(numRanks);
  if (!other.read(others))
    return error(StatusCode::Mismatch, "{} bytes that no meeting of devices has", others.size());
  add(other);
  return {};
}

} // namespace kolo::runtime
