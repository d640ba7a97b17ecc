// Endpoints of the stand-in: how they come and go, and what is posted.
#include "StandIn.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace standin {
namespace {

std::recursive_mutex &mutex() {
  static std::recursive_mutex only;
  return only;
}

Endpoint *endpointOf(fid_ep *handle) { return reinterpret_cast<Endpoint *>(handle); }
/// Whether the source is in a region that `descriptor` names, or needs none.
bool isDescribed(const Endpoint &endpoint, const void *src, size_t sizeBytes, void *descriptor,
                 const Region **described = nullptr) {
  if (!(endpoint.domain->provider->memoryModes & FI_MR_LOCAL) && !descriptor)
    return true;
  for (const auto &[key, region] : endpoint.domain->regions)
    if (fi_mr_desc(&region->handle) == descriptor && src >= region->memory &&
        static_cast<const std::byte *>(src) + sizeBytes <= region->memory + region->sizeBytes) {
      if (described)
        *described = region;
      return true;
    }
  return false;
}

bool knows(const Endpoint &target, const Endpoint &initiator) {
  return std::ranges::find(target.table->addresses, initiator.address) != target.table->addresses.end();
}

ssize_t post(Endpoint &endpoint, fi_addr_t to, Transfer transfer) {
  if (!endpoint.isEnabled)
    return -FI_EOPBADSTATE;
  if (to >= endpoint.table->addresses.size())
    return -FI_EINVAL;
  if ((transfer.flags & FI_DELIVERY_COMPLETE) && !transfer.isRead && !endpoint.domain->provider->confirmsDelivery)
    return -FI_EOPNOTSUPP;
  transfer.from = &endpoint;
  transfer.isOrdered = endpoint.isOrdered && (!transfer.isMessage || endpoint.keepsMessages);
  auto target = endpoints().find(endpoint.table->addresses[to]);
  if (target == endpoints().end() || target->second->domain->protocol != endpoint.domain->protocol)
    failTransfer(transfer, FI_EHOSTUNREACH);
  else if (target->second->arriving.size() >= 512)
    return -FI_EAGAIN;
  else if (endpoint.domain->provider->needsAddress && !knows(*target->second, endpoint))
    ++standInControl()->numLost;
  else
    target->second->arriving.push_back(std::move(transfer));
  return 0;
}

ssize_t writeMessage(fid_ep *handle, const fi_msg_rma *message, uint64_t flags) {
  Endpoint &endpoint = *endpointOf(handle);
  Inside inside(*endpoint.domain);
  const Provider &provider = *endpoint.domain->provider;
  size_t sizeBytes = message->msg_iov->iov_len;
  uint64_t limit = standInControl()->maxMessageBytes;
  if ((flags & FI_REMOTE_CQ_DATA) && !provider.hasWriteData)
    return -FI_ENOSYS;
  if (sizeBytes > (limit ? limit : provider.maxMessageBytes))
    return -FI_EMSGSIZE;
  constexpr uint64_t known =
      FI_COMPLETION | FI_INJECT | FI_REMOTE_CQ_DATA | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
  uint64_t completions = flags & (FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE);
  if ((flags & ~known) || (completions & (completions - 1)) || message->iov_count != 1 || message->rma_iov_count != 1 ||
      message->rma_iov->len != sizeBytes)
    return -FI_EINVAL;
  bool isInjected = flags & FI_INJECT;
  if (isInjected && sizeBytes > provider.injectBytes)
    return -FI_EINVAL;
  const Region *described = nullptr;
  if (!isInjected && !isDescribed(endpoint, message->msg_iov->iov_base, sizeBytes, message->desc[0], &described))
    return -FI_EINVAL;
  Transfer transfer;
  transfer.described = described;
  transfer.context = message->context;
  const void *src = message->msg_iov->iov_base;
  const bool isOfGpu = endpoint.domain->hasGpus && gpus().deviceAt(src, sizeBytes) >= 0;
  if (isOfGpu && (!described || described->gpu < 0)) // the processor would read it
    return -FI_EFAULT;
  transfer.src = static_cast<const std::byte *>(described && described->gpu >= 0 ? gpus().readableAt(src) : src);
  transfer.sizeBytes = sizeBytes;
  transfer.address = message->rma_iov->addr;
  transfer.key = message->rma_iov->key;
  transfer.flags = flags;
  transfer.data = message->data & 0xffffffff;
  if (isInjected) {
    transfer.copy.assign(transfer.src, transfer.src + sizeBytes);
    transfer.isCopied = true;
  }
  return post(endpoint, message->addr, std::move(transfer));
}

/// Reads are posted to the endpoint whose memory they read, and are behind what arrives there before.
ssize_t readMessage(fid_ep *handle, const fi_msg_rma *message, uint64_t flags) {
  Endpoint &endpoint = *endpointOf(handle);
  Inside inside(*endpoint.domain);
  if (!endpoint.domain->provider->canRead)
    return -FI_ENOSYS;
  const size_t sizeBytes = message->msg_iov->iov_len;
  if (flags != FI_COMPLETION || message->iov_count != 1 || message->rma_iov_count != 1 ||
      message->rma_iov->len != sizeBytes ||
      !isDescribed(endpoint, message->msg_iov->iov_base, sizeBytes, message->desc[0]))
    return -FI_EINVAL;
  Transfer transfer;
  transfer.context = message->context;
  transfer.isRead = true;
  transfer.src = static_cast<const std::byte *>(message->msg_iov->iov_base);
  transfer.sizeBytes = sizeBytes;
  transfer.address = message->rma_iov->addr;
  transfer.key = message->rma_iov->key;
  transfer.flags = FI_DELIVERY_COMPLETE; // complete when it is over
  return post(endpoint, message->addr, std::move(transfer));
}

ssize_t sendMessage(fid_ep *handle, const fi_msg *message, uint64_t flags) {
  Endpoint &endpoint = *endpointOf(handle);
  Inside inside(*endpoint.domain);
  size_t sizeBytes = message->msg_iov->iov_len;
  if (!endpoint.hasMessages)
    return -FI_EOPNOTSUPP;
  if (!isDescribed(endpoint, message->msg_iov->iov_base, sizeBytes, message->desc[0]))
    return -FI_EINVAL;
  Transfer transfer;
  transfer.context = message->context;
  transfer.src = static_cast<const std::byte *>(message->msg_iov->iov_base);
  transfer.sizeBytes = sizeBytes;
  transfer.flags = flags;
  transfer.isMessage = true;
  return post(endpoint, message->addr, std::move(transfer));
}

ssize_t receive(fid_ep *handle, void *buffer, size_t sizeBytes, void *descriptor, fi_addr_t, void *context) {
  Endpoint &endpoint = *endpointOf(handle);
  Inside inside(*endpoint.domain);
  if (!endpoint.hasMessages)
    return -FI_EOPNOTSUPP;
  if (!isDescribed(endpoint, buffer, sizeBytes, descriptor))
    return -FI_EINVAL;
  endpoint.receives.push_back({buffer, sizeBytes, context});
  return 0;
}

int closeTable(fid *handle) {
  auto *table = reinterpret_cast<Table *>(handle);
  if (table->numEndpoints != 0)
    return refuseToClose();
  --table->domain->numOpen;
  delete table;
  return 0;
}

int insert(fid_av *handle, const void *address, size_t, fi_addr_t *place, uint64_t, void *) {
  Table &table = *reinterpret_cast<Table *>(handle);
  Inside inside(*table.domain);
  uint64_t number = 0;
  std::memcpy(&number, address, sizeof(number));
  table.addresses.push_back(number);
  *place = table.addresses.size() - 1;
  return 1;
}

int bindEndpoint(fid *handle, fid *other, uint64_t flags) {
  Endpoint &endpoint = *reinterpret_cast<Endpoint *>(handle);
  if (endpoint.isEnabled)
    return -FI_EOPBADSTATE;
  if (flags == 0) {
    endpoint.table = reinterpret_cast<Table *>(other);
    ++endpoint.table->numEndpoints;
  } else {
    endpoint.queue = reinterpret_cast<Queue *>(other);
    endpoint.queue->endpoint = &endpoint;
  }
  return 0;
}

int enableEndpoint(fid *handle, int command, void *) {
  Endpoint &endpoint = *reinterpret_cast<Endpoint *>(handle);
  if (command != FI_ENABLE || !endpoint.queue || !endpoint.table)
    return -FI_EINVAL;
  std::scoped_lock lock(mutex());
  static uint64_t last = 0;
  const Provider &provider = *endpoint.domain->provider;
  bool isOptionMissing =
      (provider.hasPeerOption && !endpoint.hasPeerToPeer) || (provider.hasCudaOption && !endpoint.avoidsCuda);
  if (endpoint.domain->hasGpus && isOptionMissing) // it would copy by itself
    endpoint.domain->hasGpus = false;
  endpoint.address = ++last;
  endpoint.isEnabled = true;
  endpoints()[endpoint.address] = &endpoint;
  return 0;
}

int closeEndpoint(fid *handle) {
  std::scoped_lock lock(mutex());
  auto *endpoint = reinterpret_cast<Endpoint *>(handle);
  if (endpoint->numBound != 0)
    return refuseToClose();
  endpoints().erase(endpoint->address);
  for (const Transfer &transfer : endpoint->arriving)
    if (transfer.context)
      failTransfer(transfer, FI_ECONNRESET);
  for (auto &[address, other] : endpoints())
    std::erase_if(other->arriving, [&](const Transfer &transfer) {
      return transfer.from == endpoint && transfer.context; // what has no context any more is in the target's device
    });
  if (endpoint->queue)
    endpoint->queue->endpoint = nullptr;
  if (endpoint->table)
    --endpoint->table->numEndpoints;
  --endpoint->domain->numOpen;
  delete endpoint;
  return 0;
}

int setOption(fid *handle, int level, int option, const void *value, size_t sizeBytes) {
  constexpr int cudaApiPermitted = 10; // which older headers lack
  Endpoint &endpoint = *reinterpret_cast<Endpoint *>(handle);
  const Provider &provider = *endpoint.domain->provider;
  if (level != FI_OPT_ENDPOINT || standInControl()->refusesOptions)
    return -FI_EOPNOTSUPP;
  if (option == FI_OPT_FI_HMEM_P2P && provider.hasPeerOption && sizeBytes == sizeof(int))
    return endpoint.hasPeerToPeer = *static_cast<const int *>(value) == FI_HMEM_P2P_REQUIRED, 0;
  if (option == cudaApiPermitted && provider.hasCudaOption && sizeBytes == sizeof(bool))
    return endpoint.avoidsCuda = !*static_cast<const bool *>(value), 0;
  return -FI_ENOPROTOOPT;
}

int nameOf(fid *handle, void *address, size_t *sizeBytes) {
  std::memcpy(address, &reinterpret_cast<Endpoint *>(handle)->address, sizeof(uint64_t));
  *sizeBytes = sizeof(uint64_t);
  return 0;
}

fi_ops tableFidOps = {sizeof(fi_ops), closeTable, refuse, refuseCommand, nullptr, nullptr, nullptr};
fi_ops endpointFidOps = {sizeof(fi_ops), closeEndpoint, bindEndpoint, enableEndpoint, nullptr, nullptr, nullptr};

} // namespace

