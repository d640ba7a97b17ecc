#include "network/fabric/Letter.h"

#include "base/Error.h"
#include "network/Cursor.h"
#include "network/Fabric.h"

namespace kolo::runtime::fabric {
namespace {

constexpr size_t headBytes = 8, nameBytes = 32, regionBytes = 24;
constexpr size_t addressBytes = 4 * 4 + nameBytes + maxFabricName + 1 + 2 * 8; // and the address itself
constexpr size_t registeredBytes = 8 + 4 * 4 + regionBytes;
constexpr size_t questionBytes = 4 * 4 + 8 * 3 + 8 + 2 * 8;
constexpr size_t leavingBytes = 8, countBytes = 4 + 4 + 8 + 8;

using Writer = Cursor<std::byte>;
using Reader = Cursor<const std::byte>;

size_t bodyBytes(const Letter &letter) {
  switch (letter.kind) {
  case LetterKind::Address:
    return addressBytes + letter.address.size();
  case LetterKind::Ready:
  case LetterKind::Farewell:
  case LetterKind::Passed:
    return 0;
  case LetterKind::Leaving:
    return leavingBytes + countBytes * letter.lastCounts.size();
  case LetterKind::Failed:
    return maxReasonBytes + 1;
  case LetterKind::Registered:
    return registeredBytes + regionBytes * letter.registered.regions.size();
  case LetterKind::Released:
    return 8;
  case LetterKind::Question:
    break;
  }
  return questionBytes;
}

void put(Writer &writer, const RemoteRegion &region) {
  for (uint64_t number : {region.key, region.address, region.sizeBytes})
    writer.put(number);
}

RemoteRegion getRegion(Reader &reader) {
  RemoteRegion region;
  for (uint64_t *number : {&region.key, &region.address, &region.sizeBytes})
    *number = reader.get<uint64_t>();
  return region;
}

void put(Writer &writer, const Question &question) {
  writer.put(uint32_t(question.isSignal));
  writer.put(uint32_t(question.isOld));
  writer.put(question.lane);
  writer.put(question.isSignal ? question.signal.semaphore : question.place.role);
  writer.put(question.place.agreement);
  writer.put(question.place.offsetBytes);
  writer.put(question.sizeBytes);
  writer.put(question.signal.agreement);
  writer.put(question.signal.count);
  writer.put(uint64_t(0));
}

/// False: a field is out of range.
bool get(Reader &reader, Question &question) {
  auto isSignal = reader.get<uint32_t>(), isOld = reader.get<uint32_t>();
  question.isSignal = isSignal == 1;
  question.isOld = isOld == 1;
  question.lane = reader.get<uint32_t>();
  (question.isSignal ? question.signal.semaphore : question.place.role) = reader.get<uint32_t>();
  question.place.agreement = reader.get<uint64_t>();
  question.place.offsetBytes = reader.get<uint64_t>();
  question.sizeBytes = reader.get<uint64_t>();
  question.signal.agreement = reader.get<uint64_t>();
  question.signal.count = reader.get<uint64_t>();
  return isSignal <= 1 && isOld <= isSignal && reader.get<uint64_t>() == 0;
}

/// False: a field is out of range.
bool getLeaving(Reader &reader, size_t sizeBytes, Letter &letter) {
  auto numCounts = reader.get<uint32_t>(), isLast = reader.get<uint32_t>();
  letter.isLast = isLast == 1;
  if (isLast > 1 || numCounts > maxLastCounts || sizeBytes != leavingBytes + countBytes * numCounts)
    return false;
  for (uint32_t i = 0; i < numCounts; ++i) {
    LastCount one;
    one.lane = reader.get<uint32_t>();
    one.signal.semaphore = reader.get<uint32_t>();
    one.signal.agreement = reader.get<uint64_t>();
    one.signal.count = reader.get<uint64_t>();
    if (one.signal.count == 0 || one.signal.count >= endOfCounts)
      return false;
    letter.lastCounts.push_back(one);
  }
  return true;
}

/// False: a field is out of range.
bool getBody(Reader &reader, size_t sizeBytes, Letter &letter) {
  switch (letter.kind) {
  case LetterKind::Address: {
    auto order = reader.get<uint32_t>();
    letter.order = static_cast<SignalOrder>(order);
    for (uint32_t *number : {&letter.device.protocol, &letter.device.protocolVersion, &letter.device.addressFormat})
      *number = reader.get<uint32_t>();
    letter.provider = reader.getText(nameBytes);
    letter.device.fabric = reader.getText(maxFabricName + 1);
    letter.testKey = reader.get<uint64_t>();
    letter.testAddress = reader.get<uint64_t>();
    std::span<const std::byte> address = reader.next(sizeBytes - addressBytes);
    letter.address.assign(address.begin(), address.end());
    return order <= static_cast<uint32_t>(SignalOrder::Acknowledged);
  }
  case LetterKind::Ready:
  case LetterKind::Farewell:
  case LetterKind::Passed:
    return true;
  case LetterKind::Leaving:
    return getLeaving(reader, sizeBytes, letter);
  case LetterKind::Failed:
    letter.reason = reader.getText(maxReasonBytes + 1);
    return true;
  case LetterKind::Registered: {
    letter.agreement = reader.get<uint64_t>();
    auto numRegions = reader.get<uint32_t>();
    letter.registered.numLanes = reader.get<uint32_t>();
    letter.registered.numSemaphores = reader.get<uint32_t>();
    auto isBySender = reader.get<uint32_t>();
    letter.registered.isBySender = isBySender == 1;
    if (isBySender > 1 || numRegions > maxRegions || sizeBytes != registeredBytes + regionBytes * numRegions)
      return false;
    letter.registered.cells = getRegion(reader);
    for (uint32_t i = 0; i < numRegions; ++i)
      letter.registered.regions.push_back(getRegion(reader));
    return true;
  }
  case LetterKind::Released:
    letter.agreement = reader.get<uint64_t>();
    return true;
  case LetterKind::Question:
    break;
  }
  return get(reader, letter.question);
}

bool isSizeRight(LetterKind kind, size_t sizeBytes) {
  switch (kind) {
  case LetterKind::Address:
    return sizeBytes > addressBytes && sizeBytes <= addressBytes + maxAddressBytes;
  case LetterKind::Ready:
  case LetterKind::Farewell:
  case LetterKind::Passed:
    return sizeBytes == 0;
  case LetterKind::Leaving:
    return sizeBytes >= leavingBytes;
  case LetterKind::Failed:
    return sizeBytes == maxReasonBytes + 1;
  case LetterKind::Registered:
    return sizeBytes >= registeredBytes;
  case LetterKind::Released:
    return sizeBytes == 8;
  case LetterKind::Question:
    break;
  }
  return sizeBytes == questionBytes;
}

} // namespace

std::vector<std::byte> write(const Letter &letter) {
  std::vector<std::byte> bytes(headBytes + bodyBytes(letter));
  Writer writer(bytes);
  writer.put(fabricMailMark);
  writer.put(letterVersion);
  writer.put(static_cast<uint16_t>(letter.kind));
  writer.put(uint16_t(0));
  switch (letter.kind) {
  case LetterKind::Address:
    writer.put(static_cast<uint32_t>(letter.order));
    for (uint32_t number : {letter.device.protocol, letter.device.protocolVersion, letter.device.addressFormat})
      writer.put(number);
    writer.putText(letter.provider, nameBytes);
    writer.putText(letter.device.fabric, maxFabricName + 1);
    writer.put(letter.testKey);
    writer.put(letter.testAddress);
    std::ranges::copy(letter.address, writer.next(letter.address.size()).begin());
    break;
  case LetterKind::Ready:
  case LetterKind::Farewell:
  case LetterKind::Passed:
    break;
  case LetterKind::Leaving:
    writer.put(static_cast<uint32_t>(letter.lastCounts.size()));
    writer.put(uint32_t(letter.isLast));
    for (const LastCount &one : letter.lastCounts) {
      writer.put(one.lane);
      writer.put(one.signal.semaphore);
      writer.put(one.signal.agreement);
      writer.put(one.signal.count);
    }
    break;
  case LetterKind::Failed:
    writer.putText(letter.reason, maxReasonBytes + 1);
    break;
  case LetterKind::Registered:
    writer.put(letter.agreement);
    writer.put(static_cast<uint32_t>(letter.registered.regions.size()));
    writer.put(letter.registered.numLanes);
    writer.put(letter.registered.numSemaphores);
    writer.put(uint32_t(letter.registered.isBySender));
    put(writer, letter.registered.cells);
    for (const RemoteRegion &region : letter.registered.regions)
      put(writer, region);
    break;
  case LetterKind::Released:
    writer.put(letter.agreement);
    break;
  case LetterKind::Question:
    put(writer, letter.question);
    break;
  }
  return bytes;
}

Result<Letter> parseLetter(std::span<const std::byte> bytes) {
  if (bytes.size() < headBytes)
    return error(StatusCode::Mismatch, "a letter of {} bytes", bytes.size());
  Reader head(bytes);
  if (head.get<uint16_t>() != fabricMailMark)
    return error(StatusCode::Mismatch, "a mail that is no letter of a fabric");
  if (auto version = head.get<uint16_t>(); version != letterVersion)
    return error(StatusCode::Mismatch, "a letter of version {}, not {}", version, letterVersion);
  auto kind = head.get<uint16_t>();
  if (kind < static_cast<uint16_t>(LetterKind::Address) || kind > static_cast<uint16_t>(LetterKind::Failed) ||
      head.get<uint16_t>() != 0)
    return error(StatusCode::Mismatch, "a letter of the unknown kind {}", kind);
  Letter letter;
  letter.kind = static_cast<LetterKind>(kind);
  std::span<const std::byte> body = bytes.subspan(headBytes);
  Reader reader(body);
  if (!isSizeRight(letter.kind, body.size()) || !getBody(reader, body.size(), letter))
    return error(StatusCode::Mismatch, "a letter of kind {} and {} bytes that nobody writes", kind, bytes.size());
  return letter;
}

} // namespace kolo::runtime::fabric
