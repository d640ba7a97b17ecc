#include "network/fabric/Nic.h"

#include "base/Error.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kolo::runtime::fabric {
namespace {

/// So many operations may be under way, if the device allows it.
constexpr size_t manyOperations = 512;
/// So many own keys are remembered at most.
constexpr uint64_t mostKeys = 1 << 16;

/// Whether the kernel makes pages exist when it is asked to: Linux 5.14.
bool canPopulate() {
  static const bool can = [] {
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void *own = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
      return true;
    bool isOld = madvise(own, page, MADV_POPULATE_WRITE) != 0 && errno == EINVAL;
    (void)munmap(own, page);
    return !isOld;
  }();
  return can;
}

/// Makes every page exist, without changing a byte. Memory that is only read may be read-only. Returns 0, or why the
/// kernel refuses, as a negative number: the memory is not there, or may not be written.
int backWithPages(const void *memory, uint64_t sizeBytes, bool isWritten) {
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t begin = reinterpret_cast<uintptr_t>(memory), end = begin + sizeBytes;
  uintptr_t first = begin & ~(page - 1);
  if (canPopulate()) {
    int advice = isWritten ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    return madvise(reinterpret_cast<void *>(first), end - first, advice) == 0 ? 0 : -errno;
  }
  for (uintptr_t at = begin; at < end; at = (at & ~(page - 1)) + page)
    if (auto *byte = reinterpret_cast<uint8_t *>(at); isWritten)
      __atomic_fetch_add(byte, 0, __ATOMIC_RELAXED);
    else
      (void)__atomic_load_n(byte, __ATOMIC_RELAXED);
  return 0;
}

bool isEqual(const char *one, const char *other) {
  return std::string_view(one ? one : "") == std::string_view(other ? other : "");
}

DeviceKind kindOf(const fi_info &info) {
  const char *name = info.fabric_attr->name;
  return {info.ep_attr->protocol, info.ep_attr->protocol_version, info.addr_format,
          std::string(name ? name : "").substr(0, maxFabricName)};
}

} // namespace

Memory::~Memory() {
  registered.reset();
  std::erase(nic.regions.exposed, this);
  nic.regions.keys.giveBack(ownKey);
}

bool Memory::contains(const void *begin, uint64_t numBytes) const {
  const auto *first = static_cast<const std::byte *>(begin);
  return first >= region.memory && numBytes <= region.sizeBytes &&
         first - region.memory <= static_cast<std::ptrdiff_t>(region.sizeBytes - numBytes);
}

Status Nic::failure(const char *what, int64_t code) const {
  return error(code == -FI_ENOMEM ? StatusCode::OutOfMemory : StatusCode::SystemError, "provider {}: {}: {}",
               rules.name, what, library.errorText(static_cast<int>(code < 0 ? -code : code)));
}

DeviceKind Nic::kind() const {
  DeviceKind kind = kindOf(*info);
  if (rules.takesAddress)
    kind.fabric.clear();
  return kind;
}

/// Those of the first one's kind, each once.
static std::vector<const fi_info *> devicesIn(const fi_info &first) {
  std::vector<const fi_info *> devices;
  for (const fi_info *one = &first; one; one = one->next) {
    auto isSame = [&](const fi_info *other) { return isEqual(other->domain_attr->name, one->domain_attr->name); };
    if (kindOf(*one) == kindOf(first) && std::ranges::none_of(devices, isSame))
      devices.push_back(one);
  }
  return devices;
}

/// Of PCI; empty: the provider does not say.
static std::string addressOf(const fi_info &info) {
  const fi_bus_attr *bus = info.nic ? info.nic->bus_attr : nullptr;
  if (!bus || bus->bus_type != FI_BUS_PCI)
    return "";
  const fi_pci_attr &pci = bus->attr.pci;
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain_id, pci.bus_id, pci.device_id, pci.function_id);
}

