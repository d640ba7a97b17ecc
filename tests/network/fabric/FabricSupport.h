// Ranks whose puts and signals go through libfabric, and whose mails go over TCP, as in a world of several hosts.
#pragma once

#include "Support.h"

#include "network/fabric/FabricTransport.h"
#include "network/tcp/TcpTransport.h"

/// What libkolo_fabric.so exports.
extern "C" const kolo::runtime::FabricModule *koloFabricModule();

namespace standin {
struct Control;
}

namespace kolo::test {

/// What the stand-in for libfabric does.
standin::Control &control();

/// How a kind differs from what the runtime does.
struct FabricKind {
  fabric::ProviderRules rules;
  bool usesStandIn = false;
  std::function<bool()> mustStop = {}; // see FabricOptions
  bool connectsMails = true;           // in `connect`; else when they are first used
  bool isForDevices = false;           // see FabricOptions
  bool raisesCells = false;            // itself, for all registrations: see Registration::makeVisible
  std::function<void(int sender, int receiver, fabric::ControlKind kind)> seeControlMessage = {}; // before it is taken
};

/// A rank of such a kind.
class FabricRank : public Transport {
public:
  static Result<std::unique_ptr<FabricRank>> create(const RankPlace &place, const FabricKind &kind);
  ~FabricRank() override;

  Endpoint endpoint() const override { return tcp->endpoint(); }
  Status connect(std::span<const Endpoint> endpoints) override;
  Status registerMemory(const Registration &registration) override;
  Status tryMemory(const Region &region) override { return data->tryMemory(region); }
  void release(uint64_t agreement) override { data->release(agreement); }
  Status put(Path path, RemotePlace to, const void *src, uint64_t sizeBytes) override {
    return data->put(path, to, src, sizeBytes);
  }
  Status signal(Path path, RemoteSignal signal) override { return data->signal(path, signal); }
  Status flush(uint32_t lane) override { return data->flush(lane); }
  PutCounts countPuts(Path path) const override { return data->countPuts(path); }
  Status progress() override { return data->progress(); }
  Status idle(const Counter &counter, uint64_t target, Clock::time_point until) override {
    return data->idle(counter, target, until);
  }
  Status stateOf(int peer) const override { return data->stateOf(peer); }
  void ask(int peer) { data->ask(peer); }
  bool hasMet(int peer) const { return data->hasMet(peer); }
  Status troubleWith(int peer) const { return data->troubleWith(peer); }
  /// Sends bytes to a peer's fabric.
  Status mail(int peer, std::span<const std::byte> text) { return tcp->mail(peer, text); }
  /// Over TCP.
  size_t numConnections() const { return tcp->numConnected(); }

private:
  RankPlace place;
  FabricKind kind;
  std::unique_ptr<tcp::TcpTransport> tcp;
  std::unique_ptr<fabric::FabricTransport> data; // ends first
};

Kind fabricKind(const std::string &name, const FabricKind &kind);
inline FabricRank &fabricOf(Transport &rank) { return dynamic_cast<FabricRank &>(rank); }
/// The rules of a provider.
fabric::ProviderRules rulesOf(std::string_view name);
/// The rules of a provider with another order.
fabric::ProviderRules withOrder(std::string_view name, fabric::SignalOrder order);

} // namespace kolo::test
