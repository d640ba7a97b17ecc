// The messages of the rendezvous: the bytes, and the parsers that take nothing else.
#include "bootstrap/RendezvousWire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace kolo::runtime;

namespace {

kolo::runtime::Hello hello() {
  kolo::runtime::Hello made{3, 8, 4711, {}, "k1"};
  std::ranges::copy(std::string_view("boot/4026531836"), made.host.text);
  return made;
}

Roster roster() {
  Roster made;
  made.map.hostOf = {0, 0, 1};
  made.map.names = {"k0", "k1"};
  made.arrivals.resize(3);
  made.arrivals[2].pid = 77;
  made.arrivals[2].controlFd = 5;
  made.arrivals[2].controlBytes = 1 << 20;
  made.arrivals[2].endpoint[63] = std::byte(9);
  return made;
}

} // namespace

TEST(RendezvousWire, MessagesComeBackAsTheyWere) {
  Result<kolo::runtime::Hello> back = parseHello(write(hello()));
  ASSERT_TRUE(back.isOk());
  EXPECT_EQ(back->rank, 3);
  EXPECT_EQ(back->worldSize, 8);
  EXPECT_EQ(back->pid, 4711);
  EXPECT_EQ(back->host, hello().host);
  EXPECT_EQ(back->hostName, "k1");

  Welcome welcome;
  welcome.code = StatusCode::Mismatch;
  welcome.culprit = 2;
  welcome.message = "why";
  welcome.numHosts = 4;
  welcome.numHere = 3;
  welcome.world[15] = std::byte(1);
  Result<Welcome> heard = parseWelcome(write(welcome));
  ASSERT_TRUE(heard.isOk());
  EXPECT_EQ(heard->code, StatusCode::Mismatch);
  EXPECT_EQ(heard->culprit, 2);
  EXPECT_EQ(heard->message, "why");
  EXPECT_EQ(heard->numHosts, 4);
  EXPECT_EQ(heard->numHere, 3);
  EXPECT_EQ(heard->world, welcome.world);

  Arrival place;
  place.refusal = Status(StatusCode::InvalidArgument, "no interface");
  place.controlBytes = uint64_t(1) << 40;
  Result<Arrival> there = parseArrival(write(place));
  ASSERT_TRUE(there.isOk());
  EXPECT_EQ(there->refusal.message(), "no interface");
  EXPECT_EQ(there->controlBytes, uint64_t(1) << 40);
}

TEST(RendezvousWire, ARosterComesBackAsItWas) {
  std::vector<std::byte> bytes = write(roster());
  Result<size_t> rest = rosterRestBytes(std::span(bytes).first(rosterHeadBytes), 3);
  ASSERT_TRUE(rest.isOk());
  EXPECT_EQ(rosterHeadBytes + *rest, bytes.size());
  Result<Roster> back = parseRoster(bytes, 3);
  ASSERT_TRUE(back.isOk());
  EXPECT_EQ(back->map.hostOf, roster().map.hostOf);
  EXPECT_EQ(back->map.names, roster().map.names);
  EXPECT_EQ(back->arrivals[2].pid, 77);
  EXPECT_EQ(back->arrivals[2].endpoint, roster().arrivals[2].endpoint);
}

TEST(RendezvousWire, ARosterOfAnotherWorldIsRefused) {
  std::vector<std::byte> bytes = write(roster());
  EXPECT_EQ(rosterRestBytes(bytes, 4).status().code(), StatusCode::Mismatch);
  Roster refused = roster();
  refused.refusal = Status(StatusCode::Timeout, "rank 1 is late", 1);
  Result<size_t> rest = rosterRestBytes(write(refused), 3);
  EXPECT_EQ(rest.status().code(), StatusCode::Timeout);
  EXPECT_EQ(rest.status().rank(), 1);
  EXPECT_EQ(rest.status().message(), "rank 1 is late");
}

TEST(RendezvousWire, ARosterNamesNoHostWithoutRanks) {
  Roster made = roster();
  made.map.hostOf = {0, 0, 0};
  Status status = parseRoster(write(made), 3).status();
  EXPECT_EQ(status.code(), StatusCode::Mismatch);
  EXPECT_NE(status.message().find("no rank on host 1 of 2"), std::string::npos);
}

TEST(RendezvousWire, OtherVersionsByteOrdersAndTextsAreNamed) {
  HelloBytes bytes = write(hello());
  OpeningBytes opening = write(Opening{});
  EXPECT_TRUE(beginsOpening(std::span(opening).first(3)));
  bytes[8] = std::byte(77);
  EXPECT_NE(parseHello(bytes).status().message().find("version 77 of the rendezvous"), std::string::npos);
  bytes = write(hello());
  bytes[12] = std::byte(2);
  EXPECT_NE(parseHello(bytes).status().message().find("rank 3 (host k1) has another byte order"), std::string::npos);
  bytes = write(hello());
  bytes[0] = std::byte('G');
  EXPECT_FALSE(beginsOpening(bytes));
  EXPECT_FALSE(parseHello(bytes).isOk());
}

TEST(RendezvousWire, TextsOfFullLengthEnd) {
  HelloBytes bytes = write(hello());
  std::fill(bytes.begin() + 28, bytes.end(), std::byte('x'));
  Result<kolo::runtime::Hello> back = parseHello(bytes);
  ASSERT_TRUE(back.isOk());
  EXPECT_LT(std::string(back->host.text).size(), HostId::maxBytes);
}

TEST(RendezvousWire, RandomBytesDoNoHarm) {
  std::mt19937 random(18);
  std::vector<std::byte> good = write(roster());
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = good;
    bytes[random() % bytes.size()] = std::byte(random());
    if (rosterRestBytes(bytes, 3).isOk())
      (void)parseRoster(bytes, 3);
    HelloBytes hi = write(hello());
    hi[random() % hi.size()] = std::byte(random());
    (void)parseHello(hi);
    ArrivalBytes place = {};
    place[random() % place.size()] = std::byte(random());
    (void)parseArrival(place);
    OpeningBytes opening = write(Opening{rendezvousVersion, 3, true, {}});
    opening[random() % opening.size()] = std::byte(random());
    if (Result<Opening> read = parseOpening(opening); read.isOk() && read->version == rendezvousVersion) {
      ASSERT_GE(read->rank, 0);
      ASSERT_EQ(write(*read), opening); // nothing else is accepted
    }
    ChallengeBytes challenge = write(Challenge{rendezvousVersion, true, {}, {}});
    challenge[random() % challenge.size()] = std::byte(random());
    if (Result<Challenge> read = parseChallenge(challenge); read.isOk() && read->version == rendezvousVersion)
      ASSERT_EQ(write(*read), challenge);
  }
}