static std::vector<size_t> nearestOf(std::span<const fi_info *const> devices, const RankLocality &place) {
  std::vector<std::string> addresses;
  for (const fi_info *device : devices)
    addresses.push_back(addressOf(*device));
  return nearestNics(addresses, place);
}

std::vector<NicDescription> Nic::list(const ProviderRules &rules, const Info &info, const RankLocality &place) {
  const std::vector<const fi_info *> devices = devicesIn(*info);
  std::vector<NicDescription> all;
  for (const fi_info *device : devices) {
    const char *name = device->domain_attr->name;
    all.push_back({std::string(rules.name), name ? name : "", addressOf(*device), false});
  }
  for (size_t number : nearestOf(devices, place))
    all[number].isNearest = true;
  return all;
}

Result<std::unique_ptr<Nic>> Nic::open(const Library &library, const ProviderRules &rules, Info info,
                                       const FabricOptions &options) {
  const std::vector<const fi_info *> devices = devicesIn(*info);
  const std::vector<size_t> nearest = nearestOf(devices, options.place);
  const fi_info *chosen = devices[nearest[static_cast<size_t>(options.rank) % nearest.size()]];
  Info own(library.copyInfo(chosen), InfoDeleter{&library});
  if (!own)
    return error(StatusCode::OutOfMemory, "out of memory");
  std::unique_ptr<Nic> nic(new Nic(library, rules, std::move(own)));
  if (Status status = nic->openAll(); !status.isOk())
    return status;
  return nic;
}

Status Nic::openAll() {
  auto own = [](auto &owner, auto *opened) { owner.reset(opened); };
  fid_fabric *newFabric = nullptr;
  if (int code = library.openFabric(info->fabric_attr, &newFabric, nullptr))
    return failure("opening it", code);
  own(fabric, newFabric);
  fid_domain *newDomain = nullptr;
  if (int code = fi_domain(fabric.get(), info.get(), &newDomain, nullptr))
    return failure("opening its device", code);
  own(domain, newDomain);
  fi_cq_attr cqAttributes = {};
  cqAttributes.format = FI_CQ_FORMAT_DATA;
  cqAttributes.size = 2 * (info->tx_attr->size + info->rx_attr->size);
  fid_cq *newQueue = nullptr;
  if (int code = fi_cq_open(domain.get(), &cqAttributes, &newQueue, nullptr))
    return failure("making a completion queue", code);
  own(completions, newQueue);
  fi_av_attr avAttributes = {};
  avAttributes.type = info->domain_attr->av_type;
  fid_av *newTable = nullptr;
  if (int code = fi_av_open(domain.get(), &avAttributes, &newTable, nullptr))
    return failure("making a table of addresses", code);
  own(peersTable, newTable);
  fid_ep *newEndpoint = nullptr;
  if (int code = fi_endpoint(domain.get(), info.get(), &newEndpoint, nullptr))
    return failure("making an endpoint", code);
  own(endpoint, newEndpoint);
  if (int code = fi_ep_bind(endpoint.get(), &peersTable->fid, 0))
    return failure("binding the table of addresses", code);
  if (int code = fi_ep_bind(endpoint.get(), &completions->fid, FI_TRANSMIT | FI_RECV))
    return failure("binding the completion queue", code);
  gpus.setOptions(*endpoint);
  if (int code = fi_enable(endpoint.get()))
    return failure("enabling the endpoint", code);
  largest.put = std::min<uint64_t>(rules.maxPutBytes, info->ep_attr->max_msg_size);
  if (rules.order == SignalOrder::Ordered)
    largest.put = std::min<uint64_t>(largest.put, info->ep_attr->max_order_waw_size);
  largest.inject = std::min<uint64_t>(rules.injectBytes, info->tx_attr->inject_size);
  pool.most = std::min(manyOperations, info->tx_attr->size);
  size_t keyBits = std::min<size_t>(8 * info->domain_attr->mr_key_size, 63);
  regions.keys.setNumbers(std::min({rules.keys.number, mostKeys, uint64_t(1) << keyBits}), rules.keys.numFast);
  return readAddress();
}

