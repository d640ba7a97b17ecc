#include "FabricSupport.h"

#include "network/fabric/ControlMessage.h"

#include <dlfcn.h>

#include <cstdlib>

namespace kolo::test {

standin::Control &control() {
  static auto *found =
      reinterpret_cast<standin::Control *(*)()>(dlsym(dlopen(STAND_IN, RTLD_NOW | RTLD_LOCAL), "standInControl"))();
  return *found;
}

FabricRank::~FabricRank() {
  if (data)
    data->leave();
}

Result<std::unique_ptr<FabricRank>> FabricRank::create(const RankPlace &place, const FabricKind &kind) {
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
    Result<fabric::ControlMessage> message = fabric::parseControlMessage(mail);
    if (own->kind.seeControlMessage && message.isOk())
      own->kind.seeControlMessage(sender, own->place.rank, message->kind);
    return own->data->take(sender, mail);
  };
  Result<std::unique_ptr<tcp::TcpTransport>> tcp = tcp::TcpTransport::create(options);
  if (!tcp.isOk())
    return tcp.status();
  made->tcp = std::move(tcp).value();
  made->kind = kind;
  made->place = place;
  return made;
}

Status FabricRank::connect(std::span<const Endpoint> endpoints) {
  FabricOptions options;
  options.rank = place.rank;
  options.numRanks = place.numRanks;
  options.timeoutMs = place.timeoutMs;
  options.address = "127.0.0.1";
  options.mustStop = kind.mustStop;
  options.isForDevices = kind.isForDevices;
  Result<std::unique_ptr<fabric::FabricTransport>> made = fabric::FabricTransport::create(options, kind.rules, *tcp);
  if (!made.isOk())
    return made.status();
  data = std::move(made).value();
  Status status = tcp->connect(endpoints, std::vector<bool>(endpoints.size(), kind.connectsMails), false);
  return status.isOk() ? data->connect(endpoints) : status;
}

Status FabricRank::registerMemory(const Registration &registration) {
  Registration told = registration;
  if (kind.raisesCells)
    told.makeVisible = [] { return Status(); };
  return data->registerMemory(told);
}

Kind fabricKind(const std::string &name, const FabricKind &kind) {
  Kind made;
  made.name = name;
  made.make = [kind](const RankPlace &place) -> Result<std::unique_ptr<Transport>> {
    Result<std::unique_ptr<FabricRank>> rank = FabricRank::create(place, kind);
    if (!rank.isOk())
      return rank.status();
    return std::unique_ptr<Transport>(std::move(rank).value());
  };
  made.isOneSided = true;
  made.isOfOneProcess = kind.usesStandIn;
  made.flushNeedsPeer = kind.rules.order != fabric::SignalOrder::Ordered ||
                        (kind.isForDevices && kind.rules.completion == FI_DELIVERY_COMPLETE) ||
                        kind.rules.sentCompletion == FI_DELIVERY_COMPLETE;
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
  for (const char *name : {"cxi", "verbs"}) {
    FabricKind told{rulesOf(name), true};
    told.isForDevices = told.raisesCells = true;
    kinds.push_back(fabricKind(name + std::string("Told"), told));
  }
  return kinds;
}

} // namespace kolo::test
