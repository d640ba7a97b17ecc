#include "network/fabric/Providers.h"

#include "base/Error.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

namespace kolo::runtime::fabric {
namespace {

Info query(const Library &library, const fi_info *hints, const ProviderNeeds &needs) {
  fi_info *found = nullptr;
  const char *node = needs.address.empty() ? nullptr : needs.address.c_str();
  const uint32_t version = library.interfaceFor(needs.isForDevices);
  if (library.getInfo(version, node, nullptr, node ? FI_SOURCE : 0, hints, &found) != 0)
    found = nullptr;
  return Info(found, InfoDeleter{&library});
}

/// What the rules need, as libfabric takes it.
Info hintsFor(const Library &library, const ProviderRules &rules, bool isForDevices) {
  Info hints(library.copyInfo(nullptr), InfoDeleter{&library});
  if (!hints)
    return hints;
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode = static_cast<int>(rules.memoryModes);
  hints->domain_attr->threading = rules.threads;
  hints->domain_attr->data_progress = rules.progress;
  if (rules.order == SignalOrder::Counted || isForDevices)
    hints->caps |= FI_MSG | FI_SEND | FI_RECV;
  if (rules.order == SignalOrder::Ordered)
    hints->tx_attr->msg_order = FI_ORDER_RMA_WAW;
  if (isForDevices) {
    hints->caps |= FI_HMEM;
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
    hints->tx_attr->msg_order |= rules.gpu.messageOrder;
    if (rules.gpu.read == GpuRead::BySelf)
      hints->caps |= FI_READ | FI_REMOTE_READ;
  }
  hints->rx_attr->msg_order = hints->tx_attr->msg_order;
  hints->fabric_attr->prov_name = strdup(std::string(rules.provider).c_str()); // freed with the hints
  return hints;
}

struct Need {
  const char *name;
  void (*drop)(fi_info &hints);
};

constexpr Need knownNeeds[] = {
    {"memory of devices (FI_HMEM)",
     [](fi_info &hints) {
       hints.caps &= ~FI_HMEM;
       hints.domain_attr->mr_mode &= ~FI_MR_HMEM;
     }},
    {"writes to memory of peers", [](fi_info &hints) { hints.caps &= ~(FI_RMA | FI_WRITE | FI_REMOTE_WRITE); }},
    {"messages", [](fi_info &hints) { hints.caps &= ~(FI_MSG | FI_SEND | FI_RECV); }},
    {"order of writes", [](fi_info &hints) { hints.tx_attr->msg_order = hints.rx_attr->msg_order = 0; }},
    {"memory regions of the modes in its rules", [](fi_info &hints) { hints.domain_attr->mr_mode = ~3; }},
    {"the threads in its rules", [](fi_info &hints) { hints.domain_attr->threading = FI_THREAD_UNSPEC; }},
    {"the progress in its rules", [](fi_info &hints) { hints.domain_attr->data_progress = FI_PROGRESS_UNSPEC; }},
};

/// The first thing without which the provider would be there.
std::string nameLack(const Library &library, const ProviderRules &rules, const ProviderNeeds &needs) {
  for (const Need &need : knownNeeds) {
    Info hints = hintsFor(library, rules, needs.isForDevices);
    if (!hints)
      break;
    need.drop(*hints);
    if (query(library, hints.get(), needs))
      return need.name;
  }
  return "several things that its rules need";
}

std::set<std::string> namesOfProviders(const Library &library) {
  std::set<std::string> names;
  Info all = query(library, nullptr, {});
  for (const fi_info *one = all.get(); one; one = one->next)
    if (one->fabric_attr && one->fabric_attr->prov_name)
      names.insert(one->fabric_attr->prov_name);
  return names;
}

bool hasProvider(const Library &library, const ProviderRules &rules) {
  Info hints(library.copyInfo(nullptr), InfoDeleter{&library});
  if (!hints)
    return false;
  hints->fabric_attr->prov_name = strdup(std::string(rules.provider).c_str());
  hints->domain_attr->mr_mode = ~3; // without the two old values, any mode
  hints->mode = ~uint64_t(0);
  return query(library, hints.get(), {}) != nullptr;
}

/// What must hold beyond the answer to the hints. Empty: it holds.
std::string nameShortage(const fi_info &info, const ProviderRules &rules) {
  if (rules.order == SignalOrder::Ordered && info.ep_attr->max_order_waw_size == 0)
    return "order of writes (max_order_waw_size is 0)";
  if (rules.order == SignalOrder::Counted && info.domain_attr->cq_data_size < 4)
    return fmt::format("4 bytes of data with a write (cq_data_size is {})", info.domain_attr->cq_data_size);
  if (info.ep_attr->max_msg_size < 4096)
    return fmt::format("writes of 4096 bytes (max_msg_size is {})", info.ep_attr->max_msg_size);
  return {};
}

} // namespace

Result<const ProviderRules *> rulesFor(const Library &library, const std::string &name) {
  if (const ProviderRules *rules = findProviderRules(name))
    return rules;
  std::string known;
  for (const ProviderRules &rules : allProviderRules())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", rules.name);
  std::set<std::string> names = namesOfProviders(library);
  if (names.contains(name))
    return error(StatusCode::InvalidArgument,
                 "KOLO_NETWORK={}: libfabric has this provider, but Kolo has no rules for it; it has rules for {}",
                 name, known);
  return error(StatusCode::InvalidArgument,
               "KOLO_NETWORK={}: this is neither auto, nor tcp, nor a provider that Kolo has rules for ({})", name,
               known);
}

Result<Info> findProvider(const Library &library, const ProviderRules &rules, const ProviderNeeds &given) {
  const ProviderNeeds needs = {rules.takesAddress ? given.address : std::string(), given.isForDevices};
  Info hints = hintsFor(library, rules, needs.isForDevices);
  Info found = hints ? query(library, hints.get(), needs) : nullptr;
  std::string lack;
  if (found)
    lack = nameShortage(*found, rules);
  else if (!hasProvider(library, rules))
    return error(StatusCode::SystemError, "KOLO_NETWORK={}: {} finds no such provider on this host", rules.name,
                 library.path);
  else
    lack = nameLack(library, rules, needs);
  if (!lack.empty())
    return error(StatusCode::SystemError, "KOLO_NETWORK={}: the provider of {} lacks {}", rules.name, library.path,
                 lack);
  return found;
}

} // namespace kolo::runtime::fabric