Status Nic::readAddress() {
  size_t sizeBytes = 256;
  ownAddress.resize(sizeBytes);
  if (int code = fi_getname(&endpoint->fid, ownAddress.data(), &sizeBytes))
    return failure("reading its address", code);
  ownAddress.resize(sizeBytes);
  if (gpus.readsBack())
    if (int added = fi_av_insert(peersTable.get(), ownAddress.data(), 1, &gpus.self, 0, nullptr); added != 1)
      return failure("taking its own address", added < 0 ? added : -FI_EINVAL);
  return {};
}

Nic::~Nic() {
  endpoint.reset(); // before what it is bound to; nothing is under way then
  for (auto &group : pool.groups)
    for (Operation &operation : *group)
      operation.source.reset();
  pool.bodies.clear();
  peersTable.reset();
  completions.reset();
  domain.reset();
  fabric.reset();
}

Status Nic::addPeer(int rank, std::span<const std::byte> address) {
  if (static_cast<size_t>(rank) >= peers.size())
    peers.resize(static_cast<size_t>(rank) + 1, FI_ADDR_UNSPEC);
  fi_addr_t &place = peers[static_cast<size_t>(rank)];
  if (int added = fi_av_insert(peersTable.get(), address.data(), 1, &place, 0, nullptr); added != 1)
    return failure("taking a peer's address", added < 0 ? added : -FI_EINVAL);
  return {};
}

void MemoryKeys::setNumbers(uint64_t number, uint64_t numFast) {
  used.assign(number, false);
  fast = std::min(numFast, number);
}

std::optional<uint64_t> MemoryKeys::take() {
  for (auto [begin, end] : {std::pair(uint64_t(0), fast), std::pair(fast, size())})
    for (uint64_t i = 0; i < end - begin; ++i) {
      uint64_t key = begin + (last + 1 + i) % (end - begin);
      if (used[key])
        continue;
      used[key] = true;
      last = key - begin;
      return key;
    }
  return {};
}

void MemoryKeys::giveBack(uint64_t key) {
  if (key < size())
    used[key] = false;
}

/// Memory of the host that this rank reads or writes by itself, too.
static Region ownMemory(const void *memory, uint64_t sizeBytes) {
  return {static_cast<std::byte *>(const_cast<void *>(memory)), sizeBytes};
}

Result<std::unique_ptr<Memory>> Nic::registerRegion(const Region &region, uint64_t access) {
  std::unique_ptr<Memory> made(new Memory(*this, region));
  made->ownKey = UINT64_MAX;
  if (made->isOfGpu())
    if (Status status = gpus.check(region.owner); !status.isOk())
      return status;
  if (!hasMode(FI_MR_PROV_KEY)) {
    std::optional<uint64_t> key = regions.keys.take();
    if (!key)
      return error(StatusCode::OutOfMemory, "provider {}: all {} keys for memory of this rank are in use", rules.name,
                   regions.keys.size());
    made->ownKey = *key;
  }
  if (rules.memoryModes & FI_MR_ALLOCATED && !made->isOfGpu())
    if (int code = backWithPages(region.memory, region.sizeBytes, access & FI_REMOTE_WRITE))
      return failure("making pages of memory", code);
  fid_mr *registered = nullptr;
  const uint64_t asked = made->ownKey == UINT64_MAX ? 0 : made->ownKey;
  if (int code = gpus.registerMemory(*domain, region, {access, asked}, &registered))
    return failure(made->isOfGpu() ? "registering memory of a device" : "registering memory", code);
  made->registered.reset(registered);
  if (hasMode(FI_MR_ENDPOINT)) {
    if (int code = fi_mr_bind(registered, &endpoint->fid, 0))
      return failure("binding memory", code);
    if (int code = fi_mr_enable(registered))
      return failure("enabling memory", code);
  }
  made->remoteKey = fi_mr_key(registered);
  made->base = hasMode(FI_MR_VIRT_ADDR) ? reinterpret_cast<uintptr_t>(region.memory) : 0;
  return made;
}

