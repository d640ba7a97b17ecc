#include "network/NetworkChoice.h"

#include "base/Error.h"
#include "base/OwnFolder.h"
#include "base/Variable.h"
#include "network/Cursor.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace kolo::runtime {
namespace {

constexpr size_t offerBytes = 24, providerBytes = 20;
constexpr uint32_t allPresent = (1U << std::size(autoProviders)) - 1;

/// The module stays open until the process ends.
Result<const FabricModule *> openModule() {
  static std::mutex mutex;
  static const FabricModule *opened = nullptr;
  std::scoped_lock lock(mutex);
  if (opened)
    return opened;
  std::string path = ownFolder() + "/libkolo_fabric.so";
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return error(StatusCode::InvalidArgument, "this build has no transport by libfabric: {}", reason ? reason : path);
  }
  auto entry = reinterpret_cast<FabricModuleEntry>(dlsym(handle, fabricModuleSymbol));
  const FabricModule *module = entry ? entry() : nullptr;
  if (!module || module->version != fabricModuleVersion) {
    dlclose(handle);
    return error(StatusCode::InvalidArgument, "{} is not of this version of the runtime", path);
  }
  return opened = module;
}

/// Whether the kernel has RDMA devices at all. Without, libfabric need not be opened to find none.
bool hasDevices() {
  std::error_code ignored;
  for (const char *folder : {"/sys/class/infiniband", "/sys/class/cxi"})
    if (std::filesystem::directory_iterator(folder, ignored) != std::filesystem::directory_iterator())
      return true;
  return variable("KOLO_LIBFABRIC") != nullptr;
}

std::string describe(const NetworkOffer &offer) {
  constexpr const char *names[] = {"", "tcp", "auto"};
  return offer.kind == NetworkOffer::Kind::Provider ? offer.provider : names[static_cast<size_t>(offer.kind)];
}

} // namespace

const char *toString(NetworkMemory memory) {
  constexpr const char *names[] = {"host", "device", "auto"};
  return names[static_cast<size_t>(memory)];
}

Result<NetworkMemory> readNetworkMemory() {
  const char *text = variable("KOLO_NETWORK_MEMORY");
  if (!text)
    return NetworkMemory::Host;
  for (NetworkMemory memory : {NetworkMemory::Host, NetworkMemory::Device, NetworkMemory::Auto})
    if (std::string_view(text) == toString(memory))
      return memory;
  return error(StatusCode::InvalidArgument, "KOLO_NETWORK_MEMORY='{}' is neither host, nor device, nor auto", text);
}

Result<NetworkOffer> readNetworkOffer(const std::string &address) {
  if (Result<NetworkMemory> memory = readNetworkMemory(); !memory.isOk())
    return memory.status();
  const char *text = variable("KOLO_NETWORK");
  std::string name = text ? text : "auto";
  NetworkOffer offer;
  if (name == "tcp")
    return offer;
  if (Result<RankLocality> place = RankLocality::here(); !place.isOk()) // mistakes first
    return place.status();
  if (name == "auto") {
    offer.kind = NetworkOffer::Kind::Auto;
    Result<const FabricModule *> module = hasDevices() ? openModule() : Status(StatusCode::SystemError, "");
    Result<uint32_t> present = module.isOk() ? (*module)->present() : module.status();
    offer.present = present.isOk() ? *present : 0;
    return offer;
  }
  if (name.empty() || name.size() >= providerBytes)
    return error(StatusCode::InvalidArgument, "KOLO_NETWORK='{}' is neither auto, nor tcp, nor a provider", name);
  Result<const FabricModule *> module = openModule();
  if (!module.isOk())
    return error(module.status().code(), "KOLO_NETWORK={}: {}", name, module.status().message());
  if (Status status = (*module)->check(name, address); !status.isOk())
    return status;
  offer.kind = NetworkOffer::Kind::Provider;
  offer.provider = name;
  return offer;
}

void addOffer(Endpoint &endpoint, const NetworkOffer &offer) {
  Cursor<std::byte> writer{std::span(endpoint).last(offerBytes)};
  writer.put(static_cast<uint16_t>(offer.kind));
  writer.put(static_cast<uint16_t>(offer.present));
  writer.putText(offer.provider, providerBytes);
}

Result<NetworkOffer> takeOffer(Endpoint &endpoint) {
  std::span<std::byte> bytes = std::span(endpoint).last(offerBytes);
  Cursor<std::byte> reader(bytes);
  auto kind = reader.get<uint16_t>();
  NetworkOffer offer;
  offer.present = reader.get<uint16_t>();
  offer.provider = reader.getText(providerBytes);
  std::ranges::fill(bytes, std::byte(0));
  bool hasProvider = kind == static_cast<uint16_t>(NetworkOffer::Kind::Provider);
  bool isAuto = kind == static_cast<uint16_t>(NetworkOffer::Kind::Auto);
  if (kind < 1 || kind > 3 || offer.present > (isAuto ? allPresent : 0) || hasProvider == offer.provider.empty() ||
      offer.provider.size() == providerBytes)
    return error(StatusCode::Mismatch, "an endpoint that does not say which network it is for");
  offer.kind = static_cast<NetworkOffer::Kind>(kind);
  return offer;
}

Result<std::string> chooseNetwork(std::span<const NetworkOffer> offers) {
  const NetworkOffer &first = offers.front();
  uint32_t present = first.present;
  for (size_t rank = 1; rank < offers.size(); ++rank) {
    const NetworkOffer &other = offers[rank];
    if (other.kind != first.kind || other.provider != first.provider)
      return rankError(StatusCode::Mismatch, static_cast<int>(rank),
                       "ranks disagree on KOLO_NETWORK: rank 0 has {}, rank {} has {}", describe(first), rank,
                       describe(other));
    present &= other.present;
  }
  if (first.kind != NetworkOffer::Kind::Auto)
    return first.provider;
  for (size_t i = 0; i < std::size(autoProviders); ++i)
    if (present >> i & 1)
      return std::string(autoProviders[i]);
  return std::string();
}

Result<std::vector<NicDescription>> describeNics() {
  Result<RankLocality> place = RankLocality::here();
  if (!place.isOk())
    return place.status();
  Result<NetworkOffer> offer = readNetworkOffer("");
  if (!offer.isOk())
    return offer.status();
  std::vector<std::string> providers;
  for (size_t i = 0; i < std::size(autoProviders); ++i)
    if (offer->present >> i & 1)
      providers.emplace_back(autoProviders[i]);
  if (offer->kind == NetworkOffer::Kind::Provider)
    providers.push_back(offer->provider);
  std::vector<NicDescription> all;
  for (const std::string &provider : providers) {
    Result<const FabricModule *> module = openModule();
    if (!module.isOk())
      return module.status();
    Result<std::vector<NicDescription>> its = (*module)->list(provider, *place);
    if (!its.isOk())
      return its.status();
    all.insert(all.end(), its->begin(), its->end());
  }
  return all;
}

Result<std::unique_ptr<Fabric>> openFabric(const FabricOptions &options, ControlTransport &mails) {
  Result<const FabricModule *> module = openModule();
  if (!module.isOk())
    return module.status();
  return (*module)->create(options, mails);
}

} // namespace kolo::runtime
