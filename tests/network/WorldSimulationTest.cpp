// A machine of many hosts as objects of one process, without sockets. The classes are those by which ranks find each
// other and agree; what they say is counted.
#include "bootstrap/RendezvousWire.h"
#include "device/DeviceSummary.h"
#include "memory/SparseArray.h"
#include "network/InProcess.h"
#include "peers/HostRounds.h"
#include "peers/RosterRounds.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>

namespace kolo::test {
namespace {

using namespace runtime;

/// The small case is the one of every run. KOLO_SIMULATED_HOSTS names the number of a large one.
int numHostsOr(int usual) {
  const char *text = std::getenv("KOLO_SIMULATED_HOSTS");
  return text ? std::atoi(text) : usual;
}

struct SimulatedHosts {
  SimulatedHosts(int hosts, int ranksEach)
      : numHosts(hosts), numEach(ranksEach), speakersMails(std::make_shared<Mailboxes>(numRanks())) {}
  int numRanks() const { return numHosts * numEach; }
  int speakerOf(int host) const { return host * numEach; }

  /// A speaker's end. What it takes goes to `take`, and its bytes are counted.
  std::unique_ptr<InProcess> end(int host, std::function<Status(int, const Mail &)> take) {
    ControlOptions options;
    options.rank = speakerOf(host);
    options.numRanks = numRanks();
    options.receiveMail = [this, take = std::move(take)](int sender, std::span<const std::byte> bytes) {
      Result<Mail> mail = parseMail(bytes);
      if (!mail.isOk())
        return mail.status();
      numMails += 1;
      numBytes += bytes.size();
      return take(sender, *mail);
    };
    return std::make_unique<InProcess>(speakersMails, options);
  }

  const int numHosts, numEach;
  std::shared_ptr<Mailboxes> speakersMails;
  uint64_t numMails = 0, numBytes = 0; // that arrived
};

/// A control segment of which only what is used takes memory.
struct Segment {
  explicit Segment(const SimulatedHosts &world)
      : memory(Control::sizeBytes(world.numRanks(), world.numEach)),
        control(static_cast<std::byte *>(memory.data()), world.numRanks(), world.numEach) {}
  SparseBytes memory;
  Control control;
};

Endpoint endpointOf(int rank) {
  Endpoint endpoint = {};
  for (int byte = 0; byte < 4; ++byte)
    endpoint[static_cast<size_t>(byte)] = std::byte((rank + 1) >> (8 * byte));
  return endpoint;
}

GuideBook bookOf(const SimulatedHosts &world) {
  std::vector<std::vector<int>> ranksOf(static_cast<size_t>(world.numHosts));
  std::vector<std::string> names;
  std::vector<int> pids(static_cast<size_t>(world.numRanks()));
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < world.numRanks(); ++rank) {
    ranksOf[static_cast<size_t>(rank / world.numEach)].push_back(rank);
    pids[static_cast<size_t>(rank)] = 1000 + rank;
    endpoints.push_back(endpointOf(rank));
  }
  for (int host = 0; host < world.numHosts; ++host)
    names.push_back("host" + std::to_string(host));
  return {std::move(ranksOf), std::move(names), std::move(pids), std::move(endpoints), ""};
}

/// What the product's code of one speaker does for the roster.
struct RosterSpeaker {
  RosterSpeaker(SimulatedHosts &world, int host, const Guide &guide)
      : segment(world),
        mails(world.end(host, [this](int sender, const Mail &mail) { return rounds->take(sender, mail); })),
        rounds(std::make_unique<RosterRounds>(guide, segment.control, *mails)) {}
  Segment segment;
  std::unique_ptr<InProcess> mails;
  std::unique_ptr<RosterRounds> rounds;
};

/// And for exchanges.
struct Speaker {
  Speaker(SimulatedHosts &world, const std::shared_ptr<const HostLayout> &layout, int host)
      : hosts(layout, world.speakerOf(host)), segment(world),
        mails(world.end(host, [this](int sender, const Mail &mail) { return rounds->take(sender, mail); })),
        rounds(std::make_unique<HostRounds>(hosts, segment.control, *mails)) {}

