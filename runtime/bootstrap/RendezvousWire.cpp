#include "bootstrap/RendezvousWire.h"

#include "base/Error.h"
#include "kolo/runtime/Communicator.h"
#include "network/Cursor.h"

#include <algorithm>
#include <bit>

namespace kolo::runtime {
namespace {

constexpr std::string_view openingMagic = "KOLOOPEN", challengeMagic = "KOLOCHAL", helloMagic = "KOLOHELO",
                           welcomeMagic = "KOLOWELC", arrivalMagic = "KOLOARRI", guidanceMagic = "KOLOGUID";
constexpr uint32_t nativeOrder = std::endian::native == std::endian::little ? 1 : 2; // data is sent as it is
constexpr uint32_t firstVersionWithOpening = 3; // before it, ranks began with a Hello, and rank 0 with a Welcome
constexpr size_t contactBytes = 2 * 4 + hostNameBytes + sizeof(Endpoint);
constexpr size_t neighbourBytes = 2 * 4 + sizeof(Endpoint);

bool begins(std::span<const std::byte> bytes, std::string_view magic) {
  for (size_t i = 0; i < std::min(bytes.size(), magic.size()); ++i)
    if (bytes[i] != static_cast<std::byte>(magic[i]))
      return false;
  return true;
}

void putHead(Writer &writer, std::string_view magic) {
  for (char letter : magic)
    writer.put(static_cast<uint8_t>(letter));
  writer.put(rendezvousVersion);
}

Status readHead(Reader &reader, std::string_view magic) {
  if (!begins(reader.next(magicBytes), magic))
    return error(StatusCode::Mismatch, "the rendezvous expected {} and got something else", magic);
  if (auto version = reader.get<uint32_t>(); version != rendezvousVersion)
    return error(StatusCode::Mismatch, "a rank speaks version {} of the rendezvous, this rank version {}", version,
                 rendezvousVersion);
  return {};
}

Result<StatusCode> readCode(Reader &reader) {
  auto code = reader.get<int32_t>();
  if (code < 0 || code > static_cast<int32_t>(StatusCode::DeviceError))
    return error(StatusCode::Mismatch, "the rendezvous got the unknown error code {}", code);
  return static_cast<StatusCode>(code);
}

} // namespace

HelloBytes write(const Hello &hello) {
  HelloBytes bytes = {};
  Writer writer(bytes);
  putHead(writer, helloMagic);
  writer.put(nativeOrder);
  writer.put(static_cast<int32_t>(hello.rank));
  writer.put(static_cast<int32_t>(hello.worldSize));
  writer.put(static_cast<int32_t>(hello.pid));
  writer.putText(hello.host.text, HostId::maxBytes);
  writer.putText(hello.hostName, hostNameBytes);
  return bytes;
}

bool beginsOpening(std::span<const std::byte> bytes) {
  return begins(bytes, openingMagic) || begins(bytes, helloMagic);
}
bool beginsChallenge(std::span<const std::byte> bytes) { return begins(bytes, challengeMagic); }

OpeningBytes write(const Opening &opening) {
  OpeningBytes bytes = {};
  Writer writer(bytes);
  putHead(writer, openingMagic);
  writer.put(static_cast<int32_t>(opening.rank));
  writer.put(uint32_t(opening.hasSecret ? 1 : 0));
  writer.put(uint32_t(0));
  std::ranges::copy(opening.nonce, writer.next(opening.nonce.size()).begin());
  return bytes;
}

Result<Opening> parseOpening(std::span<const std::byte, openingBytes> bytes) {
  Reader reader(bytes);
  Opening opening;
  auto magic = reader.next(magicBytes);
  opening.version = reader.get<uint32_t>();
  bool isOld = opening.version >= 1 && opening.version < firstVersionWithOpening;
  bool isOpening = begins(magic, isOld ? helloMagic : openingMagic);
  if (isOld && opening.version == 2)
    (void)reader.get<uint32_t>(); // the byte order
  opening.rank = reader.get<int32_t>();
  if (!isOpening || opening.rank < 0)
    return error(StatusCode::Mismatch, "an opening of rank {} that no rank sends", opening.rank);
  if (opening.version != rendezvousVersion)
    return opening; // what follows is of another form
  auto hasSecret = reader.get<uint32_t>(), zero = reader.get<uint32_t>();
  if (hasSecret > 1 || zero != 0)
    return error(StatusCode::Mismatch, "an opening of rank {} that no rank sends", opening.rank);
  opening.hasSecret = hasSecret == 1;
  std::ranges::copy(reader.next(opening.nonce.size()), opening.nonce.begin());
  return opening;
}

bool expectsWelcome(const Opening &opening) { return opening.version < firstVersionWithOpening; }

ChallengeBytes write(const Challenge &challenge) {
  ChallengeBytes bytes = {};
  Writer writer(bytes);
  putHead(writer, challengeMagic);
  writer.put(uint32_t(challenge.hasSecret ? 1 : 0));
  std::ranges::copy(challenge.nonce, writer.next(challenge.nonce.size()).begin());
  std::ranges::copy(challenge.proof, writer.next(challenge.proof.size()).begin());
  return bytes;
}

Result<Challenge> parseChallenge(std::span<const std::byte, challengeBytes> bytes) {
  Reader reader(bytes);
  Challenge challenge;
  bool isChallenge = begins(reader.next(magicBytes), challengeMagic);
  challenge.version = reader.get<uint32_t>();
  auto hasSecret = reader.get<uint32_t>();
  bool isOfThisVersion = challenge.version == rendezvousVersion;
  if (!isChallenge || (isOfThisVersion && hasSecret > 1))
    return error(StatusCode::Mismatch, "rank 0 sent a challenge that no rank 0 sends");
  challenge.hasSecret = isOfThisVersion && hasSecret == 1;
  std::ranges::copy(reader.next(challenge.nonce.size()), challenge.nonce.begin());
  std::ranges::copy(reader.next(challenge.proof.size()), challenge.proof.begin());
  return challenge;
}

Result<Hello> parseHello(std::span<const std::byte, helloBytes> bytes) {
  Reader reader(bytes);
  if (Status status = readHead(reader, helloMagic); !status.isOk())
    return status;
  auto order = reader.get<uint32_t>();
  Hello hello;
  hello.rank = reader.get<int32_t>();
  hello.worldSize = reader.get<int32_t>();
  hello.pid = reader.get<int32_t>();
  std::string host = reader.getText(HostId::maxBytes);
  std::copy_n(host.data(), std::min(host.size(), HostId::maxBytes - 1), hello.host.text);
  hello.hostName = reader.getText(hostNameBytes);
  if (order != nativeOrder)
    return rankError(StatusCode::Mismatch, hello.rank, "rank {} (host {}) has another byte order than rank 0",
                     hello.rank, hello.hostName);
  if (hello.pid <= 0)
    return error(StatusCode::Mismatch, "rank {} gave process number {}", hello.rank, hello.pid);
  return hello;
}

WelcomeBytes write(const Welcome &welcome) {
  WelcomeBytes bytes = {};
  Writer writer(bytes);
  putHead(writer, welcomeMagic);
  for (int number : {static_cast<int>(welcome.code), welcome.culprit, welcome.numHosts, welcome.leader,
                     welcome.leaderPid, welcome.controlFd, welcome.numHere})
    writer.put(static_cast<int32_t>(number));
  writer.put(welcome.controlBytes);
  std::ranges::copy(welcome.world, writer.next(welcome.world.size()).begin());
  writer.putText(welcome.message, messageTextBytes);
  return bytes;
}

Result<Welcome> parseWelcome(std::span<const std::byte, welcomeBytes> bytes) {
  Reader reader(bytes);
  if (Status status = readHead(reader, welcomeMagic); !status.isOk())
    return status;
  Result<StatusCode> code = readCode(reader);
  if (!code.isOk())
    return code.status();
  Welcome welcome;
  welcome.code = *code;
  for (int *number :
       {&welcome.culprit, &welcome.numHosts, &welcome.leader, &welcome.leaderPid, &welcome.controlFd, &welcome.numHere})
    *number = reader.get<int32_t>();
  welcome.controlBytes = reader.get<uint64_t>();
  std::ranges::copy(reader.next(welcome.world.size()), welcome.world.begin());
  welcome.message = reader.getText(messageTextBytes);
  bool isHostRight = welcome.numHere >= (welcome.numHosts > 1 ? 1 : 0) && welcome.numHere <= maxRanks;
  if (welcome.numHosts < 1 || welcome.leader < 0 || !isHostRight)
    return error(StatusCode::Mismatch, "rank 0 sent an answer that no rank 0 of this version sends");
  return welcome;
}

ArrivalBytes write(const Arrival &place) {
  ArrivalBytes bytes = {};
  Writer writer(bytes);
  putHead(writer, arrivalMagic);
  writer.put(static_cast<int32_t>(place.refusal.code()));
  writer.put(static_cast<int32_t>(place.pid));
  writer.put(static_cast<int32_t>(place.controlFd));
  writer.put(place.controlBytes);
  std::ranges::copy(place.endpoint, writer.next(place.endpoint.size()).begin());
  writer.putText(place.refusal.message(), messageTextBytes);
  return bytes;
}

Result<Arrival> parseArrival(std::span<const std::byte, arrivalBytes> bytes) {
  Reader reader(bytes);
  if (Status status = readHead(reader, arrivalMagic); !status.isOk())
    return status;
  Result<StatusCode> code = readCode(reader);
  if (!code.isOk())
    return code.status();
  Arrival place;
  place.pid = reader.get<int32_t>();
  place.controlFd = reader.get<int32_t>();
  place.controlBytes = reader.get<uint64_t>();
  std::ranges::copy(reader.next(place.endpoint.size()), place.endpoint.begin());
  place.refusal = Status(*code, reader.getText(messageTextBytes));
  return place;
}

std::vector<std::byte> write(const Guidance &guidance) {
  const Guide &guide = guidance.guide;
  std::vector<std::byte> bytes(guidanceHeadBytes + guide.contacts.size() * contactBytes +
                               guide.here.size() * neighbourBytes);
  Writer writer(bytes);
  putHead(writer, guidanceMagic);
  writer.put(static_cast<int32_t>(guidance.refusal.code()));
  writer.put(static_cast<int32_t>(guidance.refusal.rank()));
  for (int number : {guide.numHosts, guide.host, static_cast<int>(guide.contacts.size()),
                     static_cast<int>(guide.here.size()), guidance.control.pid, guidance.control.fd})
    writer.put(static_cast<int32_t>(number));
  writer.put(guidance.control.sizeBytes);
  writer.putText(guide.provider, providerTextBytes);
  writer.putText(guide.hostName, hostNameBytes);
  writer.putText(guidance.refusal.message(), messageTextBytes);
  for (const Contact &one : guide.contacts) {
    writer.put(static_cast<int32_t>(one.rank));
    writer.put(static_cast<int32_t>(one.host));
    writer.putText(one.hostName, hostNameBytes);
    std::ranges::copy(one.endpoint, writer.next(one.endpoint.size()).begin());
  }
  for (const Neighbour &one : guide.here) {
    writer.put(static_cast<int32_t>(one.rank));
    writer.put(static_cast<int32_t>(one.pid));
    std::ranges::copy(one.endpoint, writer.next(one.endpoint.size()).begin());
  }
  return bytes;
}

namespace {

struct GuidanceHead {
  Guidance guidance; // without contacts and neighbours
  size_t numContacts = 0, numHere = 0;
};

/// Or the refusal in it.
Result<GuidanceHead> readGuidanceHead(Reader &reader, int numRanks) {
  if (Status status = readHead(reader, guidanceMagic); !status.isOk())
    return status;
  Result<StatusCode> code = readCode(reader);
  if (!code.isOk())
    return code.status();
  auto culprit = reader.get<int32_t>();
  GuidanceHead head;
  Guide &guide = head.guidance.guide;
  guide.numHosts = reader.get<int32_t>();
  guide.host = reader.get<int32_t>();
  auto numContacts = reader.get<int32_t>(), numHere = reader.get<int32_t>();
  head.guidance.control.pid = reader.get<int32_t>();
  head.guidance.control.fd = reader.get<int32_t>();
  head.guidance.control.sizeBytes = reader.get<uint64_t>();
  guide.provider = reader.getText(providerTextBytes);
  guide.hostName = reader.getText(hostNameBytes);
  std::string message = reader.getText(messageTextBytes);
  if (*code != StatusCode::Ok)
    return Status(*code, message, culprit);
  if (guide.numHosts < 2 || guide.numHosts > numRanks || guide.host < 0 || guide.host >= guide.numHosts ||
      numContacts < 1 || numContacts >= numRanks || numHere < 0 || numHere >= numRanks)
    return error(StatusCode::Mismatch,
                 "rank 0 sent a guidance for host {} of {}, with {} contacts and {} neighbours, to one of {} ranks",
                 guide.host, guide.numHosts, numContacts, numHere, numRanks);
  head.numContacts = static_cast<size_t>(numContacts);
  head.numHere = static_cast<size_t>(numHere);
  return head;
}

} // namespace

Result<size_t> guidanceRestBytes(std::span<const std::byte> head, int numRanks) {
  Reader reader(head);
  Result<GuidanceHead> read = readGuidanceHead(reader, numRanks);
  if (!read.isOk())
    return read.status();
  return read->numContacts * contactBytes + read->numHere * neighbourBytes;
}

Result<Guidance> parseGuidance(std::span<const std::byte> bytes, int numRanks) {
  Reader reader(bytes);
  Result<GuidanceHead> head = readGuidanceHead(reader, numRanks);
  if (!head.isOk())
    return head.status();
  Guide &guide = head->guidance.guide;
  bool areRight = true;
  for (size_t i = 0; i < head->numContacts; ++i) {
    Contact &one = guide.contacts.emplace_back();
    one.rank = reader.get<int32_t>();
    one.host = reader.get<int32_t>();
    one.hostName = reader.getText(hostNameBytes);
    std::ranges::copy(reader.next(one.endpoint.size()), one.endpoint.begin());
    areRight &= one.rank >= 0 && one.rank < numRanks && one.host >= 0 && one.host < guide.numHosts &&
                one.host != guide.host && one.endpoint != Endpoint();
  }
  for (size_t i = 0; i < head->numHere; ++i) {
    Neighbour &one = guide.here.emplace_back();
    one.rank = reader.get<int32_t>();
    one.pid = reader.get<int32_t>();
    std::ranges::copy(reader.next(one.endpoint.size()), one.endpoint.begin());
    areRight &= one.rank >= 0 && one.rank < numRanks && one.endpoint != Endpoint() &&
                (i == 0 || one.rank > guide.here[i - 1].rank);
  }
  const Rounds rounds{guide.numHosts};
  auto isKnown = [&](int host) {
    return std::ranges::find(guide.contacts, host, &Contact::host) != guide.contacts.end();
  };
  for (int round = 0; !guide.here.empty() && round < rounds.number(); ++round)
    areRight &= isKnown(rounds.target(guide.host, round)) && isKnown(rounds.source(guide.host, round));
  if (!areRight)
    return error(StatusCode::Mismatch, "rank 0 sent a guidance that no rank 0 sends");
  return head->guidance;
}

} // namespace kolo::runtime
