// ConnectionSetup among processes that greet and go no further, or answer and go on too late.
#include "Support.h"

#include "network/tcp/ConnectionSetup.h"
#include "network/tcp/SocketAddress.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/socket.h>

#include <optional>
#include <thread>

namespace kolo::test {
namespace {

using namespace kolo::runtime::tcp;

constexpr std::chrono::milliseconds silence{300};

/// A rank of two that may be connected later, and the listener of its peer, where the test answers.
struct Meeting {
  explicit Meeting(uint32_t rank) {
    HostAddress address;
    Socket own = std::move(listenAtHost("127.0.0.1", address)).value();
    std::vector<Endpoint> endpoints(2);
    endpoints[rank] = write(address);
    ownPlace = toSocketAddress(address);
    peerListener = std::move(listenAtHost("127.0.0.1", address)).value();
    endpoints[1 - rank] = write(address);
    SetupOptions options;
    options.self.rank = rank;
    options.self.numRanks = 2;
    options.mayComeLater = true;
    options.maxSilence = silence;
    setup.emplace(options, std::move(own), endpoints);
    helloOfPeer.rank = 1 - rank;
    helloOfPeer.peer = rank;
    helloOfPeer.numRanks = 2;
  }

  /// Does what is possible, and waits a moment until more is.
  void look() {
    std::vector<pollfd> entries;
    if (!setup->addTo(entries))
      waitForAny(entries, Clock::now() + std::chrono::milliseconds(2));
    const Clock::time_point now = Clock::now();
    isLate |= now - std::exchange(lastLook, now) >= silence / 3;
    std::vector<Established> found;
    std::vector<Status> failed;
    setup->progress(found, failed);
    for (Established &one : found)
      met.push_back(std::move(one));
    failures.insert(failures.end(), failed.begin(), failed.end());
  }
  /// What is met and what fails in this time.
  void work(std::chrono::milliseconds time) {
    const Clock::time_point until = Clock::now() + time;
    do
      look();
    while (Clock::now() < until);
  }
  /// Works until it is so.
  template <class Condition> bool workUntil(const Condition &isSo) {
    for (Clock::time_point until = Clock::now() + std::chrono::seconds(20); Clock::now() < until; look())
      if (isSo())
        return true;
    return false;
  }
  /// Works until the other end has sent so much.
  bool hears(const Socket &socket, size_t sizeBytes) {
    std::vector<std::byte> bytes(sizeBytes);
    return workUntil([&] {
      return recv(socket.descriptor(), bytes.data(), sizeBytes, MSG_PEEK | MSG_DONTWAIT) == ssize_t(sizeBytes);
    });
  }

