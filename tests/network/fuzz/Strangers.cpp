#include "fuzz/Strangers.h"
#include "fuzz/Require.h"

#include "bootstrap/RendezvousAcceptor.h"
#include "network/tcp/TcpTransport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <thread>

namespace kolo::test {
namespace {

using namespace kolo::runtime;
using Bytes = std::span<const std::byte>;

/// A socket on the loopback interface that listens, and its port.
Socket listenHere(uint16_t &port, int flags) {
  Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t sizeBytes = sizeof(own);
  auto *address = reinterpret_cast<sockaddr *>(&own);
  require(bind(made.descriptor(), address, sizeBytes) == 0 && listen(made.descriptor(), 8) == 0 &&
          getsockname(made.descriptor(), address, &sizeBytes) == 0);
  port = ntohs(own.sin_port);
  return made;
}

/// Says the bytes and nothing more. The connection resets when it is closed: thousands of others follow.
Socket sayTo(uint16_t port, Bytes bytes) {
  Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  linger reset = {1, 0};
  setsockopt(made.descriptor(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  sockaddr_in target = {};
  target.sin_family = AF_INET;
  target.sin_port = htons(port);
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  require(connect(made.descriptor(), reinterpret_cast<sockaddr *>(&target), sizeof(target)) == 0);
  (void)!send(made.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  shutdown(made.descriptor(), SHUT_WR);
  return made;
}

tcp::TcpOptions optionsOf(int rank, int timeoutMs) {
  tcp::TcpOptions options;
  options.rank = rank;
  options.numRanks = 2;
  options.timeoutMs = timeoutMs;
  options.world.fill(std::byte(7));
  options.listenAt = "127.0.0.1";
  return options;
}

tcp::Hello helloTo(uint32_t peer) {
  tcp::Hello hello;
  hello.rank = 1 - peer;
  hello.peer = peer;
  hello.numRanks = 2;
  hello.world.fill(std::byte(7));
  return hello;
}

/// All that the opener of a connection says in an open world, or all of an answer.
std::vector<std::byte> greetingOf(const tcp::Hello &hello, size_t sizeBytes) {
  tcp::HelloBytes bytes = tcp::write(hello);
  std::vector<std::byte> all(bytes.begin(), bytes.end());
  all.resize(sizeBytes);
  return all;
}

constexpr size_t openerBytes = tcp::greetingBytes + sizeof(SecretProof);

/// Whether the first bytes are the Hello of the other rank. Nobody looks at the nonce in an open world.
bool beginsAs(Bytes bytes, const tcp::Hello &hello, size_t sizeBytes) {
  tcp::HelloBytes expected = tcp::write(hello);
  return bytes.size() >= sizeBytes && std::memcmp(bytes.data(), expected.data(), expected.size()) == 0;
}

void greet(Bytes bytes) {
  Result<std::unique_ptr<tcp::TcpTransport>> rank = tcp::TcpTransport::create(optionsOf(0, 1));
  require(rank.isOk());
  std::array<Endpoint, 2> endpoints{(*rank)->endpoint(), (*rank)->endpoint()};
  Result<tcp::HostAddress> address = tcp::parseEndpoint(endpoints[0]);
  require(address.isOk());
  Socket stranger = sayTo(address->port, bytes);
  Status status = (*rank)->connect(endpoints);
  require(status.isOk() ? beginsAs(bytes, helloTo(0), openerBytes) : status.code() == StatusCode::Timeout);
  stranger = {}; // the rank's goodbye waits for nobody
}

void answer(Bytes bytes) {
  Result<std::unique_ptr<tcp::TcpTransport>> rank = tcp::TcpTransport::create(optionsOf(1, 1000));
  require(rank.isOk());
  uint16_t port = 0;
  Socket listener = listenHere(port, 0);
  tcp::HostAddress address;
  address.port = port;
  address.host = {std::byte(127), std::byte(0), std::byte(0), std::byte(1)};
  std::array<Endpoint, 2> endpoints{tcp::write(address), (*rank)->endpoint()};
  std::thread stranger([&] {
    Socket accepted(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    listener = {}; // the rank comes again where it gets no answer
    std::array<std::byte, openerBytes> ignored;
    (void)!recv(accepted.descriptor(), ignored.data(), tcp::greetingBytes, MSG_WAITALL);
    (void)!send(accepted.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    shutdown(accepted.descriptor(), SHUT_WR);
    (void)!recv(accepted.descriptor(), ignored.data(), ignored.size(), MSG_WAITALL); // until the rank ends it
  });
  Status status = (*rank)->connect(endpoints);
  bool isRefused = status.code() == StatusCode::Mismatch || status.code() == StatusCode::PeerLost;
  require(status.isOk() ? beginsAs(bytes, helloTo(1), tcp::greetingBytes) : isRefused);
  *rank = nullptr;
  stranger.join();
}

void visit(Bytes bytes) {
  uint16_t port = 0;
  RendezvousAcceptor acceptor(listenHere(port, SOCK_NONBLOCK), {}, 4, Clock::now());
  Socket stranger = sayTo(port, bytes);
  size_t numVisits = 0;
  Clock::time_point until = Clock::now() + std::chrono::milliseconds(1);
  while (acceptor.listen(until, [&](AdmittedConnection &, const Result<Hello> &hello) {
    ++numVisits;
    require(!hello.isOk() || parseHello(write(*hello)).isOk());
    return true;
  }))
    continue;
  (void)acceptor.describe({0, 1, 2, 3});
  (void)acceptor.disagreement({0, 1, 2, 3});
  require(numVisits == acceptor.admitted().size() && numVisits <= 1);
  require(numVisits == 0 || bytes.size() >= openingBytes + helloBytes + sizeof(SecretProof));
}

} // namespace

void meetStranger(Bytes input) {
  if (input.empty())
    return;
  Bytes bytes = input.subspan(1);
  switch (static_cast<unsigned>(input[0]) % 3) {
  case 0:
    return greet(bytes);
  case 1:
    return answer(bytes);
  default:
    return visit(bytes);
  }
}

std::vector<std::vector<std::byte>> seedsOfStrangers() {
  std::vector<std::vector<std::byte>> all;
  auto add = [&](int kind, Bytes bytes) {
    all.push_back({std::byte(kind)});
    all.back().insert(all.back().end(), bytes.begin(), bytes.end());
  };
  add(0, greetingOf(helloTo(0), openerBytes));
  add(1, greetingOf(helloTo(1), tcp::greetingBytes));
  Opening opening;
  opening.rank = 1;
  OpeningBytes first = write(opening);
  HelloBytes hello = write(Hello{1, 4, 4711, {}, "host"});
  std::vector<std::byte> visitor(first.begin(), first.end());
  visitor.insert(visitor.end(), hello.begin(), hello.end());
  visitor.resize(visitor.size() + sizeof(SecretProof));
  add(2, visitor);
  opening.version = 1;
  add(2, write(opening));
  return all;
}

} // namespace kolo::test
