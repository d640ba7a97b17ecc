// HostRounds: what the speaker of a host tells the speakers of other hosts in one exchange, and hears of them. Rounds.h
// says who tells whom. What arrives is stored in the control blocks of the ranks that announced it.
#pragma once

#include "network/ControlTransport.h"
#include "peers/Control.h"
#include "peers/Hosts.h"
#include "peers/Mail.h"
#include "peers/Rounds.h"
#include "wait/Clock.h"

#include <deque>
#include <vector>

namespace kolo::runtime {

/// Without rounds on ranks that do not speak, and where there is one host.
class HostRounds {
public:
  /// All of them must outlive this object.
  HostRounds(const Hosts &places, const Control &control, ControlTransport &mails);

  int number() const { return static_cast<int>(arrivals.size()); }
  /// The speaker of the host that sends to this one in a round, and of the host to which this one sends.
  int sourceOf(int round) const { return hosts.speakerOf(rounds.source(hosts.ownHost(), round)); }
  int targetOf(int round) const { return hosts.speakerOf(rounds.target(hosts.ownHost(), round)); }
  /// The other ranks of the host that sends first. This rank notices that one of them ends.
  const std::vector<int> &watched() const { return watchedRanks; }

  /// The number of the last exchange of which the message of a round is here.
  Counter &arrivedOf(int round) { return arrivals[static_cast<size_t>(round)].sequence; }
  /// What the hosts that it has heard of announce: see HostBlock.
  uint64_t planOf(int round, uint64_t sequence) const {
    return arrivals[static_cast<size_t>(round)].plan[sequence % 2];
  }
  const RepeatCounts &repeatsOf(int round, uint64_t sequence) const {
    return arrivals[static_cast<size_t>(round)].repeats[sequence % 2];
  }
  /// Sends what is known after the rounds before. What is not sent at once follows in `progress`.
  void send(int round, uint64_t sequence, uint64_t plan, const RepeatCounts &repeats);
  /// Whether all of this round arrives even if this rank does nothing any more.
  bool hasSent(int round) const { return network.hasSentMails(targetOf(round)); }
  /// A rank that ended or left, so that a message of this exchange cannot come any more; -1: none.
  int lostBefore(uint64_t sequence);

  /// Takes a mail of kind Round. Mismatch: it is none that may come now.
  Status take(int sender, const Mail &mail);

private:
  /// What has come in one round.
  struct Arrival {
    Counter sequence = {}; // of the last exchange whose message is here
    uint64_t plan[2] = {}; // by turn
    RepeatCounts repeats[2] = {};
  };

  Status takeEntry(int sender, const Mail &mail, const MailEntry &entry);

  const Hosts &hosts;
  const Control blocks;
  ControlTransport &network;
  const Rounds rounds;
  std::vector<int> watchedRanks;
  std::deque<Arrival> arrivals;       // by round
  std::vector<uint64_t> sentBytes;    // by round: in the last exchange
  std::vector<uint64_t> lastSequence; // by rank: the last exchange of which there is an entry here
  uint64_t lostIn = 0;                // the exchange in which a watched rank was seen to be lost, and since when
  Clock::time_point lostSince;
};

} // namespace kolo::runtime
