// How long a put of 8 bytes and the signal after it take to a rank of another host: half of a turn there and back, by
// ranks that never sleep. Then the same for 64 bytes by the sockets alone, which is the bound. Arguments: rank, numeric
// address of its host, folder that both ranks see. Rank 0 prints.
#include "network/tcp/SocketAddress.h"
#include "network/tcp/TcpTransport.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

using namespace kolo::runtime;

namespace {

constexpr int numTurns = 1000, turnsOfOne = 100;

void require(const Status &status) {
  if (status.isOk())
    return;
  std::fprintf(stderr, "kolo-bench-one-way: %s\n", status.message().c_str());
  std::exit(1);
}

/// Writes this rank's endpoint, and waits for the peer's.
std::array<Endpoint, 2> exchange(const std::string &folder, int rank, const Endpoint &own) {
  std::string name = folder + "/endpoint" + std::to_string(rank);
  std::ofstream(name + ".new", std::ios::binary).write(reinterpret_cast<const char *>(own.data()), sizeof(own));
  std::rename((name + ".new").c_str(), name.c_str());
  std::array<Endpoint, 2> all{own, own};
  std::string other = folder + "/endpoint" + std::to_string(1 - rank);
  auto *bytes = reinterpret_cast<char *>(all[static_cast<size_t>(1 - rank)].data());
  while (!std::ifstream(other, std::ios::binary).read(bytes, sizeof(own)))
    continue;
  return all;
}

class Pair {
public:
  Pair(int ownRank, const std::string &address, const std::string &folder) : rank(ownRank) {
    tcp::TcpOptions options;
    options.rank = rank;
    options.numRanks = 2;
    options.listenAt = address;
    Result<std::unique_ptr<tcp::TcpTransport>> made = tcp::TcpTransport::create(options);
    require(made.status());
    transport = std::move(made).value();
    require(transport->connect(exchange(folder, rank, transport->endpoint())));
    require(
        transport->registerMemory({1, {{landing.data(), landing.size()}}, {true, true}, cells.data(), 1, 1, false}));
  }

  void send(uint64_t count) {
    require(transport->put({1 - rank, 0}, {1, 0, 0}, &count, sizeof(count)));
    require(transport->signal({1 - rank, 0}, {1, 0, count}));
    require(transport->flush(0));
  }

  void receive(uint64_t count) {
    while (!cells[static_cast<size_t>(1 - rank)].hasReached(count))
      require(transport->progress());
    if (std::memcmp(landing.data(), &count, sizeof(count)) != 0)
      require(Status(StatusCode::Mismatch, "the signal came before the data"));
  }

private:
  int rank;
  std::array<std::byte, sizeof(uint64_t)> landing = {};
  std::vector<Cell> cells = std::vector<Cell>(2);
  std::unique_ptr<tcp::TcpTransport> transport;
};

/// Two connected sockets without anything of Kolo's in between.
class BarePair {
public:
  BarePair(int ownRank, const std::string &address, const std::string &folder) : rank(ownRank) {
    tcp::HostAddress where;
    Result<Socket> listener = tcp::listenAtHost(address, where);
    require(listener.status());
    std::array<Endpoint, 2> both = exchange(folder, rank, write(where));
    tcp::HostAddress other = *tcp::parseEndpoint(both[static_cast<size_t>(1 - rank)]);
    sockaddr_in target = {};
    target.sin_family = AF_INET;
    target.sin_port = htons(other.port);
    std::memcpy(&target.sin_addr, other.host.data(), sizeof(target.sin_addr));
    if (rank == 1) {
      socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(socket.descriptor(), reinterpret_cast<sockaddr *>(&target), sizeof(target)) != 0)
        require(Status(StatusCode::SystemError, "connect"));
    }
    while (rank == 0 && !socket.isOpen())
      socket = Socket(accept4(listener->descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    int yes = 1;
    setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  }

  void send(uint64_t count) {
    std::memcpy(bytes.data(), &count, sizeof(count));
    if (::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
      require(Status(StatusCode::SystemError, "send"));
  }

  void receive(uint64_t count) {
    for (size_t number = 0; number < bytes.size();)
      number += static_cast<size_t>(
          std::max<ssize_t>(recv(socket.descriptor(), bytes.data() + number, bytes.size() - number, MSG_DONTWAIT), 0));
    if (std::memcmp(bytes.data(), &count, sizeof(count)) != 0)
      require(Status(StatusCode::Mismatch, "wrong bytes"));
  }

private:
  int rank;
  Socket socket;
  std::array<std::byte, tcp::messageBytes + sizeof(uint64_t)> bytes = {};
};

template <class AnyPair> void measure(const char *what, int rank, AnyPair &pair) {
  std::vector<double> times;
  uint64_t count = 0;
  for (int turn = 0; turn < numTurns; ++turn) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < turnsOfOne; ++i) {
      ++count;
      if (rank == 0)
        pair.send(count);
      pair.receive(count);
      if (rank == 1)
        pair.send(count);
    }
    std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    times.push_back(taken.count() / (2 * turnsOfOne));
  }
  std::ranges::sort(times);
  if (rank == 0)
    std::printf("%s, one way: least %.2f us, median %.2f us\n", what, times.front(), times[times.size() / 2]);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "kolo-bench-one-way RANK ADDRESS FOLDER\n");
    return 2;
  }
  int rank = std::atoi(argv[1]);
  for (int round = 0; round < 3; ++round) { // taking turns
    std::string folder = std::string(argv[3]) + "/round" + std::to_string(round);
    for (const char *part : {"-put", "-bare"})
      mkdir((folder + part).c_str(), 0700);
    Pair pair(rank, argv[2], folder + "-put");
    measure("put and signal", rank, pair);
    BarePair bare(rank, argv[2], folder + "-bare");
    measure("bare sockets", rank, bare);
  }
  return 0;
}
