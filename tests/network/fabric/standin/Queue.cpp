// Queues of the stand-in, in whose looks transfers are delivered: what arrives, when, and in which order.
#include "StandIn.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace standin {
namespace {

/// A transfer stays so many looks of its target on its way.
constexpr int leastAge = 3;

void complete(Endpoint &endpoint, void *context, uint64_t flags, uint64_t data = 0) {
  if (context && (endpoint.domain->provider->modes & FI_CONTEXT2))
    std::memset(context, 0x5a, sizeof(fi_context2));
  endpoint.queue->events.push_back({context, flags, 0, nullptr, data});
}

/// Where a write goes.
struct Destination {
  std::byte *address = nullptr; // null: it may not write there
  int gpu = -1;
};
Destination placeOf(Endpoint &target, const Transfer &transfer) {
  auto found = target.domain->regions.find(transfer.key);
  if (found == target.domain->regions.end() || standInControl()->refusesKeys)
    return {};
  Region &region = *found->second;
  const Provider &provider = *target.domain->provider;
  uint64_t offset = transfer.address;
  if (provider.memoryModes & FI_MR_VIRT_ADDR)
    offset -= reinterpret_cast<uintptr_t>(region.memory);
  bool isBound = !(provider.memoryModes & FI_MR_ENDPOINT) || (region.endpoint == &target && region.isEnabled);
  bool isInside = offset <= region.sizeBytes && transfer.sizeBytes <= region.sizeBytes - offset;
  const bool isAllowed = isBound && isInside && (region.access & (transfer.isRead ? FI_REMOTE_READ : FI_REMOTE_WRITE));
  return isAllowed ? Destination{region.memory + offset, region.gpu} : Destination{};
}

/// As devices do: 8 bytes that are aligned are never seen in parts, and come after all that was stored before.
void store(std::byte *to, const std::byte *from, size_t sizeBytes, int gpu) {
  uint64_t number = 0;
  if (gpu >= 0)
    return gpus().arrive(gpu, to, from, sizeBytes);
  if (sizeBytes != sizeof(number) || reinterpret_cast<uintptr_t>(to) % sizeof(number) != 0) {
    std::memcpy(to, from, sizeBytes);
    return;
  }
  std::memcpy(&number, from, sizeof(number));
  std::atomic_ref(*reinterpret_cast<uint64_t *>(to)).store(number, std::memory_order_release);
}

/// Into memory of the host.
bool readFrom(const Destination &place, const Transfer &transfer) {
  const void *from = place.address;
  if (place.gpu >= 0) {
    gpus().readBack(place.gpu);
    from = gpus().readableAt(place.address);
  }
  std::memcpy(const_cast<std::byte *>(transfer.src), from, transfer.sizeBytes);
  ++standInControl()->numReads;
  complete(*transfer.from, transfer.context, FI_RMA | FI_READ);
  return true;
}

/// Delivers some of the transfer. True: it is over.
bool deliver(Endpoint &target, Transfer &transfer) {
  const std::byte *src = transfer.isCopied ? transfer.copy.data() : transfer.src;
  if (transfer.isMessage) {
    if (target.receives.empty())
      return false;
    Receive receive = target.receives.front();
    target.receives.pop_front();
    std::memcpy(receive.buffer, src, std::min(transfer.sizeBytes, receive.sizeBytes));
    complete(target, receive.context, FI_MSG | FI_RECV);
  } else {
    const Destination place = placeOf(target, transfer);
    if (transfer.isRead && place.address)
      return readFrom(place, transfer);
    if (!place.address) {
      if (transfer.context)
        failTransfer(transfer, FI_EKEYREJECTED);
      return true;
    }
    bool isWhole = transfer.sizeBytes <= 8 || transfer.doneBytes > 0; // the last bytes come later
    size_t end = isWhole ? transfer.sizeBytes : transfer.sizeBytes / 2;
    store(place.address + transfer.doneBytes, src + transfer.doneBytes, end - transfer.doneBytes, place.gpu);
    transfer.doneBytes = end;
    transfer.age = 0;
    if (!isWhole)
      return false;
    if (place.gpu >= 0 && (transfer.flags & FI_DELIVERY_COMPLETE) && target.domain->provider->readsOnDelivery)
      gpus().readBack(place.gpu);
    if (transfer.flags & FI_REMOTE_CQ_DATA)
      complete(target, nullptr, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, transfer.data);
  }
  ++standInControl()->numDelivered;
  if (transfer.context)
    complete(*transfer.from, transfer.context, FI_RMA | FI_WRITE);
  return true;
}

/// Delivers to this endpoint what has waited for long: the newest first, unless order was promised.
void lookAtArriving(Endpoint &target) {
  std::vector<const Endpoint *> heads;
  auto chosen = target.arriving.end();
  for (auto at = target.arriving.begin(); at != target.arriving.end(); ++at) {
    ++at->age;
    bool isFirst = std::ranges::find(heads, at->from) == heads.end();
    heads.push_back(at->from);
    if (at->age >= leastAge && (isFirst || !at->isOrdered || standInControl()->breaksOrder))
      chosen = at;
  }
  if (chosen != target.arriving.end() && deliver(target, *chosen))
    target.arriving.erase(chosen);
}

/// Whoever asked for nothing more has a completion when the target's device has the data and has looked at the key,
/// which is before the data can be seen. The target itself does nothing for that.
void lookAtLeaving(Endpoint &initiator) {
  for (auto &[address, target] : endpoints())
    std::erase_if(target->arriving, [&, to = target](Transfer &transfer) {
      bool isOver = transfer.from != &initiator || (transfer.flags & FI_DELIVERY_COMPLETE) || !transfer.context;
      if (isOver || ++transfer.age < leastAge - 1)
        return false;
      if (!transfer.isMessage && !placeOf(*to, transfer).address) {
        failTransfer(transfer, FI_EKEYREJECTED);
        return true;
      }
      if (!transfer.isCopied)
        transfer.copy.assign(transfer.src, transfer.src + transfer.sizeBytes);
      transfer.isCopied = true;
      complete(initiator, transfer.context, FI_RMA | FI_WRITE);
      transfer.context = nullptr;
      return false;
    });
}

ssize_t readEvents(fid_cq *handle, void *buffer, size_t) {
  Queue &queue = *reinterpret_cast<Queue *>(handle);
  Inside inside(*queue.domain);
  if (queue.endpoint) {
    lookAtArriving(*queue.endpoint);
    lookAtLeaving(*queue.endpoint);
  }
  if (!queue.errors.empty())
    return -FI_EAVAIL;
  if (queue.events.empty())
    return -FI_EAGAIN;
  *static_cast<fi_cq_data_entry *>(buffer) = queue.events.front();
  queue.events.pop_front();
  return 1;
}

ssize_t readError(fid_cq *handle, fi_cq_err_entry *entry, uint64_t) {
  Queue &queue = *reinterpret_cast<Queue *>(handle);
  Inside inside(*queue.domain);
  if (queue.errors.empty())
    return -FI_EAGAIN;
  *entry = queue.errors.front();
  queue.errors.pop_front();
  return 1;
}

int closeQueue(fid *handle) {
  auto *queue = reinterpret_cast<Queue *>(handle);
  if (queue->endpoint)
    return refuseToClose();
  --queue->domain->numOpen;
  delete queue;
  return 0;
}

fi_ops queueFidOps = {sizeof(fi_ops), closeQueue, refuse, refuseCommand, nullptr, nullptr, nullptr};

} // namespace

void failTransfer(const Transfer &transfer, int why) {
  fi_cq_err_entry entry = {};
  entry.op_context = transfer.context;
  entry.err = why;
  transfer.from->queue->errors.push_back(entry);
}

int openQueue(fid_domain *domain, fi_cq_attr *attributes, fid_cq **opened, void *) {
  static fi_ops_cq ops = tableOf<fi_ops_cq>([](fi_ops_cq &table) {
    table.read = readEvents;
    table.readerr = readError;
  });
  if (attributes->format != FI_CQ_FORMAT_DATA)
    return -FI_ENOSYS;
  auto *queue = new Queue;
  queue->domain = reinterpret_cast<Domain *>(domain);
  ++queue->domain->numOpen;
  queue->handle.fid.ops = &queueFidOps;
  queue->handle.ops = &ops;
  *opened = &queue->handle;
  return 0;
}

} // namespace standin