Result<std::unique_ptr<Memory>> Nic::expose(const Region &region) {
  const uint64_t read = region.owner.needsRead && gpus.readsBack() ? FI_REMOTE_READ : 0;
  Result<std::unique_ptr<Memory>> made = registerRegion(region, FI_REMOTE_WRITE | FI_WRITE | read);
  if (made.isOk())
    regions.exposed.push_back(made->get());
  return made;
}

Status Nic::addOperations() {
  auto group = std::make_unique<OperationPool::Group>();
  Memory *memory = nullptr;
  if (rules.memoryModes & FI_MR_LOCAL) {
    Result<std::unique_ptr<Memory>> made =
        registerRegion(ownMemory(group->data(), sizeof(*group)), FI_READ | FI_WRITE | FI_SEND | FI_RECV);
    if (!made.isOk())
      return made.status();
    pool.bodies.push_back(std::move(made).value());
    memory = pool.bodies.back().get();
  }
  for (Operation &operation : *group) {
    operation.bodyMemory = memory;
    pool.free.push_back(&operation);
  }
  pool.groups.push_back(std::move(group));
  return {};
}

Operation *Nic::take() {
  if (pool.numUnderWay >= pool.most)
    return nullptr;
  if (pool.free.empty())
    if (Status status = addOperations(); !status.isOk()) {
      why = status.message();
      return nullptr;
    }
  Operation *operation = pool.free.back();
  pool.free.pop_back();
  ++pool.numUnderWay;
  return operation;
}

void Nic::giveBack(Operation *operation) {
  operation->source.reset();
  pool.numUnderWay -= operation->isReceive ? 0 : 1;
  operation->isReceive = operation->isReadBack = false;
  pool.free.push_back(operation);
}

/// The registered memory of a GPU that a source is in; null: it is memory of the host.
const Memory *Nic::gpuMemoryOf(const void *src, uint64_t sizeBytes) const {
  if (!gpus.isReached())
    return nullptr;
  auto has = [&](const Memory *memory) { return memory->isOfGpu() && memory->contains(src, sizeBytes); };
  auto found = std::ranges::find_if(regions.exposed, has);
  return found == regions.exposed.end() ? nullptr : *found;
}

bool Nic::describe(const void *src, uint64_t sizeBytes, Operation &operation, void *&descriptor) {
  descriptor = nullptr;
  if (!(rules.memoryModes & FI_MR_LOCAL))
    return true;
  if (src == operation.body) {
    descriptor = operation.bodyMemory->descriptor();
    return true;
  }
  for (Memory *memory : regions.exposed)
    if (memory->contains(src, sizeBytes)) {
      descriptor = memory->descriptor();
      return true;
    }
  Result<std::unique_ptr<Memory>> made = registerRegion(ownMemory(src, sizeBytes), FI_WRITE);
  if (!made.isOk()) {
    why = made.status().message();
    return false;
  }
  operation.source = std::move(made).value();
  descriptor = operation.source->descriptor();
  return true;
}

Posted Nic::judge(int64_t code, const char *what) {
  if (code == 0)
    return Posted::Yes;
  if (code == -FI_EAGAIN)
    return Posted::Later;
  why = failure(what, code).message();
  return Posted::Failed;
}

