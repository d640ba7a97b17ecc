// The exported functions of the stand-in: what the providers say of themselves.
#include "StandIn.h"

#include <cstdlib>
#include <cstring>

namespace standin {

constexpr uint64_t gibibyte = uint64_t(1) << 30;

const Provider providers[3] = {
    {"cxi", FI_MR_ENDPOINT | FI_MR_ALLOCATED, 0, true, false, false, true, 1, 100, 4 * gibibyte - 1, 192, true, true,
     false, true},
    {"verbs;ofi_rxm", FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL, 0, true, true, false, false, 8,
     0, gibibyte, 0, true, false, false, false},
    {"efa", FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL, FI_CONTEXT2, false, true, true, true, 8,
     0, gibibyte, 0, false, false, true, true},
};

const Provider *findProvider(const char *name) {
  for (const Provider &provider : providers)
    if (name && std::strcmp(provider.name, name) == 0)
      return &provider;
  return nullptr;
}

Control *standInControl() {
  static Control control;
  return &control;
}

namespace {

template <class Part> Part *copyOf(const Part *part) {
  auto *made = static_cast<Part *>(std::calloc(1, sizeof(Part)));
  if (part)
    *made = *part;
  return made;
}

fi_info *copyInfo(const fi_info *info) {
  fi_info *made = copyOf(info);
  made->next = nullptr;
  made->src_addr = made->dest_addr = nullptr;
  made->tx_attr = copyOf(info ? info->tx_attr : nullptr);
  made->rx_attr = copyOf(info ? info->rx_attr : nullptr);
  made->ep_attr = copyOf(info ? info->ep_attr : nullptr);
  made->domain_attr = copyOf(info ? info->domain_attr : nullptr);
  made->fabric_attr = copyOf(info ? info->fabric_attr : nullptr);
  for (char **name : {&made->fabric_attr->prov_name, &made->fabric_attr->name, &made->domain_attr->name})
    if (*name)
      *name = strdup(*name);
  if (info && info->nic) {
    made->nic = copyOf(info->nic);
    made->nic->bus_attr = copyOf(info->nic->bus_attr);
  }
  return made;
}

/// Whether the provider does what is asked for.
bool accepts(const Provider &provider, const fi_info &hints) {
  auto modes = static_cast<uint64_t>(hints.domain_attr->mr_mode);
  bool isQuestion = hints.caps == 0 && hints.domain_attr->threading == FI_THREAD_UNSPEC; // which providers are there?
  if (isQuestion)
    return true;
  const bool wantsGpus = hints.caps & FI_HMEM;
  const char *without = std::getenv("STAND_IN_WITHOUT_GPUS");
  if (wantsGpus && (standInControl()->hasNoGpus || without || !(modes & FI_MR_HMEM)))
    return false;
  if ((hints.caps & FI_READ) && !provider.canRead)
    return false;
  return (modes & provider.memoryModes) == provider.memoryModes && (hints.mode & provider.modes) == provider.modes &&
         hints.domain_attr->threading == FI_THREAD_DOMAIN && hints.domain_attr->data_progress != FI_PROGRESS_AUTO &&
         (!(hints.tx_attr->msg_order & FI_ORDER_RMA_WAW) || provider.keepsOrder);
}

/// One entry of the provider. Endpoints of different protocols do not reach each other.
struct Entry {
  const char *device, *fabric;
  uint32_t protocol;
};
const Entry entries[] = {{"device0", "stand-in", 1}, {"device0", "stand-in-direct", 2}, {"device1", "stand-in", 1}};

fi_info *describe(const Provider &provider, const fi_info *hints, const Entry &entry, uint32_t version) {
  fi_info *info = copyInfo(hints);
  info->mode = provider.modes;
  info->ep_attr->type = FI_EP_RDM;
  info->ep_attr->max_msg_size = provider.maxMessageBytes;
  info->ep_attr->max_order_waw_size = provider.keepsOrder ? SIZE_MAX : 0;
  info->domain_attr->mr_mode = static_cast<int>(provider.memoryModes | (info->caps & FI_HMEM ? FI_MR_HMEM : 0));
  info->domain_attr->cq_data_size = 4;
  info->domain_attr->mr_key_size = provider.keyBytes;
  info->domain_attr->name = strdup(entry.device);
  if (std::strcmp(entry.device, "device0") == 0) { // the other one does not say where it is
    info->nic = copyOf<fid_nic>(nullptr);
    info->nic->bus_attr = copyOf<fi_bus_attr>(nullptr);
    info->nic->bus_attr->bus_type = FI_BUS_PCI;
    info->nic->bus_attr->attr.pci = {0xfffe, 0x10, 0, 0};
  }
  info->fabric_attr->name = strdup(entry.fabric);
  info->fabric_attr->api_version = version;
  info->ep_attr->protocol = entry.protocol;
  info->domain_attr->av_type = FI_AV_TABLE;
  info->tx_attr->inject_size = 64;
  info->tx_attr->size = info->rx_attr->size = 256;
  std::free(info->fabric_attr->prov_name);
  info->fabric_attr->prov_name = strdup(provider.name);
  return info;
}

int closeDomain(fid *handle) {
  auto *domain = reinterpret_cast<Domain *>(handle);
  if (domain->numOpen != 0 || !domain->regions.empty()) {
    ++standInControl()->numClosedInUse;
    return -FI_EBUSY;
  }
  delete domain;
  return 0;
}

int refuseBind(fid *, fid *, uint64_t) { return -FI_ENOSYS; }
int refuseControl(fid *, int, void *) { return -FI_ENOSYS; }
fi_ops domainFidOps = {sizeof(fi_ops), closeDomain, refuseBind, refuseControl, nullptr, nullptr, nullptr};

int openDomain(fid_fabric *, fi_info *info, fid_domain **opened, void *) {
  static fi_ops_domain ops = tableOf<fi_ops_domain>([](fi_ops_domain &table) {
    table.av_open = openTable;
    table.cq_open = openQueue;
    table.endpoint = openEndpoint;
  });
  auto *domain = new Domain;
  domain->provider = findProvider(info->fabric_attr->prov_name);
  domain->protocol = info->ep_attr->protocol;
  domain->hasGpus = info->caps & FI_HMEM;
  domain->takesDmaBufs = info->fabric_attr->api_version >= FI_VERSION(1, 20);
  domain->handle.fid.ops = &domainFidOps;
  domain->handle.ops = &ops;
  domain->handle.mr = regionOps();
  *opened = &domain->handle;
  return 0;
}

int closeFabric(fid *handle) {
  delete reinterpret_cast<fid_fabric *>(handle);
  return 0;
}

} // namespace
} // namespace standin