  /// What the ranks of the host announce.
  HostsAnnounce announce(uint64_t exchange, const std::function<void(int, Record &)> &fill) {
    HostsAnnounce here;
    for (int rank : hosts.ranksHere()) {
      Record &record = segment.control.block(hosts.placeOf(rank)).records[exchange % 2];
      new (&record) Record();
      record.operation = Operation::Run;
      fill(rank, record);
      here.records.add(RecordSummary(rank, record, 0));
      here.repeats.add({0, 0, rank, rank});
    }
    return here;
  }

  Hosts hosts;
  Segment segment;
  std::unique_ptr<InProcess> mails;
  std::unique_ptr<HostRounds> rounds;
};

/// All hosts of a world, in it.
std::vector<std::unique_ptr<Speaker>> speakersOf(SimulatedHosts &world) {
  HostMap map;
  for (int host = 0; host < world.numHosts; ++host) {
    map.names.push_back("host" + std::to_string(host));
    map.hostOf.insert(map.hostOf.end(), static_cast<size_t>(world.numEach), host);
  }
  auto layout = std::make_shared<const HostLayout>(std::move(map));
  std::vector<std::unique_ptr<Speaker>> speakers;
  for (int host = 0; host < world.numHosts; ++host)
    speakers.push_back(std::make_unique<Speaker>(world, layout, host));
  return speakers;
}

/// All hosts send in a round, and then hear each other.
template <class Speakers, class Send, class Hear>
void runRounds(Speakers &speakers, int numRounds, Send send, Hear hear) {
  for (int round = 0; round < numRounds; ++round) {
    for (auto &speaker : speakers)
      send(*speaker, round);
    for (auto &speaker : speakers) {
      ASSERT_EQ(speaker->mails->progress().message(), "");
      hear(*speaker, round);
    }
  }
}

} // namespace

TEST(WorldSimulation, RankZeroTellsEachRankLittleAndHostsTellEachOtherTheRest) {
  SimulatedHosts world(numHostsOr(200), 8);
  const GuideBook book = bookOf(world);
  const Rounds rounds{world.numHosts};
  uint64_t ofSpeakers = 0, ofOthers = 0, mostContacts = 0;
  std::vector<std::unique_ptr<RosterSpeaker>> speakers;
  for (int rank = 0; rank < world.numRanks(); ++rank) {
    const Guide guide = book.guideFor(rank);
    const bool isSpeaker = rank % world.numEach == 0;
    (isSpeaker ? ofSpeakers : ofOthers) += write(Guidance{{}, {1, 2, 3}, guide}).size();
    mostContacts = std::max<uint64_t>(mostContacts, guide.contacts.size());
    if (isSpeaker)
      speakers.push_back(std::make_unique<RosterSpeaker>(world, rank / world.numEach, guide));
  }
  EXPECT_LE(mostContacts, static_cast<uint64_t>(2 * rounds.number() + world.numEach - 1));
  runRounds(
      speakers, rounds.number(), [](RosterSpeaker &speaker, int round) { speaker.rounds->send(round); },
      [](RosterSpeaker &speaker, int round) { ASSERT_TRUE(speaker.rounds->arrivedOf(round).hasReached(1)); });
  for (auto &speaker : speakers) {
    ASSERT_EQ(speaker->rounds->check().message(), "");
    for (int rank = 0; rank < world.numRanks(); rank += 7) {
      const RosterEntry &entry = speaker->segment.control.rosterEntries()[rank];
      ASSERT_EQ(entry.hostPlusOne, rank / world.numEach + 1);
      ASSERT_EQ(entry.endpoint, endpointOf(rank));
    }
    ASSERT_EQ(std::string(speaker->segment.control.rosterName(world.numHosts - 1)),
              "host" + std::to_string(world.numHosts - 1));
  }
  // Each host hears of each other once: a line for its name, and one for each of its ranks.
  const auto numHosts = static_cast<uint64_t>(world.numHosts);
  const uint64_t lines = numHosts * (numHosts - 1) * static_cast<uint64_t>(world.numEach + 1);
  EXPECT_EQ(world.numBytes - world.numMails * rosterHeadBytes, lines * rosterLineBytes);
  RecordProperty("hosts", world.numHosts);
  RecordProperty("bytesFromRankZero", std::to_string(ofSpeakers + ofOthers));
  RecordProperty("bytesToASpeaker", std::to_string(ofSpeakers / numHosts));
  RecordProperty("rosterBytesOfAHost", std::to_string(world.numBytes / numHosts));
  RecordProperty("rosterMailsOfAHost", std::to_string(world.numMails / numHosts));
  EXPECT_LT(ofSpeakers / numHosts, 8192u);
  EXPECT_LT(ofOthers / (numHosts * 7), 1024u);
}