Posted Nic::write(const Write &write, Operation &operation) {
  const Memory *ofGpu = gpuMemoryOf(write.src, write.sizeBytes);
  bool isInjected = write.sizeBytes <= largest.inject && !ofGpu;
  void *descriptor = ofGpu ? ofGpu->descriptor() : nullptr;
  if (!isInjected && !ofGpu && !describe(write.src, write.sizeBytes, operation, descriptor))
    return Posted::Failed;
  iovec part = {const_cast<void *>(write.src), static_cast<size_t>(write.sizeBytes)};
  fi_rma_iov place = {write.address, static_cast<size_t>(write.sizeBytes), write.key};
  fi_msg_rma message = {};
  message.msg_iov = &part;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = peers[static_cast<size_t>(write.peer)];
  message.rma_iov = &place;
  message.rma_iov_count = 1;
  message.context = &operation;
  message.data = write.data;
  // Nobody waits until ordered writes can be seen: the target sees them in their order.
  // But a message may follow writes to memory of GPUs.
  bool isOrdered = rules.order == SignalOrder::Ordered && !gpus.isReached();
  uint64_t flags = FI_COMPLETION | (isOrdered ? rules.sentCompletion : rules.completion) |
                   (write.hasData ? FI_REMOTE_CQ_DATA : 0) | (isInjected ? FI_INJECT : 0);
  return judge(fi_writemsg(endpoint.get(), &message, flags), "writing to a peer");
}

Posted Nic::readBack(const Memory &memory, Operation &operation) {
  void *descriptor = nullptr;
  (void)describe(operation.body, sizeof(uint64_t), operation, descriptor);
  iovec part = {operation.body, sizeof(uint64_t)};
  fi_rma_iov place = {memory.remoteBase(), sizeof(uint64_t), memory.key()};
  fi_msg_rma message = {};
  message.msg_iov = &part;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = gpus.self;
  message.rma_iov = &place;
  message.rma_iov_count = 1;
  message.context = &operation;
  operation.isReadBack = true;
  return judge(fi_readmsg(endpoint.get(), &message, FI_COMPLETION), "reading from memory of a device");
}

Posted Nic::send(int peer, uint64_t sizeBytes, Operation &operation) {
  void *descriptor = nullptr;
  (void)describe(operation.body, sizeBytes, operation, descriptor);
  iovec part = {operation.body, static_cast<size_t>(sizeBytes)};
  fi_msg message = {};
  message.msg_iov = &part;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = peers[static_cast<size_t>(peer)];
  message.context = &operation;
  return judge(fi_sendmsg(endpoint.get(), &message, FI_COMPLETION | rules.completion), "sending to a peer");
}

Posted Nic::receive(Operation &operation) {
  void *descriptor = nullptr;
  (void)describe(operation.body, sizeof(operation.body), operation, descriptor);
  operation.isReceive = true;
  return judge(fi_recv(endpoint.get(), operation.body, sizeof(operation.body), descriptor, FI_ADDR_UNSPEC, &operation),
               "waiting for messages");
}

Status Nic::startReceives(int count) {
  for (int i = 0; i < std::min(count, static_cast<int>(info->rx_attr->size)); ++i) {
    Operation *operation = take();
    if (!operation)
      return error(StatusCode::SystemError, "provider {}: no room for messages", rules.name);
    --pool.numUnderWay; // receives stay under way
    if (receive(*operation) == Posted::Failed)
      return error(StatusCode::SystemError, "{}", why);
  }
  return {};
}

bool Nic::poll(Event &event) {
  fi_cq_data_entry entry = {};
  ssize_t count = fi_cq_read(completions.get(), &entry, 1);
  if (count == 1) {
    bool isRemote = entry.flags & FI_REMOTE_CQ_DATA && entry.flags & FI_REMOTE_WRITE;
    event.kind = isRemote ? Event::Kind::Arrived : Event::Kind::Done;
    event.operation = isRemote ? nullptr : static_cast<Operation *>(entry.op_context);
    event.data = static_cast<uint32_t>(entry.data);
    return true;
  }
  if (count != -FI_EAVAIL)
    return false;
  fi_cq_err_entry failed = {};
  if (fi_cq_readerr(completions.get(), &failed, 0) != 1)
    return false;
  event.kind = Event::Kind::Failed;
  event.operation = static_cast<Operation *>(failed.op_context);
  event.reason = library.errorText(failed.err);
  return true;
}

} // namespace kolo::runtime::fabric
