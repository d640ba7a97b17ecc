#include "network/tcp/Places.h"

#include "network/tcp/SocketOptions.h"

namespace kolo::runtime::tcp {

Hello Places::helloTo(size_t place) const {
  Hello hello = self;
  hello.peer = peerAt(place);
  hello.connection = static_cast<uint16_t>(place % self.numConnections);
  return hello;
}

Hello Places::helloFrom(size_t place) const {
  Hello hello = helloTo(place);
  std::swap(hello.rank, hello.peer);
  return hello;
}

std::vector<uint32_t> Places::missingPeers() const {
  std::vector<uint32_t> peers;
  for (size_t place = 0; place < standings.size(); ++place)
    if (at(place) == Standing::Wanted && (peers.empty() || peers.back() != peerAt(place)))
      peers.push_back(peerAt(place));
  return peers;
}

bool Places::want(size_t place) {
  if (at(place) != Standing::Possible)
    return false;
  standings[place] = Standing::Wanted;
  ++missing;
  return true;
}

void Places::prepareFor(size_t place, const Socket &socket) const {
  prepare(socket, self.hasMail && place % self.numConnections + 1 == self.numConnections, timeoutMs);
}

void Places::meet(size_t place, Socket socket) {
  missing -= at(place) == Standing::Wanted;
  standings[place] = Standing::Met;
  prepareFor(place, socket);
  met.push_back({helloFrom(place), std::move(socket)});
}

void Places::fail(const Status &failure) {
  failures.push_back(failure);
  const size_t begin = first(static_cast<uint32_t>(failure.rank()));
  for (size_t place = begin; place < begin + self.numConnections; ++place) {
    missing -= at(place) == Standing::Wanted;
    standings[place] = Standing::Failed;
  }
}

} // namespace kolo::runtime::tcp
