// The TCP transport among processes that do not keep to its protocol.
#include "Support.h"

#include "network/Socket.h"
#include "network/tcp/ConnectionSetup.h"
#include "network/tcp/TcpTransport.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <thread>

namespace kolo::test {
namespace {

using namespace kolo::runtime::tcp;

TcpOptions optionsOf(int rank, int numRanks, int timeoutMs = 20'000) {
  TcpOptions options;
  options.rank = rank;
  options.numRanks = numRanks;
  options.timeoutMs = timeoutMs;
  options.world.fill(std::byte(7));
  options.listenAt = "127.0.0.1";
  return options;
}

Hello helloFrom(uint32_t rank, uint32_t peer, uint32_t numRanks) {
  Hello hello{1, 0, rank, peer, numRanks, {}};
  hello.world.fill(std::byte(7));
  return hello;
}

/// All that the opener of a connection says in an open world: its nonce and its proofs are zeros.
std::vector<std::byte> greet(const Hello &hello) {
  HelloBytes bytes = write(hello);
  std::vector<std::byte> all(bytes.begin(), bytes.end());
  all.resize(greetingBytes + sizeof(SecretProof));
  return all;
}

Socket connectTo(const Endpoint &endpoint) {
  Result<HostAddress> address = parseEndpoint(endpoint);
  sockaddr_in target = {};
  target.sin_family = AF_INET;
  target.sin_port = htons(address->port);
  std::memcpy(&target.sin_addr, address->host.data(), 4);
  Socket opened(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(opened.descriptor(), reinterpret_cast<sockaddr *>(&target), sizeof(target)), 0);
  return opened;
}

void sendBytes(const Socket &socket, std::span<const std::byte> bytes) {
  (void)!send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

/// Rank 0 of 2 with registered memory, and a rank 1 that says whatever the test wants.
struct Scene {
  explicit Scene(size_t sizeBytes = 256) : landing(sizeBytes, 2) {
    Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(optionsOf(0, 2));
    victim = std::move(made).value();
    peer = connectTo(victim->endpoint());
    sendBytes(peer, greet(helloFrom(1, 0, 2)));

    std::array<Endpoint, 2> endpoints{victim->endpoint(), victim->endpoint()};
    EXPECT_EQ(victim->connect(endpoints).message(), "");
    EXPECT_TRUE(victim->registerMemory(landing.registration(1)).isOk());
  }
  Landing landing;
  std::unique_ptr<TcpTransport> victim;
  Socket peer;
};

TEST(TcpStrangers, TheWorldStartsAmongThem) {
  std::vector<std::unique_ptr<TcpTransport>> ranks;
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < 3; ++rank) {
    Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(optionsOf(rank, 3));
    ranks.push_back(std::move(made).value());
    endpoints.push_back(ranks.back()->endpoint());
  }
  std::vector<Socket> strangers;
  auto addStranger = [&](int rank, std::span<const std::byte> bytes) {
    strangers.push_back(connectTo(endpoints[static_cast<size_t>(rank)]));
    sendBytes(strangers.back(), bytes);
  };
  Hello otherWorld = helloFrom(1, 0, 3), otherSize = helloFrom(1, 0, 4), toOther = helloFrom(2, 1, 3);
  otherWorld.world[15] = std::byte(8);
  HelloBytes ones;
  std::vector<std::byte> right = greet(helloFrom(1, 0, 3));
  ones.fill(std::byte(0xff));
  for (int rank = 0; rank < 2; ++rank) {
    addStranger(rank, {});                              // silent
    addStranger(rank, makeData(5000, 1));               // garbage
    addStranger(rank, ones);                            // largest lengths
    addStranger(rank, std::span(right).subspan(0, 20)); // a truncated hello, and silence
    addStranger(rank, std::span(right).subspan(0, 47)); // a truncated hello, and the end
    strangers.pop_back();
    addStranger(rank, std::span(right).subspan(0, greetingBytes)); // all but the last proof
    addStranger(rank, greet(otherWorld));
    addStranger(rank, greet(otherSize));
  }
  addStranger(0, greet(toOther));
  for (int i = 0; i < 300; ++i) // more than may be silent
    addStranger(0, {});
  std::vector<std::thread> threads;
  for (auto &rank : ranks)
    threads.emplace_back([&] { EXPECT_EQ(rank->connect(endpoints).message(), ""); });
  for (std::thread &thread : threads)
    thread.join();
  Landing landing(16, 3);
  EXPECT_TRUE(ranks[0]->registerMemory(landing.registration(1)).isOk());
  for (int rank = 1; rank < 3; ++rank) {
    EXPECT_TRUE(ranks[static_cast<size_t>(rank)]->signal({0, 0}, {1, 0, 1}).isOk());
    Cell &cell = landing.cell(0, 0, rank);
    while (!cell.hasReached(1))
      ASSERT_EQ(ranks[0]->idle(cell, 1, Clock::now() + std::chrono::seconds(1)).message(), "");
  }
}

TEST(TcpStrangers, ATimeoutTellsOfThem) {
  Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(optionsOf(0, 2, 300));
  Socket stranger = connectTo((*made)->endpoint());
  sendBytes(stranger, makeData(100, 1));
  std::array<Endpoint, 2> endpoints{(*made)->endpoint(), (*made)->endpoint()};
  EXPECT_EQ(expectStatus((*made)->connect(endpoints), StatusCode::Timeout, 1,
                         "rank 1: timed out; strangers: 1, the last one was a connection that does not speak"),
            "");
}

TEST(TcpStrangers, AnOlderVersionIsNamedThoughItSaysLess) {
  Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(optionsOf(0, 2, 300));
  Socket older = connectTo((*made)->endpoint());
  HelloBytes hello = write(helloFrom(1, 0, 2));
  hello[8] = std::byte(2);
  sendBytes(older, hello); // no nonce and no proof
  std::array<Endpoint, 2> endpoints{(*made)->endpoint(), (*made)->endpoint()};
  EXPECT_EQ(expectStatus((*made)->connect(endpoints), StatusCode::Timeout, 1,
                         "strangers: 1, the last one was version 2 of the network protocol, not version 3"),
            "");
}

TEST(TcpStrangers, OnlySoManyMayBeSilent) {
  Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(optionsOf(0, 2, 1500)); // less than maxSilence
  std::vector<Socket> strangers;
  for (size_t i = 0; i < ConnectionSetup::maxSilent + 45; ++i) // one place is missing
    strangers.push_back(connectTo((*made)->endpoint()));
  std::array<Endpoint, 2> endpoints{(*made)->endpoint(), (*made)->endpoint()};
  EXPECT_EQ(expectStatus((*made)->connect(endpoints), StatusCode::Timeout, 1, "strangers: 44, the last one was"), "");
}

TEST(TcpStrangers, AllRanksMayGreetBeforeOneConfirms) {
  constexpr int numRanks = 302; // more than may be silent
  Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(optionsOf(0, numRanks));
  std::vector<Endpoint> endpoints(numRanks, (*made)->endpoint());
  std::vector<Socket> peers;
  for (uint32_t rank = 1; rank < numRanks; ++rank) {
    peers.push_back(connectTo((*made)->endpoint()));
    std::vector<std::byte> greeting = greet(helloFrom(rank, 0, numRanks));
    sendBytes(peers.back(), std::span(greeting).first(greetingBytes));
  }
  std::thread victim([&] { EXPECT_EQ((*made)->connect(endpoints).message(), ""); });
  tcp::GreetingBytes answer = {};
  for (const Socket &peer : peers)
    EXPECT_EQ(recv(peer.descriptor(), answer.data(), answer.size(), MSG_WAITALL), ssize_t(answer.size()));
  for (const Socket &peer : peers)
    sendBytes(peer, SecretProof());
  victim.join();
}

TEST(TcpStrangers, RepeatedGreetingsAreFewAndKeepNoOtherRankOut) {
  Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(optionsOf(0, 3, 1500)); // less than maxSilence
  std::vector<Endpoint> endpoints(3, (*made)->endpoint());
  std::vector<Socket> repeated;
  std::vector<std::byte> greeting = greet(helloFrom(1, 0, 3));
  for (size_t i = 0; i < 2 + ConnectionSetup::maxRepeated + 10; ++i) {
    repeated.push_back(connectTo((*made)->endpoint()));
    sendBytes(repeated.back(), std::span(greeting).first(greetingBytes));
  }
  Socket other = connectTo((*made)->endpoint());
  sendBytes(other, greet(helloFrom(2, 0, 3)));
  EXPECT_EQ(expectStatus((*made)->connect(endpoints), StatusCode::Timeout, 1,
                         "with rank 1: timed out; strangers: 10, the last one was one of many"),
            "");
}

TEST(TcpStrangers, KeepNoRankOutWhenNoDescriptorIsLeft) {
  Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(optionsOf(0, 2, 4000)); // less than maxSilence
  std::vector<Socket> strangers;
  for (int i = 0; i < 50; ++i)
    strangers.push_back(connectTo((*made)->endpoint()));
  Socket peer = connectTo((*made)->endpoint());
  sendBytes(peer, greet(helloFrom(1, 0, 2)));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = {static_cast<rlim_t>(peer.descriptor()) + 9, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::array<Endpoint, 2> endpoints{(*made)->endpoint(), (*made)->endpoint()};
  EXPECT_EQ((*made)->connect(endpoints).message(), "");
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(TcpStrangers, ARankThatIsAnsweredByAnotherProcessSaysSo) {
  Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(optionsOf(1, 2, 5000));
  HostAddress where;
  Result<Socket> listener = [&]() -> Result<Socket> {
    Socket opened(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(own);
    EXPECT_EQ(bind(opened.descriptor(), reinterpret_cast<sockaddr *>(&own), bytes), 0);
    EXPECT_EQ(listen(opened.descriptor(), 8), 0);
    EXPECT_EQ(getsockname(opened.descriptor(), reinterpret_cast<sockaddr *>(&own), &bytes), 0);
    where.port = ntohs(own.sin_port);
    std::memcpy(where.host.data(), &own.sin_addr, 4);
    return opened;
  }();
  std::thread other([&] {
    Socket accepted(accept(listener->descriptor(), nullptr, nullptr));
    sendBytes(accepted, makeData(200, 1));
    std::array<std::byte, tcp::greetingBytes> ignored;
    while (recv(accepted.descriptor(), ignored.data(), ignored.size(), 0) > 0) // until the rank ends it
      continue;
  });
  std::array<Endpoint, 2> endpoints{write(where), (*made)->endpoint()};
  EXPECT_EQ(expectStatus((*made)->connect(endpoints), StatusCode::Mismatch, 0,
                         "the process that answers for rank 0 is not that rank"),
            "");
  other.join();
}

TEST(TcpStrangers, BadOptionsAndEndpointsAreNamed) {
  TcpOptions options = optionsOf(0, 2);
  options.listenAt = "nowhere.example";
  EXPECT_NE(TcpTransport::create(options).status().message().find("'nowhere.example' is not a numeric address"),
            std::string::npos);
  options.listenAt = "192.0.2.1"; // an address of documentation: of no host
  EXPECT_EQ(TcpTransport::create(options).status().code(), StatusCode::SystemError);
  Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(optionsOf(1, 2));
  std::array<Endpoint, 2> endpoints{};
  endpoints[0][0] = std::byte(1); // an empty one would ask for no connection
  EXPECT_EQ(expectStatus((*made)->connect(endpoints), StatusCode::InvalidArgument, 0, "rank 0 gave an endpoint"), "");
}

TEST(TcpStrangers, APeerThatSpeaksGarbageIsAMismatch) {
  Scene scene;
  sendBytes(scene.peer, makeData(100, 2));
  Status status;
  while (status.isOk())
    status = scene.victim->progress();
  EXPECT_EQ(expectStatus(status, StatusCode::Mismatch, 1, "rank 1 sent version"), "");
  EXPECT_TRUE(scene.landing.isUntouched());
}

TEST(TcpStrangers, ALengthOf2To63IsAMismatch) {
  Scene scene;
  Message message{MessageKind::Put, 0, 1, 0, uint64_t(1) << 63, 0, 0, 0};
  sendBytes(scene.peer, write(message));
  sendBytes(scene.peer, makeData(1000, 2));
  Status status;
  while (status.isOk())
    status = scene.victim->progress();
  EXPECT_EQ(expectStatus(status, StatusCode::Mismatch, 1, "9223372036854775808 bytes"), "");
  EXPECT_TRUE(scene.landing.isUntouched());
}

TEST(TcpStrangers, APeerThatEndsInTheMiddleOfAMessageIsLost) {
  Message message{MessageKind::PutAndSignal, 0, 1, 0, 256, 0, 0, 1, 1};
  for (size_t numBytes : {1, 47, 48, 100}) {
    Scene scene;
    std::vector<std::byte> bytes(messageBytes + 256);
    std::ranges::copy(write(message), bytes.begin());
    sendBytes(scene.peer, std::span(bytes).subspan(0, numBytes));
    scene.peer = {};
    Status status;
    while (status.isOk())
      status = scene.victim->progress();
    EXPECT_EQ(expectStatus(status, StatusCode::PeerLost, 1, "rank 1"), "") << numBytes;
    EXPECT_FALSE(scene.landing.cell(0, 0, 1).hasReached(1));
  }
}

TEST(TcpStrangers, AMessageMayArriveByteByByte) {
  Scene scene;
  std::vector<std::byte> data = makeData(100, 3);
  for (uint64_t round = 1; round <= 3; ++round) {
    Message message{MessageKind::PutAndSignal, 0, 1, 4, 100, 0, 0, round, 1};
    MessageBytes header = write(message);
    std::vector<std::byte> bytes(header.begin(), header.end());
    bytes.insert(bytes.end(), data.begin(), data.end());
    for (const std::byte &byte : bytes) {
      sendBytes(scene.peer, {&byte, 1});
      ASSERT_TRUE(scene.victim->progress().isOk());
    }
    while (!scene.landing.cell(0, 0, 1).hasReached(round))
      ASSERT_TRUE(scene.victim->progress().isOk());
    EXPECT_EQ(std::memcmp(scene.landing.data() + 4, data.data(), data.size()), 0);
  }
}

TEST(TcpStrangers, ALaneOnAnotherConnectionThanItsOwnIsAMismatch) {
  TcpOptions options = optionsOf(0, 2);
  options.connectionsPerPeer = 2;
  Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(options);
  std::array<Socket, 2> sockets;
  for (uint16_t number = 0; number < 2; ++number) {
    sockets[number] = connectTo((*made)->endpoint());
    Hello hello = helloFrom(1, 0, 2);
    hello.numConnections = 2;
    hello.connection = number;
    sendBytes(sockets[number], greet(hello));
  }
  std::array<Endpoint, 2> endpoints{(*made)->endpoint(), (*made)->endpoint()};
  ASSERT_EQ((*made)->connect(endpoints).message(), "");
  sendBytes(sockets[1], write(Message{MessageKind::Signal, 0, 0, 0, 0, 2, 0, 1, 1}));
  Status status;
  while (status.isOk())
    status = (*made)->progress();
  EXPECT_EQ(expectStatus(status, StatusCode::Mismatch, 1, "connection 1 of 2 for lane 2"), "");
}

/// Streams of messages of which some are damaged: whatever comes, nothing is written but registered memory.
TEST(TcpStrangers, NoStreamOfBytesWritesOutsideOfWhatIsRegistered) {
  std::mt19937 random(30);
  size_t numRaised = 0, numMismatches = 0, numLost = 0;
  for (int i = 0; i < 400; ++i) {
    Scene scene;
    std::vector<std::byte> stream;
    for (uint64_t count = 1; count <= 6; ++count) {
      uint64_t offset = random() % 260, sizeBytes = 1 + random() % 250;
      Message message{MessageKind::PutAndSignal,
                      0,
                      1,
                      offset,
                      std::min(sizeBytes, 256 - std::min<uint64_t>(offset, 255)),
                      0,
                      0,
                      count,
                      1};
      message.offsetBytes = std::min<uint64_t>(offset, 256 - message.sizeBytes);
      MessageBytes header = write(message);
      if (random() % 8 == 0)
        header[random() % messageBytes] ^= static_cast<std::byte>(1u << random() % 8);
      stream.insert(stream.end(), header.begin(), header.end());
      std::vector<std::byte> data = makeData(message.sizeBytes, static_cast<unsigned>(random()));
      stream.insert(stream.end(), data.begin(), data.end());
    }
    for (size_t at = 0; at < stream.size();) { // in pieces of any size
      size_t numBytes = std::min<size_t>(stream.size() - at, 1 + random() % 400);
      sendBytes(scene.peer, std::span(stream).subspan(at, numBytes));
      (void)scene.victim->progress();
      at += numBytes;
    }
    scene.peer = {};
    Status status;
    // A damaged agreement may be an early one: then the connection waits, and nothing more is read from it.
    for (int look = 0; look < 50 && status.isOk(); ++look)
      status = scene.victim->progress();
    numMismatches += status.code() == StatusCode::Mismatch;
    numLost += status.code() == StatusCode::PeerLost;
    numRaised += scene.landing.cell(0, 0, 1).hasReached(1);
    ASSERT_TRUE(scene.landing.isUntouchedAfter(256)) << i;
  }
  EXPECT_GT(numMismatches, 50u);
  EXPECT_GT(numLost, 50u);
  EXPECT_GT(numRaised, 200u);
}

/// Rank 0 of 2, and a rank 1 that reads nothing: one connection for data, one for mail.
struct DeafScene {
  static constexpr size_t numMails = 640; // 10 MiB: more than the kernel holds
  DeafScene() {
    TcpOptions options = optionsOf(0, 2);
    options.receiveMail = [this](int, std::span<const std::byte>) {
      ++numHeard;
      return Status();
    };
    options.mustStop = [this] { return isAborted; };
    Result<std::unique_ptr<TcpTransport>> made = TcpTransport::create(options);
    rank = std::move(made).value();
    for (uint16_t number = 0; number < 2; ++number) {
      Hello hello = helloFrom(1, 0, 2);
      hello.numConnections = 2;
      hello.connection = number;
      hello.hasMail = true;
      peer[number] = connectTo(rank->endpoint());
      const int heldBytes = 1 << 20; // twice as much; of the sender, 4 MiB
      EXPECT_EQ(setsockopt(peer[number].descriptor(), SOL_SOCKET, SO_RCVBUF, &heldBytes, sizeof(heldBytes)), 0);
      sendBytes(peer[number], greet(hello));
    }
    std::array<Endpoint, 2> endpoints{rank->endpoint(), rank->endpoint()};
    EXPECT_EQ(rank->connect(endpoints).message(), "");
  }
  bool isAborted = false;
  int numHeard = 0; // mails that came to rank 0
  std::unique_ptr<TcpTransport> rank;
  std::array<Socket, 2> peer;
};

TEST(TcpLeave, TheGoodbyeFollowsWhatTheKernelDoesNotTakeAtOnce) {
  for (bool isAborted : {false, true}) {
    DeafScene scene;
    std::vector<std::byte> mail = makeData(maxMailBytes, 5);
    for (size_t i = 0; i < DeafScene::numMails; ++i)
      ASSERT_EQ(scene.rank->mail(1, mail).message(), "");
    scene.isAborted = isAborted;
    std::thread leaver([&] { scene.rank.reset(); });
    std::vector<std::byte> all;
    std::vector<std::byte> part(1 << 20);
    for (ssize_t got = 0; (got = recv(scene.peer[1].descriptor(), part.data(), part.size(), 0)) > 0;)
      all.insert(all.end(), part.begin(), part.begin() + got);
    leaver.join();
    ASSERT_EQ(all.size(), greetingBytes + DeafScene::numMails * (messageBytes + maxMailBytes) + messageBytes)
        << isAborted;
    Result<Message> last = parseMessage(std::span<const std::byte>(all).last<messageBytes>());
    ASSERT_TRUE(last.isOk());
    EXPECT_EQ(last->kind, MessageKind::Goodbye);
  }
}

TEST(TcpLeave, AfterAFailureDoesNotWaitForAPeerThatTakesNothing) {
  DeafScene scene;
  std::vector<std::byte> mail = makeData(maxMailBytes, 5);
  for (size_t i = 0; i < DeafScene::numMails; ++i)
    ASSERT_EQ(scene.rank->mail(1, mail).message(), "");
  scene.isAborted = true;
  Clock::time_point start = Clock::now();
  scene.rank.reset();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(3));
}

TEST(TcpLeave, TheLastMailOfAPeerIsReadBeforeItsEndIsAFailure) {
  DeafScene scene;
  std::vector<std::byte> mail(messageBytes + 1); // in one packet
  std::ranges::copy(write(Message{MessageKind::Mail, 0, 0, 0, 1, 0, 0, 0, 0}), mail.begin());
  sendBytes(scene.peer[1], mail);
  scene.peer[0] = {};
  Status status;
  while (status.isOk())
    status = scene.rank->progress();
  EXPECT_EQ(expectStatus(status, StatusCode::PeerLost, 1, "rank 1"), "");
  EXPECT_EQ(scene.numHeard, 1);
}

TEST(TcpLeave, DoesNotWaitForAHostThatIsCutOff) {
  std::vector<std::byte> data(64 << 20);
  DeafScene scene;
  ASSERT_EQ(scene.rank->put({1, 0}, {1, 0, 0}, data.data(), data.size()).message(), "");
  ASSERT_EQ(scene.rank->signal({1, 0}, {1, 0, 1}).message(), ""); // the kernel takes some of it, and keeps that
  linger reset = {1, 0};
  ASSERT_EQ(setsockopt(scene.peer[1].descriptor(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
  scene.peer[1] = {}; // the connection for mail breaks, as if the keep-alive had found nobody
  Clock::time_point start = Clock::now();
  scene.rank.reset();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

} // namespace
} // namespace kolo::test
