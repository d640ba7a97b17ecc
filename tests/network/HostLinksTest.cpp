// What ranks of several hosts tell each other, between threads of this process: no socket is needed.
#include "peers/HostLinks.h"
#include "network/InProcess.h"
#include "peers/Announced.h"
#include "peers/Exchange.h"

#include "gtest/gtest.h"

#include <unistd.h>

#include <barrier>
#include <functional>
#include <thread>

namespace kolo::test {
namespace {

using namespace runtime;

/// Threads that are as on several hosts: rank r on host `hostOf[r]`.
class HostThreads {
public:
  explicit HostThreads(std::vector<int> hostOf, int timeoutMs = 10'000)
      : mailboxes(std::make_shared<Mailboxes>(int(hostOf.size()))) {
    map.hostOf = std::move(hostOf);
    settings.timeoutMs = timeoutMs;
    settings.lanes = 1;
    settings.wait = WaitMode::Sleep;
    for (int host = 0; host <= map.hostOf.back(); ++host) {
      map.names.push_back("host" + std::to_string(host));
      controls.push_back(*createControl(RankKind::Processes, size(), int(map.ranksOf(host).size())));
    }
    for (int rank = 0; rank < size(); ++rank) {
      ControlOptions options;
      options.rank = rank;
      options.numRanks = size();
      links.push_back(HostLinks::inProcess(mailboxes, options));
      endpoints.push_back(links.back()->endpoint());
    }
  }

  int size() const { return static_cast<int>(map.hostOf.size()); }

  /// Connects each rank by what rank 0 would tell it, in a thread of its own, but not `absent`. By rank.
  std::vector<Status> connectByGuides(int timeoutMs, int absent = -1) {
    const HostLayout layout(map);
    std::vector<std::vector<int>> ranksOf;
    for (int host = 0; host < map.numHosts(); ++host)
      ranksOf.push_back(layout.ranksOf(host));
    for (int rank = 0; rank < size(); ++rank)
      endpoints[static_cast<size_t>(rank)][0] = std::byte(rank + 1);
    const GuideBook book(ranksOf, map.names, std::vector<int>(endpoints.size(), getpid()), endpoints, "");
    std::vector<Status> statuses(endpoints.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank)
      threads.emplace_back([&, rank] {
        const auto host = static_cast<size_t>(map.hostOf[static_cast<size_t>(rank)]);
        const SpeakerPlace speaker{ranksOf[host].front(), controls[host]->control, controls[host]};
        speaker.control.block(layout.placeOf(rank)).pid.store(getpid());
        if (rank != absent)
          statuses[static_cast<size_t>(rank)] =
              links[static_cast<size_t>(rank)]->connectBy(book.guideFor(rank), speaker, timeoutMs);
      });
    for (std::thread &thread : threads)
      thread.join();
    return statuses;
  }
  const Hosts &hostsOf(int rank) const { return links[static_cast<size_t>(rank)]->hosts(); }

  /// Runs a function on each rank, in a thread of its own.
  void run(const std::function<void(Peers &, Exchange &)> &body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank)
      threads.emplace_back([this, rank, &body] {
        const std::shared_ptr<ControlMemory> &control =
            controls[static_cast<size_t>(map.hostOf[static_cast<size_t>(rank)])];
        std::shared_ptr<HostLinks> own = std::move(links[static_cast<size_t>(rank)]);
        Status connected = own->connect(map, endpoints, control->control);
        ASSERT_TRUE(connected.isOk()) << connected.message();
        Peers peers(control, RankKind::Processes, rank, settings, std::move(own));
        Exchange exchange(peers);
        body(peers, exchange);
      });
    for (std::thread &thread : threads)
      thread.join();
  }

