// The Greeter among processes that greet and go no further, or answer and go on too late.
#include "Support.h"

#include "network/tcp/Greeter.h"
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
    GreeterOptions options;
    options.self.rank = rank;
    options.self.numRanks = 2;
    options.mayComeLater = true;
    options.maxSilence = silence;
    greeter.emplace(options, std::move(own), endpoints);
    helloOfPeer.rank = 1 - rank;
    helloOfPeer.peer = rank;
    helloOfPeer.numRanks = 2;
  }

  /// What is met and what fails in this time.
  void work(std::chrono::milliseconds time) {
    for (Clock::time_point until = Clock::now() + time; Clock::now() < until;) {
      std::vector<Greeted> now;
      std::vector<Status> failed;
      greeter->progress(now, failed);
      for (Greeted &one : now)
        met.push_back(std::move(one));
      failures.insert(failures.end(), failed.begin(), failed.end());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
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
  void answer(const Socket &socket) const {
    GreetingBytes theirs = {};
    EXPECT_EQ(recv(socket.descriptor(), theirs.data(), theirs.size(), MSG_WAITALL), ssize_t(theirs.size()));
    greet(socket);
  }

  Hello helloOfPeer;
  SocketAddress ownPlace;
  std::optional<Socket> peerListener;
  std::optional<Greeter> greeter;
  std::vector<Greeted> met;
  std::vector<Status> failures;
};

TEST(Greeter, AStrangerThatGreetsAsARankKeepsItOutForAShortTimeOnly) {
  for (uint32_t rank : {0, 1}) {
    Meeting meeting(rank);
    const Clock::time_point start = Clock::now();
    Socket stranger = meeting.connectToOwn();
    meeting.greet(stranger);
    meeting.work(silence / 3);
    meeting.greeter->want(static_cast<int>(1 - rank));
    meeting.work(silence / 3);
    Socket own = meeting.accepted();
    EXPECT_TRUE(!own.isOpen() || Clock::now() - start >= silence); // a rank that greets gets its time
    for (int turn = 0; turn < 6 && !own.isOpen(); ++turn) {
      meeting.work(silence / 3);
      own = meeting.accepted();
    }
    ASSERT_TRUE(own.isOpen());
    meeting.answer(own);
    meeting.work(silence / 3);
    EXPECT_EQ(meeting.met.size(), 1u);
    EXPECT_TRUE(meeting.failures.empty());
  }
}

TEST(Greeter, StrangersThatGreetAsARankWithoutAGapKeepItOutForAShortTimeOnly) {
  for (uint32_t rank : {0, 1}) {
    Meeting meeting(rank);
    std::vector<Socket> strangers;
    Socket own;
    const Clock::time_point start = Clock::now();
    for (int turn = 0; turn < 12 && !own.isOpen(); ++turn) {
      strangers.push_back(meeting.connectToOwn());
      meeting.greet(strangers.back());
      meeting.work(silence / 3);
      meeting.greeter->want(static_cast<int>(1 - rank));
      own = meeting.accepted();
      EXPECT_TRUE(!own.isOpen() || Clock::now() - start >= silence);
    }
    ASSERT_TRUE(own.isOpen()) << rank;
    meeting.answer(own);
    meeting.work(silence / 3);
    EXPECT_EQ(meeting.met.size(), 1u);
    EXPECT_TRUE(meeting.failures.empty());
  }
}

TEST(Greeter, AnAnswerThatIsFoundTooLateIsNotBelieved) {
  Meeting meeting(1);
  meeting.greeter->want(0);
  meeting.work(silence / 3);
  Socket late = meeting.accepted();
  meeting.answer(late);
  std::this_thread::sleep_for(silence); // the rank computes
  late = {};                            // and its peer gave up
  meeting.work(silence / 3);
  EXPECT_TRUE(meeting.met.empty());
  Socket second = meeting.accepted();
  ASSERT_TRUE(second.isOpen());
  meeting.answer(second);
  meeting.work(silence / 3);
  EXPECT_EQ(meeting.met.size(), 1u);
  EXPECT_TRUE(meeting.failures.empty());
}

TEST(Greeter, RemembersWhatKeepsItFromConnectingUntilItIsConnected) {
  Meeting meeting(1);
  EXPECT_TRUE(meeting.greeter->troubleWith(0).isOk());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  meeting.greeter->want(0);
  meeting.work(silence / 6);
  const Status trouble = meeting.greeter->troubleWith(0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(expectStatus(trouble, StatusCode::SystemError, 1, "connecting to rank 0: Too many open files"), "");
  EXPECT_EQ(expectStatus(withTrouble("rank 1 waited", trouble, 1), StatusCode::SystemError, 1, "rank 1 waited; conn"),
            "");
  EXPECT_EQ(expectStatus(withTrouble("rank 1 waited", trouble, 0), StatusCode::Timeout, 1, "rank 1 waited; conn"), "");
  EXPECT_TRUE(meeting.failures.empty()); // it tries again
  meeting.work(silence / 3);
  Socket own = meeting.accepted();
  ASSERT_TRUE(own.isOpen());
  meeting.answer(own);
  meeting.work(silence / 3);
  EXPECT_EQ(meeting.met.size(), 1u);
  EXPECT_EQ(meeting.greeter->troubleWith(0).message(), "");
}

TEST(Greeter, NamesItselfWhereItCannotAccept) {
  Meeting meeting(1);
  Socket early = meeting.connectToOwn();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  meeting.work(silence / 6);
  const Status trouble = meeting.greeter->troubleWith(0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(expectStatus(trouble, StatusCode::SystemError, 1, "rank 1 cannot accept connections: Too many open files"),
            "");
  EXPECT_EQ(expectStatus(withTrouble("rank 1 waited", trouble, 1), StatusCode::SystemError, 1, "rank 1 waited; rank 1"),
            "");
  meeting.work(silence / 2);
  EXPECT_EQ(meeting.greeter->troubleWith(0).message(), "");
}

TEST(Greeter, AnAnswerIsBelievedHoweverLateThePeerAnswers) {
  Meeting meeting(1);
  meeting.greeter->want(0);
  meeting.work(2 * silence);
  Socket first = meeting.accepted();
  ASSERT_TRUE(first.isOpen());
  EXPECT_FALSE(meeting.accepted().isOpen());
  meeting.answer(first);
  meeting.work(silence / 3);
  EXPECT_EQ(meeting.met.size(), 1u);
}

} // namespace
} // namespace kolo::test
