#include "FabricSupport.h"

#include <atomic>
#include <cstdlib>
#include <thread>

namespace kolo::test {
namespace {

class FabricRank : public Transport {
public:
  ~FabricRank() override {
    if (data)
      data->leave();
  }
  static Result<std::unique_ptr<Transport>> create(const RankPlace &place, const FabricKind &kind) {
    if (kind.usesStandIn)
      setenv("KOLO_LIBFABRIC", STAND_IN, 1);
    else
      unsetenv("KOLO_LIBFABRIC");
    std::unique_ptr<FabricRank> made(new FabricRank);
    tcp::TcpOptions options;
    options.rank = place.rank;
    options.numRanks = place.numRanks;
    options.timeoutMs = place.timeoutMs;
    options.world.fill(std::byte(9));
    options.listenAt = "127.0.0.1";
    options.receiveMail = [own = made.get()](int sender, std::span<const std::byte> mail) {
      if (own->place.rank == own->kind.lateRank && !own->isConnected)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return own->data->take(sender, mail);
    };
    Result<std::unique_ptr<tcp::TcpTransport>> tcp = tcp::TcpTransport::create(options);
    if (!tcp.isOk())
      return tcp.status();
    made->tcp = std::move(tcp).value();
    made->mails = std::make_unique<TcpMails>(*made->tcp);
    made->kind = kind;
    made->place = place;
    return std::unique_ptr<Transport>(std::move(made));
  }

  Endpoint endpoint() const override { return tcp->endpoint(); }
  Status connect(std::span<const Endpoint> endpoints) override {
    FabricOptions options;
    options.rank = place.rank;
    options.numRanks = place.numRanks;
    options.timeoutMs = place.timeoutMs;
    options.address = "127.0.0.1";
    options.mustStop = kind.mustStop;
    options.connectMs = kind.connectMs;
    options.progress = kind.progress;
    Result<std::unique_ptr<fabric::FabricTransport>> made =
        fabric::FabricTransport::create(options, kind.rules, *mails);
    if (!made.isOk())
      return made.status();
    data = std::move(made).value();
    Status status = tcp->connect(endpoints);
    if (status.isOk() && place.rank != kind.absentRank)
      status = data->connect(endpoints);
    isConnected = true;
    return status;
  }
  Status registerMemory(const Registration &registration) override { return data->registerMemory(registration); }
  void release(uint64_t agreement) override { data->release(agreement); }
  Status put(Path path, RemotePlace to, const void *src, uint64_t sizeBytes) override {
    return data->put(path, to, src, sizeBytes);
  }
  Status signal(Path path, RemoteSignal signal) override { return data->signal(path, signal); }
  Status flush(uint32_t lane) override { return data->flush(lane); }
  Status progress() override { return data->progress(); }
  Status idle(const Counter &counter, uint64_t target, Clock::time_point until) override {
    return data->idle(counter, target, until);
  }
  Status stateOf(int peer) const override { return data->stateOf(peer); }

private:
  RankPlace place;
  FabricKind kind;
  std::atomic<bool> isConnected = false;
  std::unique_ptr<tcp::TcpTransport> tcp;
  std::unique_ptr<TcpMails> mails;
  std::unique_ptr<fabric::FabricTransport> data; // ends first
};

} // namespace

Kind fabricKind(const std::string &name, const FabricKind &kind) {
  Kind made;
  made.name = name;
  made.make = [kind](const RankPlace &place) { return FabricRank::create(place, kind); };
  made.isOneSided = true;
  made.isOfOneProcess = kind.usesStandIn;
  made.flushNeedsPeer =
      kind.rules.order != fabric::SignalOrder::Ordered || kind.rules.sentCompletion == FI_DELIVERY_COMPLETE;
  return made;
}

fabric::ProviderRules rulesOf(std::string_view name) { return *fabric::findProviderRules(name); }

fabric::ProviderRules withOrder(std::string_view name, fabric::SignalOrder order) {
  fabric::ProviderRules rules = rulesOf(name);
  rules.order = order;
  return rules;
}

std::vector<Kind> allKinds() {
  std::vector<Kind> kinds;
  for (fabric::SignalOrder order :
       {fabric::SignalOrder::Ordered, fabric::SignalOrder::Counted, fabric::SignalOrder::Acknowledged})
    kinds.push_back(fabricKind(toString(order), {withOrder("tcp;ofi_rxm", order)}));
  for (const char *name : {"cxi", "verbs", "efa"})
    kinds.push_back(fabricKind(name, {rulesOf(name), true}));
  kinds.push_back(fabricKind("cxiAcknowledged", {withOrder("cxi", fabric::SignalOrder::Acknowledged), true}));
  return kinds;
}

} // namespace kolo::test