  std::shared_ptr<Mailboxes> mailboxes;

private:
  HostMap map;
  Settings settings;
  std::vector<std::shared_ptr<ControlMemory>> controls; // by host
  std::vector<std::unique_ptr<HostLinks>> links;
  std::vector<Endpoint> endpoints;
};

class HostLinksOf : public testing::TestWithParam<std::vector<int>> {};

TEST_P(HostLinksOf, AllRanksComeToOneResultOfEachExchange) {
  HostThreads ranks(GetParam());
  ranks.run([&](Peers &peers, Exchange &exchange) {
    for (uint64_t number = 1; number <= 20; ++number) {
      const bool differs = number % 4 == 0; // one rank announces another plan, each time another one
      const bool isOdd = differs && static_cast<int>(number) % peers.size() == peers.rank();
      bool isAgreed = false;
      Status status = exchange.propose(isOdd ? 1000 : number, {}, isAgreed);
      ASSERT_TRUE(status.isOk()) << status.message();
      ASSERT_EQ(isAgreed, !differs) << "exchange " << number;
      if (isAgreed)
        continue;
      Record &record = exchange.next();
      record.join.lanes = peers.rank() + 100;
      record.tables.largestBytes = peers.rank() * 10;
      record.tables.digests = {uint64_t(1) << peers.rank(), 3};
      record.buffers[KOLO_SCRATCH].sizeBytes = uint64_t(1000 - peers.rank());
      record.toldSize = uint64_t(peers.rank()) + 5;
      status = exchange.perform();
      ASSERT_TRUE(status.isOk()) << status.message();
      const RecordSummary &all = exchange.summary();
      EXPECT_EQ(all.rankOf(Kept::First), 0);
      EXPECT_EQ(all.recordOf(Kept::First).join.lanes, 100);
      EXPECT_EQ(all.rankOf(Kept::OtherJoin), 1);
      EXPECT_EQ(all.recordOf(Kept::OtherJoin).join.lanes, 101);
      EXPECT_FALSE(all.has(Kept::OtherCall) || all.has(Kept::OtherOperation) || all.has(Kept::Refusal));
      EXPECT_EQ(all.numbers().largestBytes.largest, (peers.size() - 1) * 10);
      EXPECT_TRUE(all.numbers().largestBytes.areDifferent);
      EXPECT_FALSE(all.numbers().staging.areDifferent);
      EXPECT_EQ(all.numbers().largestBuffers[KOLO_SCRATCH], 1000u);
      EXPECT_EQ(all.numbers().sums.digests.given, (uint64_t(1) << peers.size()) - 1) << "each rank counts once";
      EXPECT_EQ(all.numbers().sums.digests.taken, uint64_t(3 * peers.size()));
      for (int rank = 0; rank < peers.size(); ++rank)
        ASSERT_EQ(sizeHeard(peers, exchange.number(), rank), uint64_t(rank) + 5)
            << "rank " << rank << " as rank " << peers.rank() << " heard it";
    }
  });
}

TEST_P(HostLinksOf, RanksLearnFromEachOtherWhereAllAre) {
  HostThreads ranks(GetParam());
  for (const Status &status : ranks.connectByGuides(10'000))
    EXPECT_EQ(status.message(), "");
  for (int rank = 0; rank < ranks.size(); ++rank)
    for (int peer = 0; peer < ranks.size(); ++peer) {
      EXPECT_EQ(ranks.hostsOf(rank).hostOf(peer), GetParam()[static_cast<size_t>(peer)]);
      EXPECT_EQ(ranks.hostsOf(rank).nameOf(peer), "host" + std::to_string(GetParam()[static_cast<size_t>(peer)]));
    }
}

TEST_P(HostLinksOf, ASpeakerThatDoesNotComeIsNamedByAll) {
  HostThreads ranks(GetParam());
  const int absent = ranks.size() - 1, host = GetParam().back();
  if (GetParam()[static_cast<size_t>(absent - 1)] == host) // then another rank speaks for it
    return;
  const std::vector<Status> statuses = ranks.connectByGuides(300, absent);
  for (int rank = 0; rank < absent; ++rank) {
    const Status &status = statuses[static_cast<size_t>(rank)];
    EXPECT_EQ(status.code(), StatusCode::Timeout) << status.message();
    EXPECT_EQ(status.rank(), absent) << "rank " << rank << ": " << status.message();
    EXPECT_NE(status.message().find("rank " + std::to_string(absent) + " (host host" + std::to_string(host) + ")"),
              std::string::npos)
        << status.message();
  }
}

TEST_P(HostLinksOf, WhatRanksPublishReachesAll) {
  HostThreads ranks(GetParam());
  ranks.run([&](Peers &peers, Exchange &exchange) {
    for (uint64_t number = 1; number <= 5; ++number) {
      const auto slotBytes = static_cast<uint32_t>(16 * (1 + number % 3));
      const size_t turn = exchange.nextTurn();
      *reinterpret_cast<uint64_t *>(exchange.published(peers.rank(), turn, slotBytes)) =
          number * 1000 + static_cast<uint64_t>(peers.rank());
      bool isAgreed = false;
      Status status = exchange.propose(7, {sizeof(uint64_t), slotBytes}, isAgreed);
      ASSERT_TRUE(status.isOk() && isAgreed) << status.message();
      for (int rank = 0; rank < peers.size(); ++rank)
        ASSERT_EQ(*reinterpret_cast<uint64_t *>(exchange.published(rank, turn, slotBytes)),
                  number * 1000 + static_cast<uint64_t>(rank));
    }
  });
}

TEST_P(HostLinksOf, OneRankThatDiffersIsNamedByAll) {
  HostThreads ranks(GetParam());
  ranks.run([&](Peers &peers, Exchange &exchange) {
    for (int odd = 0; odd < peers.size(); ++odd)
      for (int what = 0; what < 3; ++what) {
        Record &record = exchange.next();
        record.operation = Operation::Run;
        record.call.count = 10;
        if (peers.rank() == odd && what == 0)
          record.operation = Operation::Barrier;
        else if (peers.rank() == odd && what == 1)
          record.call.count = 11;
        else if (peers.rank() == odd)
          setFailure(record, Status(StatusCode::OutOfMemory, "no room"));
        Status status = exchange.perform();
        const int other = odd == 0 ? 1 : odd; // rank 0 is what others are compared with
        const RecordSummary &all = exchange.summary();
        EXPECT_EQ(status.code(), what == 0 ? StatusCode::Mismatch : StatusCode::Ok);
        EXPECT_EQ(all.has(Kept::OtherOperation) ? all.rankOf(Kept::OtherOperation) : -1, what == 0 ? other : -1);
        EXPECT_EQ(all.has(Kept::OtherCall) ? all.rankOf(Kept::OtherCall) : -1, what == 1 ? other : -1);
        const int64_t otherCount = all.has(Kept::OtherCall) ? all.recordOf(Kept::OtherCall).call.count : -1;
        EXPECT_EQ(otherCount, what != 1 ? -1 : odd == 0 ? 10 : 11);
        Status refusal = exchange.firstRefusal();
        EXPECT_EQ(refusal.rank(), what == 2 ? odd : -1);
        const std::string who = peers.rank() == odd ? "" : "rank " + std::to_string(odd) + ": ";
        EXPECT_EQ(refusal.message(), what == 2 ? who + "no room" : "");
      }
  });
}

TEST_P(HostLinksOf, TheFailureOfOneRankEndsTheWaitsOfAllAndNamesItsHost) {
  HostThreads ranks(GetParam());
  const int culprit = ranks.size() - 1;
  std::barrier haveMet(ranks.size()); // no rank hears of the end while it is still in the first exchange
  ranks.run([&](Peers &peers, Exchange &exchange) {
    bool isAgreed = false;
    EXPECT_TRUE(exchange.propose(1, {}, isAgreed).isOk());
    haveMet.arrive_and_wait();
    Status status = peers.rank() == culprit ? peers.abort(Status(StatusCode::SystemError, "the disk is gone", culprit))
                                            : exchange.propose(2, {}, isAgreed);
    EXPECT_EQ(status.code(), StatusCode::SystemError) << "rank " << peers.rank() << ": " << status.message();
    EXPECT_EQ(status.rank(), culprit);
    EXPECT_NE(status.message().find(peers.hosts().describe(culprit)), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("the disk is gone"), std::string::npos) << status.message();
  });
}

TEST_P(HostLinksOf, ARankThatLeavesIsNamed) {
  HostThreads ranks(GetParam());
  const int culprit = ranks.size() - 1;
  std::barrier haveMet(ranks.size()); // no rank hears of the end while it is still in the first exchange
  ranks.run([&](Peers &peers, Exchange &exchange) {
    bool isAgreed = false;
    EXPECT_TRUE(exchange.propose(1, {}, isAgreed).isOk());
    haveMet.arrive_and_wait();
    if (peers.rank() == culprit)
      return;
    Status status = exchange.propose(2, {}, isAgreed);
    EXPECT_EQ(status.code(), StatusCode::PeerLost) << "rank " << peers.rank() << ": " << status.message();
  });
}

/// Sums bits: of each rank's own.
struct Bits final : CombinedRecords {
  void addRank(int, const std::byte *published) override { bits |= std::to_integer<unsigned>(*published); }
  Status add(std::span<const std::byte> others) override {
    if (others.size() != 1 || others.front() == std::byte(0))
      return Status(StatusCode::Mismatch, "no bits");
    bits |= std::to_integer<unsigned>(others.front());
    return {};
  }
  std::vector<std::byte> write() const override { return {std::byte(isSilent ? 0 : bits)}; }
  unsigned bits = 0;
  bool isSilent = false;
};

TEST_P(HostLinksOf, AllRanksHearWhatAllSayTogether) {
  HostThreads ranks(GetParam());
  ranks.run([&](Peers &peers, Exchange &exchange) {
    for (unsigned shift = 0; shift < 2; ++shift) {
      Bits bits;
      *exchange.published(peers.rank(), exchange.nextTurn(), 0) = std::byte(1u << (unsigned(peers.rank()) + shift) % 8);
      bool isAgreed = false;
      ASSERT_TRUE(exchange.combine(bits, isAgreed).isOk());
      EXPECT_TRUE(isAgreed);
      unsigned all = 0;
      for (int rank = 0; rank < ranks.size(); ++rank)
        all |= 1u << (unsigned(rank) + shift) % 8;
      EXPECT_EQ(bits.bits, all) << "rank " << peers.rank();
    }
    Bits bits;
    *exchange.published(peers.rank(), exchange.nextTurn(), 0) = std::byte(1);
    bool isAgreed = true; // one rank comes to a barrier
    const bool isLast = peers.rank() == ranks.size() - 1;
    ASSERT_TRUE((isLast ? exchange.propose(planOfBarriers, {}, isAgreed) : exchange.combine(bits, isAgreed)).isOk());
    EXPECT_FALSE(isAgreed);
  });
}

TEST_P(HostLinksOf, ASumThatIsNoneEndsTheMeetingOnAllRanks) {
  HostThreads ranks(GetParam());
  const int culprit = ranks.size() - 1; // its host says it
  ranks.run([&](Peers &peers, Exchange &exchange) {
    Bits bits;
    bits.isSilent = peers.rank() == peers.hosts().speakerOf(peers.hosts().hostOf(culprit));
    *exchange.published(peers.rank(), exchange.nextTurn(), 0) = std::byte(1);
    bool isAgreed = false;
    const Status status = exchange.combine(bits, isAgreed);
    const bool isOver = !status.isOk();
    // Whoever does not hear of it now does so in the next exchange.
    const Status later = isOver ? status : exchange.propose(1, {}, isAgreed);
    EXPECT_FALSE(later.isOk()) << "rank " << peers.rank();
    EXPECT_NE(later.message().find("no bits"), std::string::npos) << later.message();
  });
}

INSTANTIATE_TEST_SUITE_P(All, HostLinksOf,
                         testing::Values(std::vector<int>{0, 1}, std::vector<int>{0, 0, 1, 2, 2},
                                         std::vector<int>{0, 1, 1, 1, 2, 3, 3, 4},
                                         std::vector<int>{0, 1, 2, 3, 4, 5, 6}));

TEST(HostLinks, ARoundThatIsNotTheNextIsRefused) {
  HostThreads ranks({0, 1});
  ranks.run([&](Peers &peers, Exchange &exchange) {
    bool isAgreed = false;
    ASSERT_TRUE(exchange.propose(1, {}, isAgreed).isOk());
    if (peers.rank() == 0) {
      Mail mail;
      mail.kind = MailKind::Round;
      mail.sequence = 9;
      mail.plan = 1;
      ASSERT_TRUE(peers.links()->control().mail(1, write(mail)).isOk());
    }
    Status status = exchange.propose(2, {}, isAgreed);
    if (peers.rank() != 1)
      return;
    EXPECT_FALSE(status.isOk());
    EXPECT_EQ(status.rank(), 0);
    EXPECT_EQ(peers.links()->network().refusal().code(), StatusCode::Mismatch);
  });
}

TEST(HostLinks, OneHostIsTheTrivialCase) {
  std::shared_ptr<ControlMemory> control = *createControl(RankKind::Threads, 3, 3);
  std::shared_ptr<HostLinks> links = HostLinks::ofOneHost(control->control, 1);
  EXPECT_FALSE(links->hosts().areSeveral());
  EXPECT_FALSE(links->hosts().speaks());
  EXPECT_EQ(links->hosts().ranksHere(), (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(links->hosts().others().empty());
  EXPECT_EQ(links->hosts().describe(2), "rank 2");
  EXPECT_EQ(links->rounds().number(), 0);
  EXPECT_EQ(links->rounds().lostBefore(1), -1);
  EXPECT_EQ(links->wait(), nullptr);
  EXPECT_FALSE(links->areApart());
  Status found(StatusCode::Timeout, "rank 1 waited", 2);
  EXPECT_EQ(links->explain(found).message(), "rank 1 waited");
}

/// The ends of so many ranks, and what each has taken: "sender:text".
struct Ends {
  explicit Ends(int number) : taken(static_cast<size_t>(number)) {
    auto mailboxes = std::make_shared<Mailboxes>(number);
    for (int rank = 0; rank < number; ++rank) {
      ControlOptions options;
      options.rank = rank;
      options.receiveMail = [this, rank](int sender, std::span<const std::byte> text) {
        taken[static_cast<size_t>(rank)].push_back(
            std::to_string(sender) + ":" + std::string(reinterpret_cast<const char *>(text.data()), text.size()));
        return answer;
      };
      ends.push_back(std::make_unique<InProcess>(mailboxes, options));
    }
  }
  Status send(int from, int to, std::string_view text) {
    return ends[static_cast<size_t>(from)]->mail(to, std::as_bytes(std::span(text)));
  }

  std::vector<std::vector<std::string>> taken;
  std::vector<std::unique_ptr<InProcess>> ends;
  Status answer;
};

TEST(InProcess, MailsOfOneSenderArriveInTheirOrderAndAreCounted) {
  Ends ranks(3);
  ASSERT_TRUE(ranks.send(0, 2, "first").isOk());
  ASSERT_TRUE(ranks.send(1, 2, "other").isOk());
  ASSERT_TRUE(ranks.send(0, 2, "second").isOk());
  EXPECT_TRUE(ranks.ends[2]->progress().isOk());
  EXPECT_EQ(ranks.taken[2], (std::vector<std::string>{"0:first", "1:other", "0:second"}));
  EXPECT_EQ(ranks.ends[0]->numMails(), 2u);
}

TEST(InProcess, ARankHasLeftOnceItsLastMailWasTaken) {
  Ends ranks(2);
  ASSERT_TRUE(ranks.send(0, 1, "last").isOk());
  ranks.ends[0].reset();
  EXPECT_FALSE(ranks.ends[1]->hasLeft(0));
  EXPECT_TRUE(ranks.ends[1]->progress().isOk());
  EXPECT_TRUE(ranks.ends[1]->hasLeft(0));
  EXPECT_EQ(ranks.ends[1]->stateOf(0).code(), StatusCode::PeerLost);
  EXPECT_EQ(ranks.send(1, 0, "late").code(), StatusCode::PeerLost);
}

TEST(InProcess, WhatTheReceiverRefusesIsAFailureWithTheSender) {
  Ends ranks(2);
  ranks.answer = Status(StatusCode::Mismatch, "nonsense", 0);
  ASSERT_TRUE(ranks.send(0, 1, "?").isOk());
  EXPECT_EQ(ranks.ends[1]->progress().code(), StatusCode::Mismatch);
  EXPECT_TRUE(ranks.ends[1]->hasFailedWith(0));
  EXPECT_EQ(ranks.ends[1]->refusal().message(), "nonsense");
  EXPECT_FALSE(ranks.ends[0]->hasFailedWith(1));
}

TEST(InProcess, BadMailsAndAllPutsAreRefused) {
  Ends ranks(2);
  EXPECT_EQ(ranks.send(0, 0, "me").code(), StatusCode::InvalidArgument);
  EXPECT_EQ(ranks.send(0, 2, "nobody").code(), StatusCode::InvalidArgument);
  EXPECT_EQ(ranks.send(0, 1, "").code(), StatusCode::InvalidArgument);
  EXPECT_EQ(ranks.send(0, 1, std::string(maxMailBytes + 1, 'x')).code(), StatusCode::InvalidArgument);
  EXPECT_TRUE(ranks.send(0, 1, std::string(maxMailBytes, 'x')).isOk());
  EXPECT_EQ(ranks.ends[0]->data().put({1, 0}, {}, "x", 1).code(), StatusCode::InvalidArgument);
  EXPECT_EQ(ranks.ends[0]->data().signal({1, 0}, {}).code(), StatusCode::InvalidArgument);
  EXPECT_TRUE(ranks.ends[0]->data().flush(0).isOk());
}

TEST(InProcess, ASleeperWakesWhenAMailArrives) {
  Ends ranks(2);
  Counter none = {};
  const Clock::time_point start = Clock::now();
  std::thread sender([&] { EXPECT_TRUE(ranks.send(0, 1, "wake").isOk()); });
  while (ranks.taken[1].empty() && millisecondsSince(start) < 10'000)
    EXPECT_TRUE(ranks.ends[1]->idle(none, 1, Clock::now() + std::chrono::seconds(10)).isOk());
  sender.join();
  EXPECT_EQ(ranks.taken[1], (std::vector<std::string>{"0:wake"}));
  EXPECT_LT(millisecondsSince(start), 10'000);
}

} // namespace
} // namespace kolo::test
