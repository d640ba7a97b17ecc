#include "network/fabric/ControlMessage.h"

#include "base/Error.h"
#include "network/Cursor.h"
#include "network/Fabric.h"

namespace kolo::runtime::fabric {
namespace {

constexpr size_t headBytes = 8, nameBytes = 32, regionBytes = 24;
constexpr size_t addressBytes = 4 * 4 + nameBytes + maxFabricName + 1 + 2 * 8; // and the address itself
constexpr size_t registeredBytes = 8 + 6 * 4 + regionBytes;
constexpr size_t questionBytes = 4 * 4 + 8 * 3 + 8 + 2 * 8;
constexpr uint32_t bySender = 1, raisedThere = 2; // what the cells of an agreement are
constexpr size_t leavingBytes = 8, countBytes = 4 + 4 + 8 + 8;

size_t bodyBytes(const ControlMessage &message) {
  switch (message.kind) {
  case ControlKind::Address:
    return addressBytes + message.address.size();
  case ControlKind::Ready:
  case ControlKind::Farewell:
  case ControlKind::Passed:
    return 0;
  case ControlKind::Leaving:
    return leavingBytes + countBytes * message.lastCounts.size();
  case ControlKind::Failed:
    return maxReasonBytes + 1;
  case ControlKind::Registered:
    return registeredBytes + regionBytes * message.registered.regions.size();
  case ControlKind::Released:
    return 8;
  case ControlKind::Question:
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
bool getLeaving(Reader &reader, size_t sizeBytes, ControlMessage &message) {
  auto numCounts = reader.get<uint32_t>(), isLast = reader.get<uint32_t>();
  message.isLast = isLast == 1;
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
    message.lastCounts.push_back(one);
  }
  return true;
}

/// False: a field is out of range.
bool getBody(Reader &reader, size_t sizeBytes, ControlMessage &message) {
  switch (message.kind) {
  case ControlKind::Address: {
    auto order = reader.get<uint32_t>();
    message.order = static_cast<SignalOrder>(order);
    for (uint32_t *number : {&message.device.protocol, &message.device.protocolVersion, &message.device.addressFormat})
      *number = reader.get<uint32_t>();
    message.provider = reader.getText(nameBytes);
    message.device.fabric = reader.getText(maxFabricName + 1);
    message.testKey = reader.get<uint64_t>();
    message.testAddress = reader.get<uint64_t>();
    std::span<const std::byte> address = reader.next(sizeBytes - addressBytes);
    message.address.assign(address.begin(), address.end());
    return order <= static_cast<uint32_t>(SignalOrder::Acknowledged);
  }
  case ControlKind::Ready:
  case ControlKind::Farewell:
  case ControlKind::Passed:
    return true;
  case ControlKind::Leaving:
    return getLeaving(reader, sizeBytes, message);
  case ControlKind::Failed:
    message.reason = reader.getText(maxReasonBytes + 1);
    return true;
  case ControlKind::Registered: {
    message.agreement = reader.get<uint64_t>();
    auto numRegions = reader.get<uint32_t>();
    message.registered.numLanes = reader.get<uint32_t>();
    message.registered.numSemaphores = reader.get<uint32_t>();
    message.registered.place = reader.get<uint32_t>();
    message.registered.numPlaces = reader.get<uint32_t>();
    auto cellsAre = reader.get<uint32_t>();
    message.registered.isBySender = cellsAre & bySender;
    message.registered.isRaisedThere = cellsAre & raisedThere;
    if (message.registered.place >= std::max(message.registered.numPlaces, 1U) || cellsAre > (bySender | raisedThere) ||
        numRegions > maxRegions || sizeBytes != registeredBytes + regionBytes * numRegions)
      return false;
    message.registered.cells = getRegion(reader);
    for (uint32_t i = 0; i < numRegions; ++i)
      message.registered.regions.push_back(getRegion(reader));
    return true;
  }
  case ControlKind::Released:
    message.agreement = reader.get<uint64_t>();
    return true;
  case ControlKind::Question:
    break;
  }
  return get(reader, message.question);
}

bool isSizeRight(ControlKind kind, size_t sizeBytes) {
  switch (kind) {
  case ControlKind::Address:
    return sizeBytes > addressBytes && sizeBytes <= addressBytes + maxAddressBytes;
  case ControlKind::Ready:
  case ControlKind::Farewell:
  case ControlKind::Passed:
    return sizeBytes == 0;
  case ControlKind::Leaving:
    return sizeBytes >= leavingBytes;
  case ControlKind::Failed:
    return sizeBytes == maxReasonBytes + 1;
  case ControlKind::Registered:
    return sizeBytes >= registeredBytes;
  case ControlKind::Released:
    return sizeBytes == 8;
  case ControlKind::Question:
    break;
  }
  return sizeBytes == questionBytes;
}

} // namespace

std::vector<std::byte> write(const ControlMessage &message) {
  std::vector<std::byte> bytes(headBytes + bodyBytes(message));
  Writer writer(bytes);
  writer.put(fabricMailMark);
  writer.put(controlVersion);
  writer.put(static_cast<uint16_t>(message.kind));
  writer.put(uint16_t(0));
  switch (message.kind) {
  case ControlKind::Address:
    writer.put(static_cast<uint32_t>(message.order));
    for (uint32_t number : {message.device.protocol, message.device.protocolVersion, message.device.addressFormat})
      writer.put(number);
    writer.putText(message.provider, nameBytes);
    writer.putText(message.device.fabric, maxFabricName + 1);
    writer.put(message.testKey);
    writer.put(message.testAddress);
    std::ranges::copy(message.address, writer.next(message.address.size()).begin());
    break;
  case ControlKind::Ready:
  case ControlKind::Farewell:
  case ControlKind::Passed:
    break;
  case ControlKind::Leaving:
    writer.put(static_cast<uint32_t>(message.lastCounts.size()));
    writer.put(uint32_t(message.isLast));
    for (const LastCount &one : message.lastCounts) {
      writer.put(one.lane);
      writer.put(one.signal.semaphore);
      writer.put(one.signal.agreement);
      writer.put(one.signal.count);
    }
    break;
  case ControlKind::Failed:
    writer.putText(message.reason, maxReasonBytes + 1);
    break;
  case ControlKind::Registered:
    writer.put(message.agreement);
    writer.put(static_cast<uint32_t>(message.registered.regions.size()));
    writer.put(message.registered.numLanes);
    writer.put(message.registered.numSemaphores);
    writer.put(message.registered.place);
    writer.put(message.registered.numPlaces);
    writer.put((message.registered.isBySender ? bySender : 0) | (message.registered.isRaisedThere ? raisedThere : 0));
    put(writer, message.registered.cells);
    for (const RemoteRegion &region : message.registered.regions)
      put(writer, region);
    break;
  case ControlKind::Released:
    writer.put(message.agreement);
    break;
  case ControlKind::Question:
    put(writer, message.question);
    break;
  }
  return bytes;
}

Result<ControlMessage> parseControlMessage(std::span<const std::byte> bytes) {
  if (bytes.size() < headBytes)
    return error(StatusCode::Mismatch, "a message of {} bytes", bytes.size());
  Reader head(bytes);
  if (head.get<uint16_t>() != fabricMailMark)
    return error(StatusCode::Mismatch, "a mail that is no message of a fabric");
  if (auto version = head.get<uint16_t>(); version != controlVersion)
    return error(StatusCode::Mismatch, "a message of version {}, not {}", version, controlVersion);
  auto kind = head.get<uint16_t>();
  if (kind < static_cast<uint16_t>(ControlKind::Address) || kind > static_cast<uint16_t>(ControlKind::Failed) ||
      head.get<uint16_t>() != 0)
    return error(StatusCode::Mismatch, "a message of the unknown kind {}", kind);
  ControlMessage message;
  message.kind = static_cast<ControlKind>(kind);
  std::span<const std::byte> body = bytes.subspan(headBytes);
  Reader reader(body);
  if (!isSizeRight(message.kind, body.size()) || !getBody(reader, body.size(), message))
    return error(StatusCode::Mismatch, "a message of kind {} and {} bytes that nobody writes", kind, bytes.size());
  return message;
}

} // namespace kolo::runtime::fabric