TEST(WorldSimulation, AllHostsAgreeOnACallByOneMessageInEachRound) {
  SimulatedHosts world(numHostsOr(1000), 8);
  std::vector<std::unique_ptr<Speaker>> speakers = speakersOf(world);
  const int numRounds = speakers.front()->rounds->number();
  uint64_t exchange = 0;
  auto meet = [&](const std::function<void(int, Record &)> &fill) {
    ++exchange;
    world.numMails = world.numBytes = 0;
    for (auto &speaker : speakers)
      speaker->rounds->begin(exchange, speaker->announce(exchange, fill));
    runRounds(
        speakers, numRounds, [](Speaker &speaker, int round) { speaker.rounds->send(round); },
        [&](Speaker &speaker, int round) {
          ASSERT_TRUE(speaker.rounds->arrivedOf(round).hasReached(exchange));
          ASSERT_EQ(speaker.rounds->add(round).message(), "");
        });
  };
  const int odd = world.numRanks() / 3, late = odd + 11;
  meet([](int rank, Record &record) {
    record.call.count = 100;
    record.tables.digests.given = static_cast<uint64_t>(rank);
  });
  const auto numRanks = static_cast<uint64_t>(world.numRanks());
  for (auto &speaker : speakers) {
    const RecordSummary &all = speaker->rounds->all().records;
    ASSERT_FALSE(all.has(Kept::OtherCall) || all.has(Kept::Refusal));
    ASSERT_EQ(all.numbers().sums.digests.given, numRanks * (numRanks - 1) / 2) << "each rank counts once";
  }
  EXPECT_EQ(world.numMails, static_cast<uint64_t>(world.numHosts * numRounds));
  EXPECT_LT(world.numBytes, world.numMails * 512);
  RecordProperty("hosts", world.numHosts);
  RecordProperty("mailsOfAHost", std::to_string(world.numMails / static_cast<uint64_t>(world.numHosts)));
  RecordProperty("bytesOfAHost", std::to_string(world.numBytes / static_cast<uint64_t>(world.numHosts)));

  meet([&](int rank, Record &record) {
    record.call.count = rank == odd || rank == late ? 101 : 100;
    if (rank == late)
      setFailure(record, Status(StatusCode::OutOfMemory, "no room"));
  });
  for (auto &speaker : speakers) {
    const RecordSummary &all = speaker->rounds->all().records;
    ASSERT_TRUE(all.has(Kept::OtherCall) && all.has(Kept::Refusal));
    ASSERT_EQ(all.rankOf(Kept::First), 0);
    ASSERT_EQ(all.rankOf(Kept::OtherCall), odd) << "the first rank that differs";
    ASSERT_EQ(all.recordOf(Kept::OtherCall).call.count, 101);
    ASSERT_EQ(all.rankOf(Kept::Refusal), late);
    ASSERT_STREQ(all.recordOf(Kept::Refusal).message, "no room");
  }
}