int refuseToClose() {
  ++standInControl()->numClosedInUse;
  return -FI_EBUSY;
}

const Gpus &gpus() {
  static const Gpus functions = [] {
    const char *cuda = std::getenv("KOLO_CUDA_DRIVER"), *hip = std::getenv("KOLO_HIP_DRIVER");
    Gpus none = {};
    none.deviceAt = [](const void *, uint64_t) { return -1; };
    if (!cuda && !hip)
      return none;
    void *handle = dlopen(cuda ? cuda : hip, RTLD_NOW | RTLD_LOCAL);
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(handle ? dlsym(handle, name) : nullptr);
      if (!function)
        std::abort();
    };
    Gpus found = {};
    find(found.deviceAt, "standInDeviceAt");
    find(found.readableAt, "standInReadableAt");
    find(found.arrive, "standInArrive");
    find(found.readBack, "standInReadBack");
    find(found.fileOf, "standInBlock");
    return found;
  }();
  return functions;
}

std::map<uint64_t, Endpoint *> &endpoints() {
  static std::map<uint64_t, Endpoint *> all;
  return all;
}

Inside::Inside(Domain &called) : domain(called) {
  if (domain.numInside.fetch_add(1) != 0)
    standInControl()->wasUsedByTwoThreads = true;
  std::this_thread::yield(); // gives another thread the chance to come in, too
  mutex().lock();
}

