// HostRounds: what the speaker of a host tells the speakers of other hosts in one exchange, and hears of them. Rounds.h
// says who tells whom. What ranks publish is stored for the ranks of this host; of records there is a summary.
#pragma once

#include "network/ControlTransport.h"
#include "peers/CombinedRecords.h"
#include "peers/Control.h"
#include "peers/Hosts.h"
#include "peers/Mail.h"
#include "peers/Rounds.h"
#include "wait/Clock.h"

#include <map>
#include <span>
#include <vector>

namespace kolo::runtime {

/// What some hosts announce in one exchange.
struct HostsAnnounce {
  uint64_t plan = 0; // see HostBlock
  RepeatCounts repeats;
  RecordSummary records; // if `plan` is 0

  /// Adds what other hosts announce, whose records must outlive this.
  void add(const HostsAnnounce &other);
};

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
  /// What the hosts announce that the message is about.
  HostsAnnounce announcedIn(int round, uint64_t sequence) const;

  /// Begins an exchange, of which this host announces this. What it publishes is in its blocks. `combined`: what its
  /// ranks say together, if they announce planOfMeetings; what others say is added to it until the next exchange.
  void begin(uint64_t sequence, const HostsAnnounce &own, CombinedRecords *combined = nullptr);
  /// Sends what is known after the rounds before. What is not sent at once follows in `progress`.
  void send(int round);
  /// Adds what has come in a round. Requires that it is here. Mismatch: it is nothing that ranks say together.
  Status add(int round);
  /// After the last round: of all hosts.
  const HostsAnnounce &all() const { return known; }
  /// Whether all of this round arrives even if this rank does nothing any more.
  bool hasSent(int round) const { return network.hasSentMails(targetOf(round)); }
  /// A rank that ended or left, so that a message of this exchange cannot come any more; -1: none.
  int lostBefore(uint64_t sequence);

  /// Takes a mail of kind Round. Mismatch: it is none that may come now.
  Status take(int sender, const Mail &mail);

private:
  /// What has come in one round, by turn.
  struct Arrival {
    struct TurnArrival {
      uint64_t plan = 0;
      RepeatCounts repeats;
      KeptRecords records;
      std::vector<std::byte> combined; // if `plan` is planOfMeetings
    };
    Counter sequence = {}; // of the last exchange whose message is here
    TurnArrival turns[2];
    // Of the next message: the host and the place there of the rank whose entry must come next, and whether its summary
    // has come.
    int places = 0;
    size_t place = 0;
    bool hasSummary = false;
  };
  /// What this rank sent to one target, in rounds that may be several.
  struct SentBytes {
    uint64_t sequence = 0;
    uint64_t before = 0, now = 0; // bytes in the exchange before this one, and in this one
  };

  Status checkRound(int sender, const Mail &mail) const;
  Status takeEntry(int sender, const Mail &mail, const MailEntry &entry);
  Status takeCombined(int sender, const Mail &mail);
  void finish(Arrival &arrival, const Mail &mail) const;
  void sendCombined(int round, Mail &mail);
  bool isComplete(const Arrival &arrival, const Mail &mail) const;
  PublishedSize publishedHere() const;
  std::span<const std::byte> publishedBy(int rank, size_t slotBytes) const;
  void post(int round, Mail &mail, size_t sizeBytes);

  const Hosts &hosts;
  const Control blocks;
  ControlTransport &network;
  const Rounds rounds;
  std::vector<int> watchedRanks;
  std::vector<Arrival> arrivals;           // by round
  std::map<int, SentBytes> sentTo;         // by target
  uint64_t current = 0;                    // the exchange that has begun
  HostsAnnounce known;                     // in it: of this host, and of all hosts of which it has heard
  CombinedRecords *together = nullptr;     // likewise, in an exchange of planOfMeetings
  SummaryNumbers::Sums ownSums, otherSums; // of records: of this host, and of the others
  uint64_t lostIn = 0;                     // the exchange in which a watched rank was seen to be lost, and since when
  Clock::time_point lostSince;
};

} // namespace kolo::runtime
