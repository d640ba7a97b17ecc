// NetworkChoice: what carries puts and signals between hosts: TCP, or a provider of libfabric. KOLO_NETWORK says so.
#pragma once

#include "network/Fabric.h"

#include <cstdint>
#include <span>
#include <string>

namespace kolo::runtime {

/// What one rank asks for, and has.
struct NetworkOffer {
  enum class Kind : uint8_t { Tcp = 1, Auto = 2, Provider = 3 } kind = Kind::Tcp;
  uint32_t present = 0; // Auto: bits of autoProviders
  std::string provider; // Provider
  bool operator==(const NetworkOffer &) const = default;
};

/// Reads KOLO_NETWORK, and looks for what it names. `address`: of this host, by which peers reach it. InvalidArgument,
/// SystemError: it names nothing that this host has; the message says what is missing.
Result<NetworkOffer> readNetworkOffer(const std::string &address);

/// Where the inboxes and outboxes of devices on several hosts lie.
enum class NetworkMemory : uint8_t {
  Host,   // in memory of the host
  Device, // in that of the devices
  Auto,   // there, if the network reaches those of all ranks
};
const char *toString(NetworkMemory memory);
/// Reads KOLO_NETWORK_MEMORY. InvalidArgument: it is none of these.
Result<NetworkMemory> readNetworkMemory();

/// Offers travel in the last bytes of endpoints, which a TCP endpoint leaves 0.
void addOffer(Endpoint &endpoint, const NetworkOffer &offer);
/// Takes the offer out. Mismatch: there is none.
Result<NetworkOffer> takeOffer(Endpoint &endpoint);

/// What all ranks use: a provider, or "" for TCP. `offers`: by rank. Mismatch: they ask for different things.
Result<std::string> chooseNetwork(std::span<const NetworkOffer> offers);

/// Opens libkolo_fabric.so beside the runtime, and a device. Errors as FabricModule::create; InvalidArgument: this
/// build has no such library.
Result<std::unique_ptr<Fabric>> openFabric(const FabricOptions &options, ControlTransport &mails);

} // namespace kolo::runtime
