#include "Parsers.h"

#include "fuzz/ControlMessages.h"
#include "fuzz/Require.h"

#include "bootstrap/RendezvousWire.h"
#include "device/DeviceSummary.h"
#include "network/tcp/Connection.h"
#include "network/tcp/Wire.h"
#include "peers/Mail.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace kolo::test {
namespace {

using namespace kolo::runtime;

using Bytes = std::span<const std::byte>;

/// The first bytes, with zeros where there are too few.
template <size_t sizeBytes> std::array<std::byte, sizeBytes> firstOf(Bytes bytes) {
  std::array<std::byte, sizeBytes> first = {};
  std::ranges::copy(bytes.first(std::min(bytes.size(), sizeBytes)), first.begin());
  return first;
}

/// Of messages without texts: what is read is what is written.
void parseFixed(Bytes bytes) {
  auto hello = firstOf<tcp::helloBytes>(bytes);
  if (Result<tcp::Hello> parsed = tcp::parseHello(hello); parsed.isOk())
    require(tcp::write(*parsed) == hello);
  auto message = firstOf<tcp::messageBytes>(bytes);
  if (Result<tcp::Message> parsed = tcp::parseMessage(message); parsed.isOk())
    require(tcp::write(*parsed) == message);
  auto endpoint = firstOf<sizeof(Endpoint)>(bytes);
  if (Result<tcp::HostAddress> parsed = tcp::parseEndpoint(endpoint); parsed.isOk())
    require(tcp::write(*parsed) == endpoint);
  auto opening = firstOf<openingBytes>(bytes);
  if (Result<Opening> parsed = parseOpening(opening); parsed.isOk() && parsed->version == rendezvousVersion)
    require(write(*parsed) == opening);
  auto challenge = firstOf<challengeBytes>(bytes);
  if (Result<Challenge> parsed = parseChallenge(challenge); parsed.isOk() && parsed->version == rendezvousVersion)
    require(write(*parsed) == challenge);
}

/// Bytes after the end of a text do not count: what is written again is read again.
void parseRendezvous(Bytes bytes) {
  if (Result<Hello> parsed = parseHello(firstOf<helloBytes>(bytes)); parsed.isOk())
    require(parseHello(write(*parsed)).isOk());
  if (Result<Welcome> parsed = parseWelcome(firstOf<welcomeBytes>(bytes)); parsed.isOk())
    require(parseWelcome(write(*parsed)).isOk());
  if (Result<Arrival> parsed = parseArrival(firstOf<arrivalBytes>(bytes)); parsed.isOk())
    require(parseArrival(write(*parsed)).isOk());
}

/// As a rank receives it: the head says how much follows.
void parseWholeGuidance(Bytes bytes) {
  constexpr int numRanks = 3;
  if (bytes.size() < guidanceHeadBytes)
    return;
  Result<size_t> rest = guidanceRestBytes(bytes.first(guidanceHeadBytes), numRanks);
  if (!rest.isOk())
    return;
  require(*rest < 4096);
  if (bytes.size() < guidanceHeadBytes + *rest)
    return;
  Result<Guidance> guidance = parseGuidance(bytes.first(guidanceHeadBytes + *rest), numRanks);
  require(!guidance.isOk() || (guidance->guide.host < numRanks && guidance->guide.contacts.size() < numRanks));
}

void parseOneMail(Bytes bytes) {
  Result<Mail> mail = parseMail(bytes);
  if (!mail.isOk())
    return;
  for (const MailEntry &entry : mail->entries)
    require(entry.published.size() <= Announcement::maxPublishedBytes);
  require(parseMail(write(*mail)).isOk());
}

/// What is read again says the same.
void addToSummary(Bytes bytes) {
  constexpr int numRanks = 100;
  DeviceSummary said(numRanks), again(numRanks);
  if (!said.add(bytes).isOk())
    return;
  require(said.rankOf(DeviceKept::First) >= 0 && said.refusal().rank < numRanks && said.unreached() < numRanks);
  const std::vector<std::byte> written = said.write();
  require(written.size() <= maxCombinedBytes && again.add(written).isOk() && again.write() == written);
}

/// What a peer sends after its Hello, on a connection of two for data or on the one for mail.
void receiveStream(Bytes bytes, bool isForMail) {
  constexpr size_t sizeBytes = 256, margin = 64;
  std::array<int, 2> ends = {};
  require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
  Socket peer(ends[0]);
  MailHandler handler = [](int, Bytes mail) {
    parseOneMail(mail);
    return Status();
  };
  tcp::Hello hello;
  hello.numConnections = 2;
  hello.connection = isForMail ? 1 : 0;
  hello.rank = 1;
  hello.numRanks = 2;
  hello.hasMail = true;
  tcp::Connection connection(hello, &handler);
  connection.attach(Socket(ends[1]));
  std::array<std::byte, sizeBytes + 2 * margin> memory = {};
  std::array<Cell, 16> cells = {};
  Registrations registrations(2);
  Registration registration{1, {{&memory[margin], sizeBytes}}, {true, true}, cells.data(), 2, 4, false};
  require(registrations.add(registration).isOk());
  bool hasRaised = false;
  Status status;
  while (!bytes.empty() && status.isOk()) {
    Bytes next = bytes.first(std::min<size_t>(bytes.size(), 1000));
    ssize_t sent = send(peer.descriptor(), next.data(), next.size(), MSG_NOSIGNAL);
    status = connection.received().receive(registrations, hasRaised);
    if (sent <= 0) // an early message waits
      break;
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  peer = {};
  for (int look = 0; look < 4 && status.isOk(); ++look)
    status = connection.received().receive(registrations, hasRaised);
  auto isZero = [](std::byte byte) { return byte == std::byte(0); };
  require(std::all_of(memory.begin(), memory.begin() + margin, isZero));
  require(std::all_of(memory.end() - margin, memory.end(), isZero));
}

} // namespace

void parseAny(Bytes input) {
  if (input.empty())
    return;
  Bytes bytes = input.subspan(1);
  switch (static_cast<unsigned>(input[0]) % numParsers) {
  case 0:
    return parseFixed(bytes);
  case 1:
    return parseRendezvous(bytes);
  case 2:
    return parseWholeGuidance(bytes);
  case 3:
    return parseOneMail(bytes);
  case 4:
    return receiveStream(bytes, false);
  case 5:
    return receiveStream(bytes, true);
  case 6:
    return parseOffer(bytes);
  case 7:
    return addToSummary(bytes);
  default:
    return parseOneControlMessage(bytes);
  }
}

std::vector<std::vector<std::byte>> seeds() {
  std::vector<std::vector<std::byte>> all;
  auto add = [&](int parser, std::span<const std::byte> bytes) {
    all.push_back({std::byte(parser)});
    all.back().insert(all.back().end(), bytes.begin(), bytes.end());
  };
  add(0, tcp::write(tcp::Hello{2, 1, 1, 0, 2, {}, true}));
  add(0, write(Opening{}));
  add(0, write(Challenge{}));
  tcp::HostAddress address{false, 4711, 0, {}};
  add(0, tcp::write(address));
  add(1, write(Hello{1, 2, 4711, {}, "host"}));
  Welcome welcome;
  welcome.message = "why";
  add(1, write(welcome));
  Arrival arrival;
  arrival.refusal = Status(StatusCode::SystemError, "why");
  add(1, write(arrival));
  const GuideBook book({{0, 1}, {2}}, {"k0", "k1"}, {11, 12, 13}, {{std::byte(1)}, {std::byte(2)}, {std::byte(3)}},
                       "verbs");
  for (int rank : {0, 1, 2})
    add(2, write(Guidance{{}, {11, 3, 1 << 20}, book.guideFor(rank)}));
  std::vector<std::byte> published(100, std::byte(3));
  for (uint64_t plan : {uint64_t(0), uint64_t(7), differentPlans, uint64_t(1)}) { // the last one: an abort
    Mail mail;
    mail.kind = plan == 1 ? MailKind::Abort : MailKind::Round;
    mail.cause = plan == 1 ? Status(StatusCode::PeerLost, "why", 1) : Status();
    mail.sequence = plan == 1 ? 0 : 1;
    mail.plan = plan;
    const Record record;
    if (plan == 0)
      mail.summary = RecordSummary(1, record, 0);
    mail.slotBytes = 112;
    mail.entries.resize(plan == 0 || plan == 7 ? 2 : 0);
    for (MailEntry &entry : mail.entries)
      entry.published = published;
    std::vector<std::byte> text = write(mail);
    add(3, text);
    tcp::MessageBytes head = tcp::write(tcp::Message{tcp::MessageKind::Mail, 0, 0, 0, text.size(), 0, 0, 0, 0});
    text.insert(text.begin(), head.begin(), head.end());
    add(5, text);
  }
  Mail note;
  note.kind = MailKind::Note;
  note.note = published;
  add(3, write(note));
  Mail lines;
  lines.kind = MailKind::Roster;
  lines.lines = {{1, -1, {std::byte('k')}}, {1, 2, {std::byte(3)}}};
  add(3, write(lines));
  std::vector<std::byte> stream;
  auto append = [&](const tcp::Message &message) {
    tcp::MessageBytes head = tcp::write(message);
    stream.insert(stream.end(), head.begin(), head.end());
    stream.resize(stream.size() + message.sizeBytes, std::byte(9));
  };
  append({tcp::MessageKind::PutAndSignal, 0, 1, 16, 100, 0, 0, 1, 1});
  append({tcp::MessageKind::Signal, 0, 0, 0, 0, 1, 2, 1, 1});
  append({tcp::MessageKind::Put, 0, 1, 0, 256, 0, 0, 0, 0});
  append({tcp::MessageKind::Signal, 0, 0, 0, 0, 0, 1, 1, 3});
  append({});
  add(4, stream);
  add(6, seedOfOffer());
  for (const std::vector<std::byte> &message : seedsOfControlMessages())
    add(8, message);
  DeviceRecord record;
  setRefusal(record, Status(StatusCode::OutOfMemory, "why"));
  record.captured[7] = true;
  std::vector<std::byte> ofRank(sizeof(record));
  std::memcpy(ofRank.data(), &record, sizeof(record));
  DeviceSummary said(100);
  said.addRank(3, ofRank.data());
  add(7, said.write());
  return all;
}

} // namespace kolo::test