Inside::~Inside() {
  mutex().unlock();
  domain.numInside.fetch_sub(1);
}

int openTable(fid_domain *domain, fi_av_attr *, fid_av **opened, void *) {
  static fi_ops_av ops = tableOf<fi_ops_av>([](fi_ops_av &table) { table.insert = insert; });
  auto *table = new Table;
  table->domain = reinterpret_cast<Domain *>(domain);
  ++table->domain->numOpen;
  table->handle.fid.ops = &tableFidOps;
  table->handle.ops = &ops;
  *opened = &table->handle;
  return 0;
}

int openEndpoint(fid_domain *domain, fi_info *info, fid_ep **opened, void *) {
  static fi_ops_rma writes = tableOf<fi_ops_rma>([](fi_ops_rma &table) {
    table.writemsg = writeMessage;
    table.readmsg = readMessage;
  });
  static fi_ops_msg messages = tableOf<fi_ops_msg>([](fi_ops_msg &table) {
    table.sendmsg = sendMessage;
    table.recv = receive;
  });
  static fi_ops_ep options = tableOf<fi_ops_ep>([](fi_ops_ep &table) { table.setopt = setOption; });
  static fi_ops_cm names = tableOf<fi_ops_cm>([](fi_ops_cm &table) { table.getname = nameOf; });
  auto *endpoint = new Endpoint;
  endpoint->domain = reinterpret_cast<Domain *>(domain);
  ++endpoint->domain->numOpen;
  endpoint->isOrdered = endpoint->domain->provider->keepsOrder && (info->tx_attr->msg_order & FI_ORDER_RMA_WAW);
  endpoint->hasMessages = info->caps & FI_MSG;
  endpoint->handle.fid.ops = &endpointFidOps;
  endpoint->keepsMessages = info->tx_attr->msg_order & FI_ORDER_SAW;
  endpoint->handle.ops = &options;
  endpoint->handle.rma = &writes;
  endpoint->handle.msg = &messages;
  endpoint->handle.cm = &names;
  *opened = &endpoint->handle;
  return 0;
}

} // namespace standin
