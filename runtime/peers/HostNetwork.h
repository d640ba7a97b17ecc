// HostNetwork: how a rank reaches ranks of other hosts: a ControlTransport for what they tell each other, and a
// Transport for their data, which KOLO_NETWORK names.
#pragma once

#include "network/ControlTransport.h"
#include "network/NetworkChoice.h"

#include <memory>
#include <span>
#include <vector>

namespace kolo::runtime {

class Mailboxes;

class HostNetwork {
public:
  /// Listens. `options`: its receiveMail takes the mails of ranks. SystemError: see listenAtHost. Errors as
  /// readNetworkOffer.
  static Result<std::unique_ptr<HostNetwork>> listen(const ControlOptions &options);
  /// Of ranks that are threads of one process, or of a rank that reaches nobody.
  static std::unique_ptr<HostNetwork> inProcess(std::shared_ptr<Mailboxes> mailboxes, const ControlOptions &options);
  ~HostNetwork();

  /// With this rank's choice of a network.
  Endpoint endpoint() const;
  /// The provider of libfabric that all ranks chose; empty: TCP. `endpoints`: by rank. Mismatch.
  static Result<std::string> choose(std::span<const Endpoint> endpoints);
  /// Opens that provider. InvalidArgument, SystemError.
  Status open(const std::string &provider);
  /// The endpoints of these ranks as `connect` takes them, and none of all others. Mismatch: one has none.
  static Result<std::vector<Endpoint>> withoutOffers(std::span<const Endpoint> endpoints,
                                                     const std::vector<int> &others);
  /// After `open`: see ControlTransport::connect.
  Status connect(std::span<const Endpoint> endpoints, const std::vector<bool> &now);
  /// The same for ranks that are known first; `know` follows, with all ranks. `areOthers`: there are more, see
  /// ControlTransport::connect.
  Status connectFirst(std::span<const Endpoint> endpoints, const std::vector<bool> &now, bool areOthers) {
    return controls->connect(endpoints, now, areOthers);
  }
  Status know(std::shared_ptr<const EndpointTable> endpoints);

  ControlTransport &control() const { return *controls; }
  Transport &data() const { return fabric ? *fabric : controls->data(); }
  /// Whether a device writes what other hosts put. It may go on writing to pages that were freed, so it gets only
  /// memory of Kolo's own.
  bool writesByDevice() const { return fabric != nullptr; }

  /// Asks for all that writing to a peer needs.
  void connectTo(int peer);
  bool isConnected(int peer) const { return controls->isWhole(peer) && (!fabric || fabric->hasMet(peer)); }
  /// Whether the peer has left, and all that it sent to this rank has come.
  bool hasLeft(int peer) const;
  /// What a peer sent that may not be, or why a device and that of a peer that lives do not work together, or Ok.
  Status refusal() const;
  /// A Timeout of a wait for a peer, with what keeps this rank from connecting to that peer, if anything does.
  Status explain(const Status &timeout) const;

private:
  explicit HostNetwork(const ControlOptions &given) : options(given) {}
  Status take(int sender, std::span<const std::byte> mail);

  ControlOptions options; // without the key
  NetworkOffer offer;
  std::unique_ptr<ControlTransport> controls;
  std::unique_ptr<Fabric> fabric; // null: `controls` carries the data, too
};

} // namespace kolo::runtime