extern "C" {

__attribute__((visibility("default"))) standin::Control *standInControl() { return standin::standInControl(); }

uint32_t fi_version() {
  const char *text = std::getenv("STAND_IN_MINOR_VERSION");
  return FI_VERSION(1, text ? std::atoi(text) : 22);
}

const char *fi_strerror(int number) { return std::strerror(number); }

void fi_freeinfo(fi_info *info) {
  while (info) {
    fi_info *next = info->next;
    for (char *name : {info->fabric_attr->prov_name, info->fabric_attr->name, info->domain_attr->name})
      std::free(name);
    if (info->nic)
      std::free(info->nic->bus_attr);
    std::free(info->nic);
    for (void *part :
         {static_cast<void *>(info->tx_attr), static_cast<void *>(info->rx_attr), static_cast<void *>(info->ep_attr),
          static_cast<void *>(info->domain_attr), static_cast<void *>(info->fabric_attr), static_cast<void *>(info)})
      std::free(part);
    info = next;
  }
}

fi_info *fi_dupinfo(const fi_info *info) { return standin::copyInfo(info); }

int fi_getinfo(uint32_t version, const char *, const char *, uint64_t, const fi_info *hints, fi_info **info) {
  *info = nullptr;
  fi_info **last = info;
  const char *missing = std::getenv("STAND_IN_WITHOUT"); // a provider that this host does not have
  for (const standin::Provider &provider : standin::providers) {
    const char *wanted = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : nullptr;
    if ((wanted && std::strcmp(wanted, provider.name) != 0) || (missing && std::strstr(missing, provider.name)))
      continue;
    if (hints && !standin::accepts(provider, *hints))
      continue;
    bool isQuestion = !hints || hints->caps == 0;
    static std::atomic<unsigned> numAnswers = 0;
    unsigned answer = isQuestion ? 0 : numAnswers++;
    for (const standin::Entry &entry : standin::entries) {
      if (standin::standInControl()->kindsDiffer && entry.protocol != 1 + answer % 2)
        continue;
      *last = standin::describe(provider, hints, entry, version);
      last = &(*last)->next;
    }
  }
  return *info ? 0 : -FI_ENODATA;
}

int fi_fabric(fi_fabric_attr *, fid_fabric **opened, void *) {
  static fi_ops fidOps = {
      sizeof(fi_ops), standin::closeFabric, standin::refuseBind, standin::refuseControl, nullptr, nullptr, nullptr};
  static fi_ops_fabric ops =
      standin::tableOf<fi_ops_fabric>([](fi_ops_fabric &table) { table.domain = standin::openDomain; });
  auto *fabric = new fid_fabric{};
  fabric->fid.ops = &fidOps;
  fabric->ops = &ops;
  *opened = fabric;
  return 0;
}
}
