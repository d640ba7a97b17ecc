// The kinds of TCP on which the contract is tested.
#include "Support.h"

#include "network/tcp/TcpTransport.h"

namespace kolo::test {
namespace {

Kind tcpKind(const std::string &name, uint16_t numConnections, const std::string &listenAt) {
  return {name, [=](const RankPlace &place) -> Result<std::unique_ptr<Transport>> {
            tcp::TcpOptions options;
            options.rank = place.rank;
            options.numRanks = place.numRanks;
            options.timeoutMs = place.timeoutMs;
            options.connectionsPerPeer = numConnections;
            options.world.fill(std::byte(7));
            options.listenAt = listenAt;
            Result<std::unique_ptr<tcp::TcpTransport>> made = tcp::TcpTransport::create(options);
            if (!made.isOk())
              return made.status();
            return std::unique_ptr<Transport>(std::move(made).value());
          }};
}

} // namespace

std::vector<Kind> allKinds() { return {tcpKind("tcp", 1, "127.0.0.1"), tcpKind("tcp3", 3, "127.0.0.1")}; }

} // namespace kolo::test
