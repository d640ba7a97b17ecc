// RosterRounds: how the speakers of hosts tell each other where all ranks are, before the first exchange. Rounds.h says
// who tells whom. So rank 0 need not tell every rank of every other one.
#pragma once

#include "network/ControlTransport.h"
#include "peers/Control.h"
#include "peers/Mail.h"
#include "peers/Rounds.h"

#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace kolo::runtime {

/// A rank of another host that this rank must know from the start.
struct Contact {
  int rank = 0;
  int host = 0;
  std::string hostName;
  Endpoint endpoint = {};
};

/// A rank of this host. The endpoint has no offer of a network.
struct Neighbour {
  int rank = 0;
  int pid = 0;
  Endpoint endpoint = {};
};

/// What rank 0 tells one rank of the world. All else a speaker hears in rounds, and the other ranks of its host in
/// shared memory.
struct Guide {
  int numHosts = 0;
  int host = 0;         // of the rank
  std::string hostName; // its name
  std::string provider; // of libfabric, which all ranks chose; empty: TCP carries the data
  // With whom the rank is connected from the start: see HostLinks.
  std::vector<Contact> contacts;
  std::vector<Neighbour> here; // to a speaker alone: the ranks of its host, in their order
};

class RosterRounds {
public:
  /// Of a speaker. Stores what is known in the control segment. The mails must outlive this object.
  RosterRounds(const Guide &guide, const Control &control, ControlTransport &mails);

  int number() const { return rounds.number(); }
  /// The speaker that sends in a round.
  int sourceOf(int round) const { return speakerOf(rounds.source(ownHost, round)); }
  /// Reaches 1 when all of a round is here.
  Counter &arrivedOf(int round) { return arrivals[static_cast<size_t>(round)].isHere; }
  /// Sends what is known after the rounds before. What is not sent at once follows in `progress`.
  void send(int round);
  bool hasSent(int round) const { return network.hasSentMails(targetOf(round)); }
  /// Takes a mail of kind Roster. Mismatch: it is none that may come now.
  Status take(int sender, const Mail &mail);
  /// After the last round. Mismatch: some rank is missing.
  Status check() const;

private:
  struct Arrival {
    Counter isHere = {};
  };

  int targetOf(int round) const { return speakerOf(rounds.target(ownHost, round)); }
  int speakerOf(int host) const { return speakers.at(host); }
  void note(const RosterLine &line);
  Status takeLine(int sender, int round, const RosterLine &line);

  const Rounds rounds;
  const int ownHost;
  const Control memory;
  ControlTransport &network;
  std::map<int, int> speakers;           // of the hosts with whom this one has rounds, by host
  std::map<int, int> hostsOfSpeakers;    // the other way round
  std::vector<std::vector<int>> ranksOf; // by host
  std::deque<Arrival> arrivals;          // by round
  size_t numKnown = 0;                   // ranks
};

/// What rank 0 tells a rank of a world. `ranksOf`: by host. `endpoints`: by rank, without offers.
class GuideBook {
public:
  GuideBook(std::vector<std::vector<int>> ranksByHost, std::vector<std::string> hostNames, std::vector<int> processes,
            std::vector<Endpoint> endpointsByRank, std::string chosenProvider);
  Guide guideFor(int rank) const;

private:
  void addContact(Guide &guide, int rank) const;

  std::vector<std::vector<int>> ranksOf;
  std::vector<int> hostOf; // by rank
  std::vector<std::string> names;
  std::vector<int> pids;
  std::vector<Endpoint> endpoints;
  std::string provider;
};

} // namespace kolo::runtime
