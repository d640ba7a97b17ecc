// The entry to a collective: what every rank must know of the others, and agree on, before generated code runs.
#include "CommunicatorState.h"

#include "Error.h"

#include <algorithm>

namespace kolo::runtime {
namespace {

/// What must be equal, in the order in which a difference is reported.
struct Field {
  const char *name;
  std::string (*show)(const CallKey &key);
};

std::string showMesh(const CallKey &key) {
  std::string text;
  for (int64_t size : key.mesh)
    if (size != 0)
      text += fmt::format("{}{}", text.empty() ? "" : "x", size);
  return text;
}

constexpr Field fields[] = {
    {"plugin", [](const CallKey &key) { return fmt::format("{:016x}", key.plugin); }},
    {"program", [](const CallKey &key) { return fmt::format("number {}", key.program); }},
    {"mesh", showMesh},
    {"count", [](const CallKey &key) { return fmt::format("{}", key.count); }},
    {"type", [](const CallKey &key) { return std::string(toString(static_cast<DataType>(key.type))); }},
    {"reduction", [](const CallKey &key) { return std::string(toString(static_cast<Reduction>(key.reduction))); }},
    {"root", [](const CallKey &key) { return fmt::format("{}", key.root); }},
};

bool isEqual(const CallKey &left, const CallKey &right) {
  return left.plugin == right.plugin && std::equal(left.mesh, left.mesh + KOLO_MAX_MESH_DIMS, right.mesh) &&
         left.count == right.count && left.program == right.program && left.type == right.type &&
         left.reduction == right.reduction && left.root == right.root;
}

} // namespace

Status CommunicatorState::run(const PluginState &plugin, const CallArguments &arguments) {
  if (ranks->isAborted())
    return ranks->abortedEarlier();
  Call call;
  Buffers buffers;
  // Whatever goes wrong here is told to the peers, who would otherwise wait for this rank until the timeout.
  Status own = guarded([&] { return prepare(plugin, arguments, call, buffers); });
  Record &record = nextRecord(Operation::Run);
  record.call = call.key;
  if (!own.isOk()) {
    setFailure(record, own);
  } else {
    std::copy_n(buffers.remote, KOLO_NUM_BUFFER_ROLES, record.buffers);
    record.semaphores = semaphoresOf(call).location(*segments);
    record.hasNews = segments->isNews(record.semaphores);
    for (const Location &location : record.buffers)
      record.hasNews |= segments->isNews(location);
  }
  if (Status status = exchangeRecords(); !status.isOk())
    return status;
  if (Status status = exchange.firstRefusal(); !status.isOk())
    return status;
  if (Status status = compareCalls(call); !status.isOk())
    return status;
  if (Status status = enter(call, buffers); !status.isOk())
    return status;
  if (Status status = runLanes(call, buffers); !status.isOk())
    return status;
  buffers.copyOut(call);
  return {};
}

/// All of this rank's own part: no peer is involved.
Status CommunicatorState::prepare(const PluginState &plugin, const CallArguments &arguments, Call &call,
                                  Buffers &buffers) {
  Result<Call> planned = planCall(plugin, arguments, ranks->rank(), ranks->size());
  if (!planned.isOk())
    return planned.status();
  call = *planned;
  std::unique_ptr<Semaphores> &set = semaphores[{call.key.plugin, call.key.program}];
  if (!set) {
    auto made = std::make_unique<Semaphores>(call.info->numSemaphores, ranks->size(), ranks->settings().lanes);
    if (Status status = made->allocate(*segments); !status.isOk())
      return status;
    set = std::move(made);
  }
  Result<Buffers> placed = placeBuffers(call, *segments, arena, ordinaryMemory);
  if (!placed.isOk())
    return placed.status();
  buffers = *placed;
  buffers.copyIn(call);
  return {};
}

Status CommunicatorState::compareCalls(const Call &call) const {
  const CallKey &first = exchange.heard(0).call;
  for (int peer = 1; peer < ranks->size(); ++peer) {
    const CallKey &other = exchange.heard(peer).call;
    if (isEqual(first, other))
      continue;
    for (const Field &field : fields)
      if (field.show(first) != field.show(other))
        return rankError(StatusCode::Mismatch, peer, "ranks disagree on {}: rank 0 called with {}, rank {} with {}",
                         field.name, field.show(first), peer, field.show(other));
  }
  return {};
}

/// Maps what is new, and waits for the peers to have done so.
Status CommunicatorState::enter(const Call &call, const Buffers &buffers) {
  bool hasNews = false;
  for (int peer = 0; peer < ranks->size(); ++peer)
    hasNews |= exchange.heard(peer).hasNews;
  const Record &own = exchange.heard(ranks->rank());
  // Copied, because the confirmation takes the next records.
  std::vector<Location> named;
  if (hasNews) {
    named.assign(std::begin(own.buffers), std::end(own.buffers));
    named.push_back(own.semaphores);
  }
  Status status = guarded([&] { return resolvePeers(call, buffers); });
  if (hasNews)
    status = confirmNews(status, named);
  return status;
}

Status CommunicatorState::resolvePeers(const Call &call, const Buffers &buffers) {
  Semaphores &set = semaphoresOf(call);
  std::vector<Cell *> cells;
  for (int peer = 0; peer < ranks->size(); ++peer) {
    const Record &record = exchange.heard(peer);
    bool isSelf = peer == ranks->rank();
    for (size_t role = 0; role < KOLO_NUM_BUFFER_ROLES; ++role) {
      Result<std::byte *> address =
          isSelf ? Result(static_cast<std::byte *>(buffers.local[role])) : peers.resolve(peer, record.buffers[role]);
      if (!address.isOk())
        return address.status();
      peerBuffers[role][static_cast<size_t>(peer)] = *address;
      peerLocations[role][static_cast<size_t>(peer)] = record.buffers[role];
    }
    if (set.isConnected())
      continue;
    Result<std::byte *> address = isSelf ? Result(set.memory() ? set.memory()->data() : nullptr)
                                         : peers.resolve(peer, record.semaphores);
    if (!address.isOk())
      return address.status();
    cells.push_back(reinterpret_cast<Cell *>(*address));
  }
  if (!set.isConnected())
    set.connect(std::move(cells));
  return {};
}

} // namespace kolo::runtime
