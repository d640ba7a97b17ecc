// Ranks whose puts and signals go through libfabric, and whose mails go over TCP, as in a world of several hosts.
#pragma once

#include "Support.h"

#include "network/fabric/FabricTransport.h"
#include "network/fabric/TcpMails.h"

namespace kolo::test {

/// How a kind differs from what the runtime does.
struct FabricKind {
  fabric::ProviderRules rules;
  bool usesStandIn = false;
  int lateRank = -1;                   // gets each mail of a handshake late
  int absentRank = -1;                 // stays away from the handshake
  std::function<bool()> mustStop = {}; // see FabricOptions, as the next two
  int connectMs = 0;
  std::function<void()> progress = {};
};
Kind fabricKind(const std::string &name, const FabricKind &kind);
/// The rules of a provider.
fabric::ProviderRules rulesOf(std::string_view name);
/// The rules of a provider with another order.
fabric::ProviderRules withOrder(std::string_view name, fabric::SignalOrder order);

} // namespace kolo::test
