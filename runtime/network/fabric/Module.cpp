// What libkolo_fabric.so exports: see Fabric.h.
#include "base/Error.h"
#include "network/fabric/FabricTransport.h"
#include "network/fabric/Providers.h"

namespace kolo::runtime::fabric {
namespace {

Result<uint32_t> present() {
  return guarded([]() -> Result<uint32_t> {
    Result<const Library *> library = Library::open();
    if (!library.isOk())
      return library.status();
    uint32_t found = 0;
    for (size_t i = 0; i < std::size(autoProviders); ++i)
      if (findProvider(**library, *findProviderRules(autoProviders[i]), {}).isOk())
        found |= 1U << i;
    return found;
  });
}

Status check(const std::string &provider, const std::string &address) {
  return guarded([&]() -> Status {
    Result<const Library *> library = Library::open();
    if (!library.isOk())
      return error(library.status().code(), "KOLO_NETWORK={}: {}", provider, library.status().message());
    Result<const ProviderRules *> rules = rulesFor(**library, provider);
    return rules.isOk() ? findProvider(**library, **rules, {address}).status() : rules.status();
  });
}

Result<std::unique_ptr<Fabric>> create(const FabricOptions &options, ControlTransport &mails) {
  return guarded([&]() -> Result<std::unique_ptr<Fabric>> {
    Result<std::unique_ptr<FabricTransport>> made = FabricTransport::create(options, mails);
    if (!made.isOk())
      return made.status();
    return std::unique_ptr<Fabric>(std::move(made).value());
  });
}

Result<std::vector<NicDescription>> list(const std::string &provider, const RankLocality &place) {
  return guarded([&]() -> Result<std::vector<NicDescription>> {
    Result<const Library *> library = Library::open();
    if (!library.isOk())
      return library.status();
    Result<const ProviderRules *> rules = rulesFor(**library, provider);
    if (!rules.isOk())
      return rules.status();
    Result<Info> info = findProvider(**library, **rules, {});
    if (!info.isOk())
      return info.status();
    return Nic::list(**rules, *info, place);
  });
}

} // namespace
} // namespace kolo::runtime::fabric

extern "C" __attribute__((visibility("default"))) const kolo::runtime::FabricModule *koloFabricModule() {
  using namespace kolo::runtime;
  static const FabricModule module = {fabricModuleVersion, fabric::present, fabric::check, fabric::create,
                                      fabric::list};
  return &module;
}
