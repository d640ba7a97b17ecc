// Providers: which providers this host has, and whether they have what their rules need.
#pragma once

#include "network/fabric/Library.h"
#include "network/fabric/ProviderRules.h"

#include <string>

namespace kolo::runtime::fabric {

/// The rules for the provider that KOLO_NETWORK names. InvalidArgument: there are none; the message says whether
/// libfabric knows such a provider.
Result<const ProviderRules *> rulesFor(const Library &library, const std::string &name);

/// What is asked of a provider.
struct ProviderNeeds {
  std::string address = {};  // see ProviderRules::takesAddress
  bool isForDevices = false; // it must reach memory of GPUs, too
};

/// What libfabric says of the provider, with everything that its rules need: one entry per device. SystemError: this
/// host has no such provider, or it lacks something; the message names it.
Result<Info> findProvider(const Library &library, const ProviderRules &rules, const ProviderNeeds &needs);

} // namespace kolo::runtime::fabric