  /// A connection that this rank opened to its peer; not open if there is none.
  Socket accepted() { return Socket(accept4(peerListener->descriptor(), nullptr, nullptr, SOCK_CLOEXEC)); }
  Socket connectToOwn() {
    Socket opened(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(opened.descriptor(), ownPlace.get(), ownPlace.sizeBytes), 0);
    return opened;
  }
  /// A Hello of the peer in an open world, in which nonces and proofs are zeros.
  void greet(const Socket &socket) const {
    GreetingBytes bytes = {};
    std::ranges::copy(write(helloOfPeer), bytes.begin());
    EXPECT_EQ(send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  void answer(const Socket &socket) {
    GreetingBytes theirs = {};
    EXPECT_TRUE(hears(socket, theirs.size()));
    EXPECT_EQ(recv(socket.descriptor(), theirs.data(), theirs.size(), 0), ssize_t(theirs.size()));
    isLate = false;
    greet(socket);
  }
  /// A stranger that greets as the peer, and is answered.
  Socket addStranger() {
    Socket stranger = connectToOwn();
    greet(stranger);
    return stranger;
  }
  /// Answers this connection, and those that follow where the rank took an answer for too old.
  void meet(Socket own) {
    answer(own);
    EXPECT_TRUE(workUntil([&] {
      if (Socket next = accepted(); next.isOpen()) {
        EXPECT_TRUE(isLate);
        own = std::move(next);
        answer(own);
      }
      return !met.empty();
    }));
    EXPECT_EQ(met.size(), 1u);
    EXPECT_TRUE(failures.empty());
  }

  Hello helloOfPeer;
  SocketAddress ownPlace;
  std::optional<Socket> peerListener;
  bool isLate = false; // this process was stopped for long since it last answered
  Clock::time_point lastLook = Clock::now();
  std::optional<ConnectionSetup> setup;
  std::vector<Established> met;
  std::vector<Status> failures;
};

TEST(ConnectionSetup, AStrangerThatGreetsAsARankKeepsItOutForAShortTimeOnly) {
  for (uint32_t rank : {0, 1}) {
    Meeting meeting(rank);
    const Clock::time_point start = Clock::now();
    Socket stranger = meeting.addStranger();
    ASSERT_TRUE(meeting.hears(stranger, greetingBytes));
    meeting.setup->want(static_cast<int>(1 - rank));
    Socket own;
    ASSERT_TRUE(meeting.workUntil([&] { return (own = meeting.accepted()).isOpen(); }));
    EXPECT_GE(Clock::now() - start, silence); // a rank that greets gets its time
    meeting.meet(std::move(own));
  }
}

TEST(ConnectionSetup, StrangersThatGreetAsARankWithoutAGapKeepItOutForAShortTimeOnly) {
  for (uint32_t rank : {0, 1}) {
    Meeting meeting(rank);
    std::vector<Socket> strangers;
    Socket own;
    const Clock::time_point start = Clock::now();
    Clock::time_point next = start;
    strangers.push_back(meeting.addStranger());
    ASSERT_TRUE(meeting.hears(strangers.back(), greetingBytes));
    meeting.setup->want(static_cast<int>(1 - rank));
    ASSERT_TRUE(meeting.workUntil([&] {
      if (Clock::now() >= next) { // the one before has time left
        strangers.push_back(meeting.addStranger());
        next = Clock::now() + silence / 3;
      }
      return (own = meeting.accepted()).isOpen();
    })) << rank;
    EXPECT_GE(Clock::now() - start, silence);
    meeting.meet(std::move(own));
  }
}

TEST(ConnectionSetup, AnAnswerThatIsFoundTooLateIsNotBelieved) {
  Meeting meeting(1);
  meeting.setup->want(0);
  Socket late;
  ASSERT_TRUE(meeting.workUntil([&] { return (late = meeting.accepted()).isOpen(); }));
  meeting.answer(late);
  std::this_thread::sleep_for(silence); // the rank computes
  late = {};                            // and its peer gave up
  Socket second;
  ASSERT_TRUE(meeting.workUntil([&] { return (second = meeting.accepted()).isOpen(); }));
  EXPECT_TRUE(meeting.met.empty());
  meeting.meet(std::move(second));
}

TEST(ConnectionSetup, RemembersWhatKeepsItFromConnectingUntilItIsConnected) {
  Meeting meeting(1);
  EXPECT_TRUE(meeting.setup->troubleWith(0).isOk());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  meeting.setup->want(0);
  meeting.workUntil([&] { return !meeting.setup->troubleWith(0).isOk(); });
  const Status trouble = meeting.setup->troubleWith(0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(expectStatus(trouble, StatusCode::SystemError, 1, "connecting to rank 0: Too many open files"), "");
  EXPECT_EQ(expectStatus(withTrouble("rank 1 waited", trouble, 1), StatusCode::SystemError, 1, "rank 1 waited; conn"),
            "");
  EXPECT_EQ(expectStatus(withTrouble("rank 1 waited", trouble, 0), StatusCode::Timeout, 1, "rank 1 waited; conn"), "");
  EXPECT_TRUE(meeting.failures.empty()); // it tries again
  Socket own;
  ASSERT_TRUE(meeting.workUntil([&] { return (own = meeting.accepted()).isOpen(); }));
  meeting.meet(std::move(own));
  EXPECT_EQ(meeting.setup->troubleWith(0).message(), "");
}

TEST(ConnectionSetup, NamesItselfWhereItCannotAccept) {
  Meeting meeting(1);
  Socket early = meeting.connectToOwn();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  meeting.workUntil([&] { return !meeting.setup->troubleWith(0).isOk(); });
  const Status trouble = meeting.setup->troubleWith(0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(expectStatus(trouble, StatusCode::SystemError, 1, "rank 1 cannot accept connections: Too many open files"),
            "");
  EXPECT_EQ(expectStatus(withTrouble("rank 1 waited", trouble, 1), StatusCode::SystemError, 1, "rank 1 waited; rank 1"),
            "");
  EXPECT_TRUE(meeting.workUntil([&] { return meeting.setup->troubleWith(0).isOk(); }));
}

TEST(ConnectionSetup, AnAnswerIsBelievedHoweverLateThePeerAnswers) {
  Meeting meeting(1);
  meeting.setup->want(0);
  meeting.work(2 * silence);
  Socket first = meeting.accepted();
  ASSERT_TRUE(first.isOpen());
  EXPECT_FALSE(meeting.accepted().isOpen());
  meeting.meet(std::move(first));
}

} // namespace
} // namespace kolo::test