namespace {

/// One meeting of ranks that use devices, as Exchange has it, but without waiting. Returns what each host heard.
std::vector<DeviceSummary> meetOnce(SimulatedHosts &world, std::vector<std::unique_ptr<Speaker>> &speakers,
                                    uint64_t exchange, const std::function<void(int, DeviceRecord &)> &fill) {
  std::vector<DeviceSummary> said(speakers.size(), DeviceSummary(world.numRanks()));
  world.numMails = world.numBytes = 0;
  for (size_t host = 0; host < speakers.size(); ++host) {
    HostsAnnounce here;
    here.plan = planOfMeetings;
    for (int rank : speakers[host]->hosts.ranksHere()) {
      DeviceRecord record;
      record.isReached = true;
      fill(rank, record);
      std::byte published[sizeof(DeviceRecord)];
      std::memcpy(published, &record, sizeof(record));
      said[host].addRank(rank, published);
      here.repeats.add({0, 0, rank, rank});
    }
    speakers[host]->rounds->begin(exchange, here, &said[host]);
  }
  runRounds(
      speakers, speakers.front()->rounds->number(), [](Speaker &speaker, int round) { speaker.rounds->send(round); },
      [&](Speaker &speaker, int round) {
        ASSERT_TRUE(speaker.rounds->arrivedOf(round).hasReached(exchange));
        ASSERT_EQ(speaker.rounds->add(round).message(), "");
      });
  return said;
}

} // namespace

/// Bytes that a host hears depend on the number of rounds alone. Records of all ranks would be 224 for each.
TEST(WorldSimulation, DevicesMeetByOneSumInEachRound) {
  const int largest = numHostsOr(500);
  for (int numHosts : {2, 3, 16, 64, largest}) {
    SimulatedHosts world(numHosts, 8);
    std::vector<std::unique_ptr<Speaker>> speakers = speakersOf(world);
    const auto numRounds = static_cast<uint64_t>(speakers.front()->rounds->number());
    auto each = [&](uint64_t sum) { return sum / static_cast<uint64_t>(numHosts); };
    for (const DeviceSummary &said : meetOnce(world, speakers, 1, [](int, DeviceRecord &record) {
           record.numCalls = 5;
           record.settings.lanes = 2;
         })) {
      ASSERT_EQ(said.rankOf(DeviceKept::First), 0);
      ASSERT_EQ(said.first().numCalls, 5u);
      for (size_t why = 1; why < numDeviceKept; ++why)
        ASSERT_FALSE(said.has(DeviceKept(why))) << why;
      ASSERT_LT(said.refusal().rank, 0);
      ASSERT_LT(said.unreached(), 0);
    }
    EXPECT_EQ(world.numMails, static_cast<uint64_t>(numHosts) * numRounds);
    EXPECT_EQ(each(world.numBytes), 176 * numRounds);
    RecordProperty("bytesThatAHostHearsOf" + std::to_string(numHosts), std::to_string(each(world.numBytes)));

    const int odd = world.numRanks() / 3, late = odd + 3;
    for (const DeviceSummary &said : meetOnce(world, speakers, 2, [&](int rank, DeviceRecord &record) {
           record.sizeBytes = rank == odd || rank == late ? 64 : 32;
           record.isReached = rank < late;
           record.captured[static_cast<size_t>(rank) % mostShapes] = true;
           if (rank >= late)
             setRefusal(record, Status(StatusCode::OutOfMemory, "no room"));
         })) {
      ASSERT_EQ(said.rankOf(DeviceKept::OtherSize), odd) << "the first rank that differs";
      ASSERT_EQ(said.termsOf(DeviceKept::OtherSize).sizeBytes, 64u);
      ASSERT_EQ(said.refusal().rank, late);
      ASSERT_EQ(said.refusal().message, "no room");
      ASSERT_EQ(said.unreached(), late);
      ASSERT_EQ(said.captured().count(), std::min(static_cast<size_t>(world.numRanks()), mostShapes));
    }
    EXPECT_LE(world.numBytes, world.numMails * (roundHeadBytes + 8 + maxCombinedBytes));
  }
}

} // namespace kolo::test
