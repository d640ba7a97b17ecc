// Worlds with a secret: who does not know it joins none of their connections, whatever he has heard.
#include "Support.h"

#include "bootstrap/RendezvousAcceptor.h"
#include "bootstrap/Secret.h"
#include "network/tcp/TcpTransport.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace kolo::test {
namespace {

using tcp::greetingBytes;
using tcp::HostAddress;
using tcp::parseEndpoint;

constexpr const char *secretText = "a secret of the tests";

Socket connectTo(int port) {
  sockaddr_in target = {};
  target.sin_family = AF_INET;
  target.sin_port = htons(static_cast<uint16_t>(port));
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Socket opened(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(opened.descriptor(), reinterpret_cast<sockaddr *>(&target), sizeof(target)), 0);
  return opened;
}

void say(const Socket &socket, std::span<const std::byte> bytes) {
  (void)!send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

/// What comes until the other side closes or is silent for a while.
std::vector<std::byte> listenTo(Socket &socket, size_t mostBytes) {
  std::vector<std::byte> bytes(mostBytes);
  timeval longest = {2, 0};
  setsockopt(socket.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof(longest));
  ssize_t got = recv(socket.descriptor(), bytes.data(), bytes.size(), MSG_WAITALL);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

tcp::TcpOptions optionsOf(int rank, const OptionalKey &key, int timeoutMs = 20'000) {
  tcp::TcpOptions options;
  options.rank = rank;
  options.numRanks = 2;
  options.timeoutMs = timeoutMs;
  options.world.fill(std::byte(7));
  options.key = key;
  options.listenAt = "127.0.0.1";
  return options;
}

class Secrets : public testing::Test {
protected:
  void SetUp() override {
    if (!Key::isSupported())
      GTEST_SKIP() << "built without libsodium (Debian: libsodium-dev)";
    key = Key::ofSecret(secretText);
    other = Key::ofSecret("another secret, as long");
  }
  OptionalKey key, other;
};

/// Two ranks with these keys; returns what rank 0 and rank 1 said.
std::array<Status, 2> connectBoth(const OptionalKey &first, const OptionalKey &second, int timeoutMs) {
  auto zero = tcp::TcpTransport::create(optionsOf(0, first, timeoutMs)),
       one = tcp::TcpTransport::create(optionsOf(1, second, timeoutMs));
  std::array<Endpoint, 2> endpoints{(*zero)->endpoint(), (*one)->endpoint()};
  std::array<Status, 2> said;
  std::thread thread([&] { said[1] = (*one)->connect(endpoints); });
  said[0] = (*zero)->connect(endpoints);
  thread.join();
  return said;
}

TEST_F(Secrets, RanksWithOneKeyConnect) {
  auto said = connectBoth(key, key, 20'000);
  EXPECT_EQ(said[0].message() + said[1].message(), "");
}

TEST_F(Secrets, RanksWithTwoKeysOrOneDoNot) {
  for (const OptionalKey &wrong : {other, OptionalKey()})
    for (bool isSwapped : {false, true}) {
      auto said = isSwapped ? connectBoth(wrong, key, 300) : connectBoth(key, wrong, 300);
      EXPECT_EQ(said[0].code(), StatusCode::Timeout) << said[0].message();
      EXPECT_FALSE(said[1].isOk());
    }
}

TEST_F(Secrets, AGreetingThatIsRepeatedProvesNothing) {
  auto zero = tcp::TcpTransport::create(optionsOf(0, key)), again = tcp::TcpTransport::create(optionsOf(0, key, 1000));
  // Record what a true rank 1 says to rank 0: the test stands between them.
  int port = 0;
  Socket middle(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(own);
  ASSERT_EQ(bind(middle.descriptor(), reinterpret_cast<sockaddr *>(&own), bytes), 0);
  ASSERT_EQ(listen(middle.descriptor(), 4), 0);
  ASSERT_EQ(getsockname(middle.descriptor(), reinterpret_cast<sockaddr *>(&own), &bytes), 0);
  HostAddress where;
  where.port = ntohs(own.sin_port);
  std::memcpy(where.host.data(), &own.sin_addr, 4);
  auto one = tcp::TcpTransport::create(optionsOf(1, key));
  std::array<Endpoint, 2> endpoints{write(where), (*one)->endpoint()};
  std::array<Endpoint, 2> direct{(*zero)->endpoint(), (*one)->endpoint()};
  std::vector<std::byte> greeting, confirmation;
  std::thread rankOne([&] { EXPECT_EQ((*one)->connect(endpoints).message(), ""); });
  std::thread rankZero([&] { EXPECT_EQ((*zero)->connect(direct).message(), ""); });
  Socket fromOne(accept(middle.descriptor(), nullptr, nullptr));
  port = parseEndpoint((*zero)->endpoint())->port;
  Socket toZero = connectTo(port);
  greeting = listenTo(fromOne, greetingBytes);
  say(toZero, greeting);
  say(fromOne, listenTo(toZero, greetingBytes));
  confirmation = listenTo(fromOne, sizeof(SecretProof));
  say(toZero, confirmation);
  rankOne.join();
  rankZero.join();
  // The same bytes to the same rank of a world with the same number and key.
  Socket replay = connectTo(parseEndpoint((*again)->endpoint())->port);
  say(replay, greeting);
  say(replay, confirmation);
  std::array<Endpoint, 2> second{(*again)->endpoint(), (*one)->endpoint()};
  EXPECT_EQ(
      expectStatus((*again)->connect(second), StatusCode::Timeout, 1,
                   "strangers: 1, the last one was a connection that greeted as rank 1 and sent a wrong last proof"),
      "");
}

/// Rank 0's port, and what a rank says there.
struct Port {
  explicit Port(const OptionalKey &secret, Clock::time_point patienceUntil = Clock::time_point::min()) {
    Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(own);
    EXPECT_EQ(bind(listener.descriptor(), reinterpret_cast<sockaddr *>(&own), bytes), 0);
    EXPECT_EQ(::listen(listener.descriptor(), SOMAXCONN), 0);
    EXPECT_EQ(getsockname(listener.descriptor(), reinterpret_cast<sockaddr *>(&own), &bytes), 0);
    number = ntohs(own.sin_port);
    acceptor.emplace(std::move(listener), secret, 4, patienceUntil);
  }
  /// Hears what has been said.
  void listen() {
    for (int i = 0; i < 3; ++i) { // it accepts a connection, and hears it, and sees its end
      Clock::time_point until = Clock::now() + std::chrono::milliseconds(10);
      while (acceptor->listen(until, [](AdmittedConnection &, const Result<Hello> &) { return true; }))
        continue;
    }
  }
  int number = 0;
  std::optional<RendezvousAcceptor> acceptor;
};

/// A whole visit; returns what was said.
std::vector<std::byte> visit(Port &port, Socket &socket, const OptionalKey &key) {
  OpeningBytes opening = write(Opening{rendezvousVersion, 1, key.has_value(), makeNonce(key)});
  socket = connectTo(port.number);
  say(socket, opening);
  port.listen();
  std::vector<std::byte> heard = listenTo(socket, challengeBytes);
  EXPECT_EQ(heard.size(), challengeBytes);
  Result<Challenge> challenge = parseChallenge(std::span<const std::byte, challengeBytes>(heard));
  Hello hello{1, 4, 4711, {}, "k1"};
  HelloBytes helloText = write(hello);
  SecretProof proof = prove(key, helloLabel, {opening, challenge->nonce, helloText});
  std::vector<std::byte> rest(helloText.begin(), helloText.end());
  rest.insert(rest.end(), proof.begin(), proof.end());
  say(socket, rest);
  port.listen();
  std::vector<std::byte> all(opening.begin(), opening.end());
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

TEST_F(Secrets, TheRendezvousAdmitsWhoKnowsItOnce) {
  Port port(key);
  Socket rank, replay, stranger;
  std::vector<std::byte> said = visit(port, rank, key);
  EXPECT_EQ(port.acceptor->admitted().size(), 1u);
  replay = connectTo(port.number);
  say(replay, said);
  port.listen();
  EXPECT_EQ(port.acceptor->admitted().size(), 1u);
  visit(port, stranger, other);
  EXPECT_EQ(port.acceptor->admitted().size(), 1u);
  EXPECT_EQ(port.acceptor->describe({1}), "ranks disagree on KOLO_SECRET: rank 0 has one, rank 1 has another one or "
                                          "ended; or strangers came in their name");
}

TEST_F(Secrets, StrangersEndNoWorldThatIsPatient) {
  for (bool isPatient : {true, false}) {
    Port port(key, isPatient ? Clock::time_point::max() : Clock::time_point::min());
    std::vector<Socket> strangers;
    for (int rank = 1; rank < 4; ++rank) {
      strangers.push_back(connectTo(port.number));
      say(strangers.back(), write(Opening{rendezvousVersion, rank, false, {}}));
    }
    port.listen();
    EXPECT_EQ(port.acceptor->disagreement({1, 2, 3}).code(), isPatient ? StatusCode::Ok : StatusCode::Mismatch);
    EXPECT_NE(port.acceptor->describe({1, 2, 3}).find("rank 1, 2, 3 has none"), std::string::npos);
  }
}

TEST(Strangers, ThatAreSilentGoBeforeThoseWhoHaveOpened) {
  Port port({});
  Socket early = connectTo(port.number);
  say(early, write(Opening{rendezvousVersion, 1, false, {}}));
  port.listen();
  std::vector<Socket> silent;
  for (size_t i = 0; i < 2 * RendezvousAcceptor::minPending; ++i)
    silent.push_back(connectTo(port.number));
  port.listen();
  std::vector<std::byte> rest(helloBytes + sizeof(SecretProof));
  std::ranges::copy(write(Hello{1, 4, 4711, {}, "k1"}), rest.begin());
  say(early, rest);
  port.listen();
  EXPECT_EQ(port.acceptor->admitted().size(), 1u);
}

TEST_F(Secrets, AnyChangedByteOfAHelloIsRefused) {
  Port port(key);
  for (size_t at = 0; at < helloBytes + sizeof(SecretProof); at += 13) {
    Socket socket = connectTo(port.number);
    OpeningBytes opening = write(Opening{rendezvousVersion, 1, true, makeNonce(key)});
    say(socket, opening);
    port.listen();
    std::vector<std::byte> heard = listenTo(socket, challengeBytes);
    Result<Challenge> challenge = parseChallenge(std::span<const std::byte, challengeBytes>(heard));
    HelloBytes hello = write(Hello{1, 4, 4711, {}, "k1"});
    SecretProof proof = prove(key, helloLabel, {opening, challenge->nonce, hello});
    std::vector<std::byte> rest(hello.begin(), hello.end());
    rest.insert(rest.end(), proof.begin(), proof.end());
    rest[at] ^= std::byte(1);
    say(socket, rest);
    port.listen();
    EXPECT_TRUE(port.acceptor->admitted().empty()) << at;
  }
}

size_t countOpen() {
  std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

TEST(Strangers, AreFewHoweverManyCome) {
  Port port({});
  size_t before = countOpen();
  std::vector<Socket> strangers;
  for (int i = 0; i < 500; ++i) {
    strangers.push_back(connectTo(port.number));
    if (i % 3 == 0)
      say(strangers.back(), makeData(60, static_cast<unsigned>(i)));
    if (i % 3 == 1) // and no Hello
      say(strangers.back(), write(Opening{rendezvousVersion, i % 7, false, {}}));
    if (i % 100 == 99)
      port.listen();
  }
  EXPECT_LE(countOpen(), before + strangers.size() + RendezvousAcceptor::minPending);
  Socket rank;
  visit(port, rank, {});
  EXPECT_EQ(port.acceptor->admitted().size(), 1u);
  EXPECT_GE(port.acceptor->numStrangers(), 500 - RendezvousAcceptor::minPending);
}

TEST(Strangers, WithAWrongHelloInAnOpenWorldHaveNothingToDoWithSecrets) {
  Port port({});
  Socket socket = connectTo(port.number);
  say(socket, write(Opening{rendezvousVersion, 1, false, {}}));
  port.listen();
  std::vector<std::byte> rest(helloBytes + sizeof(SecretProof), std::byte(3)); // no proof of an open world
  std::ranges::copy(write(Hello{1, 4, 4711, {}, "k1"}), rest.begin());
  say(socket, rest);
  port.listen();
  EXPECT_TRUE(port.acceptor->admitted().empty());
  EXPECT_EQ(port.acceptor->describe({1}), "");
  EXPECT_TRUE(port.acceptor->disagreement({1}).isOk());
}

TEST(Strangers, OfAnotherVersionAreNamed) {
  Port port({});
  OpeningBytes opening = write(Opening{rendezvousVersion, 2, false, {}});
  opening[magicBytes] = std::byte(99);
  Socket socket = connectTo(port.number);
  say(socket, opening);
  port.listen();
  EXPECT_EQ(expectStatus(port.acceptor->disagreement({2}), StatusCode::Mismatch, 2,
                         "rank 2 speaks version 99 of the rendezvous, rank 0 version"),
            "");
  EXPECT_TRUE(port.acceptor->disagreement({2, 3}).isOk()); // rank 3 may still come
}

TEST(Strangers, OfAVersionBeforeTheOpeningAreNamedAndToldSo) {
  for (uint32_t version : {1, 2}) {
    Port port({});
    std::vector<std::byte> hello(helloBytes); // of these versions: magic, version, from version 2 on a byte order, rank
    std::ranges::copy(std::as_bytes(std::span("KOLOHELO", magicBytes)), hello.begin());
    hello[magicBytes] = std::byte(version);
    hello[magicBytes + (version == 1 ? 4 : 8)] = std::byte(2);
    Socket socket = connectTo(port.number);
    say(socket, hello);
    port.listen();
    EXPECT_EQ(expectStatus(port.acceptor->disagreement({2}), StatusCode::Mismatch, 2,
                           "rank 2 speaks version " + std::to_string(version) + " of the rendezvous, rank 0 version"),
              "");
    std::vector<std::byte> answer = listenTo(socket, welcomeBytes);
    ASSERT_EQ(answer.size(), welcomeBytes);
    EXPECT_EQ(std::memcmp(answer.data(), "KOLOWELC", magicBytes), 0);
    EXPECT_EQ(answer[magicBytes], std::byte(rendezvousVersion));
  }
}

/// Sets variables for a scope.
struct Variables {
  Variables(const char *secret, const char *file) {
    secret ? setenv("KOLO_SECRET", secret, 1) : unsetenv("KOLO_SECRET");
    file ? setenv("KOLO_SECRET_FILE", file, 1) : unsetenv("KOLO_SECRET_FILE");
  }
  ~Variables() {
    unsetenv("KOLO_SECRET");
    unsetenv("KOLO_SECRET_FILE");
  }
};

std::string readFailure(const char *secret, const char *file) {
  Variables variables(secret, file);
  return readSecret().status().message();
}

TEST(Secret, IsRefusedInABuildWithoutLibsodium) {
  if (Key::isSupported())
    GTEST_SKIP() << "built with libsodium";
  EXPECT_EQ(readFailure(secretText, nullptr),
            "KOLO_SECRET is set, but Kolo was built without libsodium, which it needs");
}

TEST_F(Secrets, AKeyLeavesNothingInMemory) {
  alignas(Key) std::array<std::byte, sizeof(Key)> memory;
  std::ranges::fill(memory, std::byte(1));
  Key *made = new (memory.data()) Key(*key);
  EXPECT_NE(memory, (std::array<std::byte, sizeof(Key)>{}));
  made->~Key();
  EXPECT_EQ(memory, (std::array<std::byte, sizeof(Key)>{}));
}

TEST_F(Secrets, AreReadFromVariableOrFileAlike) {
  std::string path = testing::TempDir() + "secret-" + std::to_string(getpid());
  std::ofstream(path) << secretText << "\n";
  chmod(path.c_str(), 0600);
  for (bool isFile : {false, true}) {
    Variables variables(isFile ? nullptr : secretText, isFile ? path.c_str() : nullptr);
    Result<OptionalKey> read = readSecret();
    ASSERT_EQ(read.status().message(), "");
    EXPECT_EQ(prove(*read, "x", {}), prove(key, "x", {}));
  }
  for (mode_t mode : {0640, 0604, 0660, 0602}) {
    chmod(path.c_str(), mode);
    EXPECT_NE(readFailure(nullptr, path.c_str()).find("is open to others than its owner"), std::string::npos) << mode;
  }
  chmod(path.c_str(), 0400);
  EXPECT_EQ(readFailure(nullptr, path.c_str()), "");
  chmod(path.c_str(), 0600);
  std::ofstream(path) << std::string(4096, 'x') << "\r\n";
  EXPECT_EQ(readFailure(nullptr, path.c_str()), "");
  std::ofstream(path) << std::string(4096, 'x') << "\n\n\nmore";
  EXPECT_NE(readFailure(nullptr, path.c_str()).find("has 4103 bytes, more than 4096"), std::string::npos);
  unlink(path.c_str());
  EXPECT_NE(readFailure(nullptr, path.c_str()).find("No such file"), std::string::npos);
  EXPECT_NE(readFailure(nullptr, "/tmp").find("is no file"), std::string::npos);
}

TEST_F(Secrets, ThatCannotBeUsedAreNamedAndNotShown) {
  EXPECT_EQ(readFailure(nullptr, nullptr), "");
  EXPECT_EQ(readFailure("short", nullptr), "the secret of KOLO_SECRET has 5 bytes, not between 16 and 4096");
  EXPECT_EQ(readFailure(std::string(5000, 'x').c_str(), nullptr),
            "the secret of KOLO_SECRET has 5000 bytes, not between 16 and 4096");
  EXPECT_EQ(readFailure(secretText, "/dev/null"), "KOLO_SECRET and KOLO_SECRET_FILE are both set");
}

} // namespace
} // namespace kolo::test
