// HostLinks: one rank's seam to the ranks of other hosts. A world of one host has it without any.
//
// Every host has a control segment of its own, with a block for every rank of the world. The lowest rank of a host is
// its speaker. The speakers exchange what the ranks of their hosts announce, in rounds, and store it in the blocks. So
// all that reads blocks is the same in a world of one host and of several.
//
// A rank is connected from the start to its neighbours: a speaker to those with whom it has rounds, and each other rank
// to the speaker of the next host. Neighbours notice that a rank ends, and pass on the failure that ends the world. A
// rank connects to others when it first writes to them, or when it has waited for one for long.
#pragma once

#include "network/ControlTransport.h"
#include "peers/Control.h"
#include "peers/HostNetwork.h"
#include "peers/HostRounds.h"
#include "peers/Hosts.h"
#include "peers/RosterRounds.h"
#include "peers/WatchedProcess.h"
#include "wait/Clock.h"
#include "wait/Wait.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace kolo::runtime {

/// The speaker of this host, and the control segment that it made.
struct SpeakerPlace {
  int rank = 0;
  Control control;
  std::shared_ptr<const void> keeper; // of its memory
};

class HostLinks final : public NetworkWait {
public:
  /// All ranks are on this host.
  static std::shared_ptr<HostLinks> ofOneHost(const Control &control, int rank);
  /// Listens. Errors as HostNetwork::listen.
  static Result<std::unique_ptr<HostLinks>> listen(const ControlOptions &place);
  /// Between ranks of one process that are as on several hosts.
  static std::unique_ptr<HostLinks> inProcess(std::shared_ptr<Mailboxes> mailboxes, const ControlOptions &place);

  Endpoint endpoint() const { return net->endpoint(); }
  /// Connects to the neighbours: see ControlTransport::connect. `endpoints`: by rank; of those of this host, only their
  /// choice of a network counts.
  Status connect(const HostMap &map, std::span<const Endpoint> endpoints, const Control &control);
  /// The same of a rank that knows its guide alone. Blocks until it knows where all ranks are. `timeoutMs`: for the
  /// latter. Timeout, PeerLost: with the rank, and as above.
  Status connectBy(const Guide &guide, const SpeakerPlace &speaker, int timeoutMs);

  const Hosts &hosts() const { return *places; }
  HostNetwork &network() const { return *net; }
  ControlTransport &control() const { return net->control(); }
  HostRounds &rounds() { return *speakersRounds; }
  /// Whether every rank is alone on its host, and only this rank needs to know where its buffers are.
  bool areApart() const { return places->areApart() && net->data().canRenew(); }

  /// What waits need of the network: null if all ranks are on this host.
  NetworkWait *wait() { return places->areSeveral() ? this : nullptr; }
  /// Sends and receives what is possible now. Never blocks. Any thread.
  void progress() override;
  /// Sleeps as Transport::idle does, at most `mostUs` microseconds.
  void sleep(const Counter &counter, uint64_t target, int64_t mostUs) override;

  /// Who takes the notes of other ranks, from now on. Any thread that makes progress calls it.
  void setNoteTaker(MailHandler taker) {
    std::scoped_lock lock(taking);
    takeNote = std::make_shared<MailHandler>(std::move(taker));
  }
  /// Sends a note to a rank of another host. A rank that is lost is noticed by those who wait for it.
  void sendNote(int peer, std::vector<std::byte> note);
  /// Tells the neighbours why the world ends, and they tell theirs.
  void tellAbort();
  /// A failure as ranks of several hosts report it: it names the host of the rank at fault, and a Timeout what keeps
  /// this rank from connecting to that rank.
  Status explain(const Status &found) const;

private:
  explicit HostLinks(int ownRank) : self(ownRank) {}
  void start(Hosts hosts, const Control &control);
  /// The given options, with what this object does for a network.
  ControlOptions optionsFor(const ControlOptions &place);
  Status meetNeighbours(std::span<const Endpoint> endpoints);
  Status meetContacts(const Guide &guide);
  Status hearRoster(const Guide &guide, int speakersRank, int timeoutMs);
  Status awaitRoster(Counter &counter, uint64_t target, const Contact &awaited, Clock::time_point until);
  bool isGone(const Contact &awaited) const;
  Status replayEarly();
  Status tellFailure(const Status &found);
  Status take(int sender, std::span<const std::byte> bytes);

  int self;
  std::optional<Hosts> places;
  Control blocks;
  std::optional<HostRounds> speakersRounds;
  std::vector<int> neighbours;
  std::optional<RosterRounds> rosterRounds;                  // while a speaker hears of all ranks
  std::vector<std::pair<int, std::vector<std::byte>>> early; // mails that came before this rank knows all, by sender
  std::function<void()> callProgress;                        // of the user; may be empty
  std::shared_ptr<const WatchedProcess> speakersProcess;     // while this rank waits for it; null: ask kill()
  std::atomic<bool> hasToldAbort = false;
  std::mutex taking; // of the next one
  std::shared_ptr<const MailHandler> takeNote;
  std::unique_ptr<HostNetwork> net; // ends first: its last mails come here
};

} // namespace kolo::runtime
