// Fabric: what the runtime knows of libkolo_fabric.so, the transport by libfabric. The library is built with the
// runtime and lies beside it.
#pragma once

#include "kolo/runtime/Nics.h"
#include "network/ControlTransport.h"
#include "network/NearestNic.h"

#include <functional>
#include <memory>
#include <string>

namespace kolo::runtime {

struct FabricOptions {
  int rank = 0;
  int numRanks = 1;
  int timeoutMs = 30'000;
  std::string provider;                // by its name in the rules
  std::string address;                 // of this host, numeric: for providers that choose devices so
  RankLocality place = {};             // whose nearest device is opened
  bool isForDevices = false;           // it is to reach memory of GPUs, if the provider does: see tryMemory
  std::function<bool()> mustStop = {}; // see ControlOptions
};

/// A Transport whose mails a ControlTransport carries, which also notices that peers end. `endpoint` is empty.
/// `connect` looks only at which endpoints are empty, and never blocks; it must be called when mails to the others are
/// possible. Two ranks meet when one of them first writes to the other: then the first `flush` to a peer waits until
/// that peer makes progress. What keeps two ranks from writing to each other is a Status of both from then on:
/// Mismatch, SystemError, OutOfMemory.
class Fabric : public Transport {
public:
  /// Takes a mail of a peer. Mismatch: the connection with it must end. Any thread, also while another function runs.
  virtual Status take(int sender, std::span<const std::byte> mail) = 0;
  /// Asks the peer to meet this rank. Never blocks.
  virtual void ask(int peer) = 0;
  /// Whether they have met: what this rank writes needs no more of the peer than the network itself does.
  virtual bool hasMet(int peer) const = 0;
  /// What is missing for that, if one has asked or written; else Ok.
  virtual Status troubleWith(int peer) const = 0;
  /// Tells all peers that this rank leaves. Puts and signals that were not flushed may be dropped. Blocks until all
  /// signals have come and no peer writes here any more; at most for the timeout, at most 2 s for a peer that makes no
  /// progress, and not for peers that are lost.
  /// Called before the destructor, and at most once. Cells of this rank may be gone. A forked child does nothing.
  virtual void leave() = 0;
};

/// A fabric's mails begin with this number, so that they can share a connection with others.
inline constexpr uint16_t fabricMailMark = 0xfab1;
inline bool isFabricMail(std::span<const std::byte> mail) {
  return mail.size() >= 2 && mail[0] == std::byte(fabricMailMark & 0xff) && mail[1] == std::byte(fabricMailMark >> 8);
}

/// Every change of what follows, or of Transport and ControlTransport, raises it: the library may be an older one.
inline constexpr uint32_t fabricModuleVersion = 8;
/// Bits of what `present` returns, in the order in which KOLO_NETWORK=auto prefers.
inline constexpr const char *autoProviders[] = {"cxi", "verbs", "efa"};

/// What the library exports.
struct FabricModule {
  uint32_t version = fabricModuleVersion;
  /// Which of autoProviders this host has. SystemError: there is no libfabric.
  Result<uint32_t> (*present)() = nullptr;
  /// Whether this host has the provider, with what its rules need. InvalidArgument, SystemError.
  Status (*check)(const std::string &provider, const std::string &address) = nullptr;
  /// Opens the device. `mails` must outlive the fabric. InvalidArgument, SystemError, OutOfMemory.
  Result<std::unique_ptr<Fabric>> (*create)(const FabricOptions &options, ControlTransport &mails) = nullptr;
  /// The devices among which `create` chooses. InvalidArgument, SystemError.
  Result<std::vector<NicDescription>> (*list)(const std::string &provider, const RankLocality &place) = nullptr;
};
using FabricModuleEntry = const FabricModule *(*)();
inline constexpr const char *fabricModuleSymbol = "koloFabricModule";

} // namespace kolo::runtime
