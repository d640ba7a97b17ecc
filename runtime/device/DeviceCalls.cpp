#include "device/DeviceCalls.h"

#include "base/Error.h"
#include "network/Cursor.h"
#include "peers/Peers.h"

#include <algorithm>
#include <vector>

namespace kolo::runtime {
namespace {

/// So many calls a host may be ahead of another one, or behind it, and still be compared.
constexpr size_t mostKept = 1024;
constexpr size_t messageBytes = 320;
constexpr size_t noteBytes = 8 + 8 + 4 + 4 + 8 + 8 * KOLO_MAX_MESH_DIMS + 8 + 4 * 4 + 3 * 8 + messageBytes;
static_assert(noteBytes <= maxNoteBytes);

/// The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
uint64_t mixed(uint64_t digest, uint64_t value) {
  uint64_t bits = (digest ^ value) + 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

Status rankRefused(int rank, StatusCode code, const std::string &message) {
  return rankError(code, rank, "rank {}: {}", rank, message);
}

std::string describePlace(DevicePlace place) {
  return place == 0 ? "memory in no window" : fmt::format("offset {} of window {}", offsetOf(place), windowOf(place));
}

/// Between two calls that differ.
Status nameDifference(int first, const DeviceCallKey &left, int second, const DeviceCallKey &right) {
  if (Status status = compareCalls(left.call, right.call, {first, second}); !status.isOk())
    return status;
  const struct {
    const char *name;
    DevicePlace left, right;
  } places[] = {{"input", left.input, right.input}, {"output", left.output, right.output}};
  for (const auto &place : places)
    if (place.left != place.right)
      return rankError(StatusCode::Mismatch, second,
                       "ranks disagree on where the {} is: rank {} called with {}, rank {} with {}", place.name, first,
                       describePlace(place.left), second, describePlace(place.right));
  if (left.lanes != right.lanes)
    return rankError(StatusCode::Mismatch, second,
                     "ranks disagree on lanes: rank {} has {} in this call, rank {} has {}", first, left.lanes, second,
                     right.lanes);
  return rankError(StatusCode::Mismatch, second, "ranks {} and {} disagree on an earlier call", first, second);
}

std::vector<std::byte> write(const AnnouncedCall &call) {
  std::vector<std::byte> bytes(noteBytes);
  Cursor<std::byte> writer(bytes);
  writer.put(call.number);
  writer.put(call.digest);
  writer.put(static_cast<int32_t>(call.code));
  writer.put(uint32_t(call.key.call.hasTables ? 1 : 0));
  writer.put(call.key.call.plugin);
  for (int64_t size : call.key.call.mesh)
    writer.put(size);
  writer.put(call.key.call.count);
  for (int32_t value : {call.key.call.program, call.key.call.type, call.key.call.reduction, call.key.call.root})
    writer.put(value);
  writer.put(call.key.input);
  writer.put(call.key.output);
  writer.put(call.key.lanes);
  writer.putText(call.message, messageBytes);
  return bytes;
}

/// Requires noteBytes bytes. False: a field is out of range.
bool read(std::span<const std::byte> bytes, AnnouncedCall &call) {
  Cursor<const std::byte> reader(bytes);
  call.number = reader.get<uint64_t>();
  call.digest = reader.get<uint64_t>();
  const auto code = reader.get<int32_t>();
  const auto hasTables = reader.get<uint32_t>();
  call.code = static_cast<StatusCode>(code);
  call.key.call.hasTables = hasTables == 1;
  call.key.call.plugin = reader.get<uint64_t>();
  for (int64_t &size : call.key.call.mesh)
    size = reader.get<int64_t>();
  call.key.call.count = reader.get<int64_t>();
  CallKey &key = call.key.call;
  for (int32_t *value : {&key.program, &key.type, &key.reduction, &key.root})
    *value = reader.get<int32_t>();
  call.key.input = reader.get<uint64_t>();
  call.key.output = reader.get<uint64_t>();
  call.key.lanes = reader.get<int64_t>();
  call.message = reader.getText(messageBytes);
  return call.number != 0 && hasTables <= 1 && code >= 0 && code <= static_cast<int32_t>(StatusCode::DeviceError);
}

} // namespace

uint64_t digestOf(const DeviceCallKey &key, uint64_t before) {
  const CallKey &call = key.call;
  uint64_t digest = mixed(before, call.plugin);
  for (int64_t size : call.mesh)
    digest = mixed(digest, static_cast<uint64_t>(size));
  digest = mixed(digest, static_cast<uint64_t>(call.count));
  digest = mixed(digest, call.hasTables);
  for (int32_t value : {call.program, call.type, call.reduction, call.root})
    digest = mixed(digest, static_cast<uint32_t>(value));
  return mixed(mixed(mixed(digest, key.input), key.output), static_cast<uint64_t>(key.lanes));
}

Status compareDeviceCalls(std::array<int, 2> ranks, const AnnouncedCall &mine, const AnnouncedCall &theirs) {
  const auto [self, peer] = ranks;
  if (mine.digest == theirs.digest && mine.code == theirs.code)
    return {};
  bool isRefusedHere = mine.code != StatusCode::Ok, isRefusedThere = theirs.code != StatusCode::Ok;
  if (isRefusedHere && isRefusedThere)
    return {};
  if (isRefusedThere)
    return rankRefused(peer, theirs.code, theirs.message);
  if (isRefusedHere)
    return rankRefused(self, mine.code, mine.message);
  return peer < self ? nameDifference(peer, theirs.key, self, mine.key)
                     : nameDifference(self, mine.key, peer, theirs.key);
}

std::shared_ptr<HostCalls> HostCalls::start(Peers &peers) {
  if (!peers.hosts().speaks())
    return nullptr;
  std::shared_ptr<HostCalls> made(new HostCalls(peers));
  peers.links()->setNoteTaker([made](int sender, std::span<const std::byte> note) {
    return guarded([&] { return made->take(sender, note); });
  });
  return made;
}

Status HostCalls::announce(const AnnouncedCall &mine, bool isNew) {
  const Hosts &hosts = peers.hosts();
  if (isNew || mine.number % interval == 0)
    peers.links()->sendNote(hosts.speakerOf((hosts.ownHost() + 1) % hosts.number()), write(mine));
  std::scoped_lock lock(mutex);
  own.push_back(mine);
  if (own.size() > mostKept)
    own.pop_front();
  auto found = early.find(mine.number);
  early.erase(early.begin(), early.lower_bound(mine.number));
  if (found == early.end())
    return {};
  const auto [sender, theirs] = std::move(found->second);
  early.erase(found);
  return compareDeviceCalls({peers.rank(), sender}, mine, theirs);
}

/// What is wrong with the call aborts the communicator. What is wrong with the note ends the connection.
Status HostCalls::take(int sender, std::span<const std::byte> note) {
  AnnouncedCall theirs;
  if (note.size() != noteBytes || !read(note, theirs))
    return rankError(StatusCode::Mismatch, sender, "rank {} sent a note of {} bytes that no rank writes", sender,
                     note.size());
  std::unique_lock lock(mutex);
  auto mine = std::ranges::find(own, theirs.number, &AnnouncedCall::number);
  if (mine == own.end()) {
    const uint64_t number = theirs.number;
    const bool isLater = own.empty() || number > own.back().number;
    if (isLater && early.size() < mostKept)
      early[number] = {sender, std::move(theirs)};
    return {};
  }
  Status status = compareDeviceCalls({peers.rank(), sender}, *mine, theirs);
  lock.unlock();
  if (!status.isOk())
    (void)peers.abort(status);
  return {};
}

} // namespace kolo::runtime
