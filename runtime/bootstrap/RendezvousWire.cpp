#include "bootstrap/RendezvousWire.h"

#include "base/Error.h"
#include "kolo/runtime/Communicator.h"
#include "network/Cursor.h"

#include <algorithm>
#include <bit>

namespace kolo::runtime {
namespace {

constexpr std::string_view openingMagic = "KOLOOPEN", challengeMagic = "KOLOCHAL", helloMagic = "KOLOHELO",
                           welcomeMagic = "KOLOWELC", arrivalMagic = "KOLOARRI", rosterMagic = "KOLOROST";
constexpr uint32_t nativeOrder = std::endian::native == std::endian::little ? 1 : 2; // data is sent as it is
constexpr uint32_t firstVersionWithOpening = 3; // before it, ranks began with a Hello, and rank 0 with a Welcome
constexpr size_t entryBytes = 4 * 4 + 8 + 64;

using Writer = Cursor<std::byte>;
using Reader = Cursor<const std::byte>;

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

void putEntry(Writer &writer, int host, const Arrival &place) {
  writer.put(static_cast<int32_t>(host));
  writer.put(static_cast<int32_t>(place.pid));
  writer.put(static_cast<int32_t>(place.controlFd));
  writer.put(uint32_t(0));
  writer.put(place.controlBytes);
  std::ranges::copy(place.endpoint, writer.next(place.endpoint.size()).begin());
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

std::vector<std::byte> write(const Roster &roster) {
  size_t numHosts = roster.refusal.isOk() ? roster.map.names.size() : 0;
  size_t numRanks = roster.refusal.isOk() ? roster.arrivals.size() : 0;
  std::vector<std::byte> bytes(rosterHeadBytes + numHosts * hostNameBytes + numRanks * entryBytes);
  Writer writer(bytes);
  putHead(writer, rosterMagic);
  writer.put(static_cast<int32_t>(roster.refusal.code()));
  writer.put(static_cast<int32_t>(roster.refusal.rank()));
  writer.put(static_cast<uint32_t>(numRanks));
  writer.put(static_cast<uint32_t>(numHosts));
  writer.put(uint32_t(0));
  writer.putText(roster.refusal.message(), messageTextBytes);
  for (size_t host = 0; host < numHosts; ++host)
    writer.putText(roster.map.names[host], hostNameBytes);
  for (size_t rank = 0; rank < numRanks; ++rank)
    putEntry(writer, roster.map.hostOf[rank], roster.arrivals[rank]);
  return bytes;
}

namespace {

struct RosterHead {
  uint32_t numRanks = 0, numHosts = 0;
};

/// Or the refusal in it.
Result<RosterHead> readRosterHead(Reader &reader, int numRanks) {
  if (Status status = readHead(reader, rosterMagic); !status.isOk())
    return status;
  Result<StatusCode> code = readCode(reader);
  if (!code.isOk())
    return code.status();
  auto culprit = reader.get<int32_t>();
  RosterHead head;
  head.numRanks = reader.get<uint32_t>();
  head.numHosts = reader.get<uint32_t>();
  auto zero = reader.get<uint32_t>();
  std::string message = reader.getText(messageTextBytes);
  if (*code != StatusCode::Ok)
    return Status(*code, message, culprit);
  if (zero != 0 || head.numRanks != static_cast<uint32_t>(numRanks) || head.numHosts < 2 ||
      head.numHosts > head.numRanks)
    return error(StatusCode::Mismatch, "rank 0 sent a roster of {} ranks on {} hosts to one of {} ranks", head.numRanks,
                 head.numHosts, numRanks);
  return head;
}

} // namespace

Result<size_t> rosterRestBytes(std::span<const std::byte> head, int numRanks) {
  Reader reader(head);
  Result<RosterHead> read = readRosterHead(reader, numRanks);
  if (!read.isOk())
    return read.status();
  return read->numHosts * hostNameBytes + read->numRanks * entryBytes;
}

Result<Roster> parseRoster(std::span<const std::byte> bytes, int numRanks) {
  Reader reader(bytes);
  Result<RosterHead> head = readRosterHead(reader, numRanks);
  if (!head.isOk())
    return head.status();
  Roster roster;
  for (uint32_t host = 0; host < head->numHosts; ++host)
    roster.map.names.push_back(reader.getText(hostNameBytes));
  for (uint32_t rank = 0; rank < head->numRanks; ++rank) {
    auto host = reader.get<int32_t>();
    Arrival place;
    place.pid = reader.get<int32_t>();
    place.controlFd = reader.get<int32_t>();
    auto zero = reader.get<uint32_t>();
    place.controlBytes = reader.get<uint64_t>();
    std::ranges::copy(reader.next(place.endpoint.size()), place.endpoint.begin());
    if (zero != 0 || host < 0 || static_cast<uint32_t>(host) >= head->numHosts)
      return error(StatusCode::Mismatch, "rank 0 sent a roster with rank {} on host {} of {}", rank, host,
                   head->numHosts);
    roster.map.hostOf.push_back(host);
    roster.arrivals.push_back(place);
  }
  for (int host = 0; host < roster.map.numHosts(); ++host)
    if (std::ranges::find(roster.map.hostOf, host) == roster.map.hostOf.end())
      return error(StatusCode::Mismatch, "rank 0 sent a roster with no rank on host {} of {}", host, head->numHosts);
  return roster;
}

} // namespace kolo::runtime
