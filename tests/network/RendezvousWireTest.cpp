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

Guidance guidance() {
  Guidance made;
  made.control = {77, 5, uint64_t(1) << 40};
  Guide &guide = made.guide;
  guide.numHosts = 2;
  guide.host = 1;
  guide.hostName = "k1";
  guide.provider = "verbs";
  guide.contacts = {{0, 0, "k0", {}}};
  guide.contacts[0].endpoint[63] = std::byte(9);
  guide.here = {{1, 701, {}}, {2, 702, {}}};
  guide.here[0].endpoint[0] = guide.here[1].endpoint[1] = std::byte(7);
  return made;
}

Status refusalOf(const Guidance &made, int numRanks = 3) {
  std::vector<std::byte> bytes = write(made);
  Result<size_t> rest = guidanceRestBytes(std::span(bytes).first(guidanceHeadBytes), numRanks);
  return rest.isOk() ? parseGuidance(bytes, numRanks).status() : rest.status();
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

TEST(RendezvousWire, AGuidanceComesBackAsItWas) {
  std::vector<std::byte> bytes = write(guidance());
  Result<size_t> rest = guidanceRestBytes(std::span(bytes).first(guidanceHeadBytes), 3);
  ASSERT_TRUE(rest.isOk());
  EXPECT_EQ(guidanceHeadBytes + *rest, bytes.size());
  Result<Guidance> back = parseGuidance(bytes, 3);
  ASSERT_TRUE(back.isOk()) << back.status().message();
  EXPECT_EQ(back->control.pid, 77);
  EXPECT_EQ(back->control.fd, 5);
  EXPECT_EQ(back->control.sizeBytes, uint64_t(1) << 40);
  EXPECT_EQ(back->guide.host, 1);
  EXPECT_EQ(back->guide.hostName, "k1");
  EXPECT_EQ(back->guide.provider, "verbs");
  ASSERT_EQ(back->guide.contacts.size(), 1u);
  EXPECT_EQ(back->guide.contacts[0].hostName, "k0");
  EXPECT_EQ(back->guide.contacts[0].endpoint, guidance().guide.contacts[0].endpoint);
  ASSERT_EQ(back->guide.here.size(), 2u);
  EXPECT_EQ(back->guide.here[1].rank, 2);
  EXPECT_EQ(back->guide.here[1].pid, 702);
}

TEST(RendezvousWire, AGuidanceThatNoRankZeroSendsIsRefused) {
  EXPECT_EQ(refusalOf(guidance()).message(), "");
  EXPECT_EQ(refusalOf(guidance(), 1).code(), StatusCode::Mismatch);
  auto change = [](auto how) {
    Guidance made = guidance();
    how(made.guide);
    return refusalOf(made).code();
  };
  EXPECT_EQ(change([](Guide &guide) { guide.host = 2; }), StatusCode::Mismatch);
  EXPECT_EQ(change([](Guide &guide) { guide.contacts.clear(); }), StatusCode::Mismatch);
  EXPECT_EQ(change([](Guide &guide) { guide.contacts[0].host = 1; }), StatusCode::Mismatch);
  EXPECT_EQ(change([](Guide &guide) { guide.contacts[0].rank = 3; }), StatusCode::Mismatch);
  EXPECT_EQ(change([](Guide &guide) { guide.contacts[0].endpoint = {}; }), StatusCode::Mismatch);
  EXPECT_EQ(change([](Guide &guide) { guide.here[1].rank = 1; }), StatusCode::Mismatch);
  EXPECT_EQ(change([](Guide &guide) { guide.numHosts = 3; }), StatusCode::Mismatch) << "host 2 is a neighbour, too";
}

TEST(RendezvousWire, AGuidanceSaysWhyThereIsNoWorld) {
  Guidance refused = guidance();
  refused.refusal = Status(StatusCode::Timeout, "rank 1 is late", 1);
  Status status = refusalOf(refused);
  EXPECT_EQ(status.code(), StatusCode::Timeout);
  EXPECT_EQ(status.rank(), 1);
  EXPECT_EQ(status.message(), "rank 1 is late");
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
  std::vector<std::byte> good = write(guidance());
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = good;
    bytes[random() % bytes.size()] = std::byte(random());
    if (Result<size_t> rest = guidanceRestBytes(bytes, 3); rest.isOk() && guidanceHeadBytes + *rest == bytes.size())
      (void)parseGuidance(bytes, 3);
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
