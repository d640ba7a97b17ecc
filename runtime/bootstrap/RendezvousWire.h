// RendezvousWire: the messages of the rendezvous as bytes: of fixed layout, little-endian, with a version.
#pragma once

#include "bootstrap/Rendezvous.h"
#include "network/ControlTransport.h"
#include "peers/RosterRounds.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

inline constexpr uint32_t rendezvousVersion = 5;
inline constexpr size_t magicBytes = 8;
inline constexpr size_t messageTextBytes = 256; // of texts, with the zero at the end

/// The first message of a rank to rank 0. Nobody has proved anything yet.
struct Opening {
  uint32_t version = rendezvousVersion;
  int rank = 0;
  bool hasSecret = false;
  Nonce nonce = {};
};

/// The answer to it. The proof is of the Opening and this nonce, under the label challengeLabel.
struct Challenge {
  uint32_t version = rendezvousVersion;
  bool hasSecret = false;
  Nonce nonce = {};
  SecretProof proof = {};
};

inline constexpr std::string_view challengeLabel = "rank 0", helloLabel = "rank", worldLabel = "world",
                                  secretLabel = "same secret";

/// From every rank to rank 0. A proof follows it: of the Opening, the nonce of the Challenge, and the Hello, under
/// helloLabel.
struct Hello {
  int rank = 0;
  int worldSize = 0;
  int pid = 0;
  HostId host;
  std::string hostName;
};

/// From rank 0 to every rank.
struct Welcome {
  StatusCode code = StatusCode::Ok; // not Ok: `message` and `culprit` say why
  int culprit = -1;
  std::string message;
  int numHosts = 1;
  int leader = 0;  // the lowest rank of the receiver's host, which makes the control segment there
  int numHere = 0; // of several hosts: the number of ranks there
  // Of one host: where the control segment is. Of several: 0.
  int leaderPid = 0;
  int controlFd = -1;
  uint64_t controlBytes = 0;
  WorldNumber world = {}; // of several hosts
};

/// From every rank of several hosts to rank 0: where it listens, and where its control segment is if it is a leader.
struct Arrival {
  Status refusal; // not Ok: this rank cannot take part
  int pid = 0;
  int controlFd = -1;
  uint64_t controlBytes = 0;
  Endpoint endpoint = {};
};

/// From rank 0 to every rank of several hosts.
struct Guidance {
  Status refusal;       // not Ok: there is no world
  ControlPlace control; // of the receiver's host
  Guide guide;
};

inline constexpr size_t openingBytes = magicBytes + 4 * 4 + sizeof(Nonce);
inline constexpr size_t challengeBytes = magicBytes + 2 * 4 + sizeof(Nonce) + sizeof(SecretProof);
inline constexpr size_t helloBytes = magicBytes + 5 * 4 + HostId::maxBytes + hostNameBytes;
inline constexpr size_t welcomeBytes = magicBytes + 7 * 4 + 4 + 8 + 16 + messageTextBytes;
inline constexpr size_t arrivalBytes = magicBytes + 4 + 4 + 4 + 4 + 8 + 64 + messageTextBytes;
inline constexpr size_t providerTextBytes = 32;
inline constexpr size_t guidanceHeadBytes =
    magicBytes + 4 + 2 * 4 + 4 * 4 + 2 * 4 + 8 + providerTextBytes + hostNameBytes + messageTextBytes;
using OpeningBytes = std::array<std::byte, openingBytes>;
using ChallengeBytes = std::array<std::byte, challengeBytes>;
using HelloBytes = std::array<std::byte, helloBytes>;
using WelcomeBytes = std::array<std::byte, welcomeBytes>;
using ArrivalBytes = std::array<std::byte, arrivalBytes>;

OpeningBytes write(const Opening &opening);
ChallengeBytes write(const Challenge &challenge);
HelloBytes write(const Hello &hello);
WelcomeBytes write(const Welcome &welcome);
ArrivalBytes write(const Arrival &place);
std::vector<std::byte> write(const Guidance &guidance);

/// Whether the first bytes may be of such a message.
bool beginsOpening(std::span<const std::byte> bytes);
bool beginsChallenge(std::span<const std::byte> bytes);

/// Of any version; of another one than this, the fields after `rank` are not read. Mismatch: something else.
Result<Opening> parseOpening(std::span<const std::byte, openingBytes> bytes);
/// Whether a rank of its version finds rank 0's version in a Welcome, because it knows no Challenge.
bool expectsWelcome(const Opening &opening);
/// The same; of another version, no field after it is read.
Result<Challenge> parseChallenge(std::span<const std::byte, challengeBytes> bytes);

/// Mismatch: another version or byte order, or a field out of range.
Result<Hello> parseHello(std::span<const std::byte, helloBytes> bytes);
Result<Welcome> parseWelcome(std::span<const std::byte, welcomeBytes> bytes);
Result<Arrival> parseArrival(std::span<const std::byte, arrivalBytes> bytes);
/// The bytes that follow the head of a guidance in a world of so many ranks. Mismatch, or the refusal in it.
Result<size_t> guidanceRestBytes(std::span<const std::byte> head, int numRanks);
Result<Guidance> parseGuidance(std::span<const std::byte> bytes, int numRanks);

} // namespace kolo::runtime
