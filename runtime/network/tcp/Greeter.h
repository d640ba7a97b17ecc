// Greeter: makes the connections of one rank to others, and keeps strangers out.
#pragma once

#include "network/Socket.h"
#include "network/tcp/Wire.h"

#include <poll.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::runtime::tcp {

/// A connection for mail ends where the peer's kernel confirms nothing for so long: the timeout of the rank, and at
/// least 3 s, for which networks may be interrupted.
inline int mailTimeoutMs(int timeoutMs) { return std::max(timeoutMs, 3000); }

/// The failure of a wait that ended with a trouble (see Greeter::troubleWith): Timeout, or what this rank lacks.
Status withTrouble(const std::string &text, const Status &trouble, int self);

/// Who greets, and how.
struct GreeterOptions {
  Hello self; // its peer and connection are ignored
  OptionalKey key;
  int timeoutMs = 30'000;
  bool mayComeLater = false; // ranks may connect after `meetAll`, and any of two ranks may open the connections
  std::function<bool()> mustStop = {}; // not null: `meetAll` asks it; true: it returns Aborted
  std::function<void()> progress = {}; // not null: `meetAll` calls it between looks
  /// So long a connection may owe its Hello, or its last proof after that.
  std::chrono::milliseconds maxSilence{5000};
};

/// A connection whose both sides have proved that they belong to the world.
struct Greeted {
  Hello hello; // of the peer
  Socket socket;
};

/// Every two ranks that talk have `numConnections` connections. One of the two opens them, and both sides send a Hello
/// with a proof; then the opener sends another one, over the nonces of both. A connection to this rank's listener is a
/// stranger if it does not do so for a place that is still missing; the greeter closes it and goes on.
///
/// In `meetAll` the rank with the larger number opens. Later, both may open the same connection at once. Then the one
/// that the larger rank opened stays: the larger rank closes the other one without an answer, and the smaller rank
/// answers.
///
/// Whose connection ends without an answer tries again, until one of the two stands: perhaps it crossed another one, or
/// came late to its own Hello. A refused connection tells that the peer has ended, and so do `maxUnanswered` in a row
/// that end so while this rank waits: another process has the peer's port. All other errors may pass.
///
/// Who has answered and hears no last proof closes the connection after `maxSilence`: a stranger that repeats a Hello
/// must not keep the rank's own connection out. One stranger may follow the other. So after `maxSilence` of them in a
/// row, a rank that wants the connection opens it itself. The smaller rank does so at once. The larger one first
/// answers nobody any more until the last of them is gone, because its own connection would stay.
///
/// An answer may have lain there for half as long when its opener finds it. Then the opener does not prove anything any
/// more, but opens the connection again. Otherwise it would take for its peer's end what is only the end of the peer's
/// patience.
///
/// All functions may be called by several threads at once.
class Greeter {
public:
  /// So many more connections than places are missing may owe their Hello at the same time. One more ends the one that
  /// has owed it for longest.
  static constexpr size_t maxSilent = 256;
  /// So many more connections than places are missing may have greeted and owe their last proof. After that only the
  /// first one of each place may greet: who repeats a greeting comes after the rank that he heard.
  static constexpr size_t maxRepeated = 64;
  /// So long a rank waits before it opens a connection again that ended without an answer.
  static constexpr std::chrono::milliseconds restAfterCrossing{10};
  /// At least 1.5 s, with two connections to each peer.
  static constexpr int maxUnanswered = 300;
  /// So long it rests after this host or its network did not allow it.
  static constexpr std::chrono::milliseconds restAfterTrouble{50};
  /// `meetAll` asks so often whether it must stop.
  static constexpr std::chrono::milliseconds stopInterval{50};
  /// `meetAll` calls `progress` so often.
  static constexpr std::chrono::milliseconds progressInterval{1};
  /// So long the listener rests when no descriptor is left.
  static constexpr std::chrono::milliseconds restWithoutDescriptors{100};

  /// `endpointsByRank`: see Transport::connect.
  Greeter(const GreeterOptions &options, Socket listeningSocket, std::span<const Endpoint> endpointsByRank)
      : self(options.self), key(options.key), timeoutMs(options.timeoutMs), mayComeLater(options.mayComeLater),
        mustStop(options.mustStop), callProgress(options.progress), maxSilence(options.maxSilence),
        listener(std::move(listeningSocket)), endpoints(endpointsByRank.begin(), endpointsByRank.end()),
        places(endpoints.size() * options.self.numConnections, Standing::Possible) {}

  /// Blocks until all connections with these ranks stand. Others may stand then, too; after a failure, some. Timeout,
  /// PeerLost, Mismatch, InvalidArgument: with the rank. Aborted.
  Status meetAll(const std::vector<bool> &ranks, std::vector<Greeted> &met);

  /// Whether there may be connections with this rank.
  bool mayMeet(int peer) const {
    return peer != static_cast<int>(self.rank) && endpoints[static_cast<size_t>(peer)] != Endpoint();
  }
  /// Asks for the connections with this rank. Never blocks.
  void want(int peer);
  /// Does what is possible now. Failures have the rank. Never blocks.
  void progress(std::vector<Greeted> &met, std::vector<Status> &failures);
  /// Why the last attempt to connect to this rank failed, if it is tried again; else what this rank lacks to accept
  /// connections; else Ok. SystemError: with this rank if it lacks something, else with the peer.
  Status troubleWith(int peer) const;
  /// Who comes from now on is refused, also where a forked child holds the listener, too.
  void close();
  /// Adds what `progress` waits for. True: `progress` must be called soon in any case.
  bool addTo(std::vector<pollfd> &entries) const;

private:
  /// A connection that has not proved that it belongs to the world.
  struct Guest {
    Socket socket;
    bool isOpenedHere = false;
    bool isConnecting = false;
    bool hasGreeted = false; // opened by a peer: its Hello was answered
    Hello hello;             // expected of a connection that was opened here; received by one that was not
    Nonce nonce = {};        // of this rank
    std::array<std::byte, greetingBytes + sizeof(SecretProof)> bytes = {};
    size_t received = 0;
    size_t numWanted() const { return greetingBytes + (hasGreeted ? sizeof(SecretProof) : 0); }
    Clock::time_point until; // when it is dropped; opened here: an answer that is found later may be too old
    Clock::time_point since; // hasGreeted: when the first in an unbroken series of guests greeted for this place
    bool isSilent() const { return !isOpenedHere && !hasGreeted; }
    bool hasToConfirm() const { return !isOpenedHere && hasGreeted; }
    /// What the greeter waits for. From a guest whose greeting has got no answer: nothing, whatever else it sends.
    pollfd entry() const {
      bool isWithheld = isSilent() && received == greetingBytes;
      return {isWithheld ? -1 : socket.descriptor(), static_cast<short>(isConnecting ? POLLOUT : POLLIN), 0};
    }
  };
  /// What became of a guest after it was heard. Crossing: another connection for the same place stays.
  enum class Fate : uint8_t { Waits, Met, Stranger, Crossing };
  enum class Standing : uint8_t { Possible, Wanted, Met, Failed };

  // All below with `mutex` held:
  void wantNow(uint32_t peer);
  void openMissing();
  void openThose(const std::vector<Hello> &wanted);
  Status open(uint32_t peer, uint16_t number);
  void step(Clock::time_point until);
  void note(uint32_t peer, const Status &failure);
  std::vector<bool> placesUnderWay() const;
  Clock::time_point greetedSince(const Hello &hello) const;
  bool hasOpened(const Hello &hello) const;
  void accept();
  Result<Fate> hear(Guest &guest);
  Status receive(Guest &guest, Fate &fate);
  Status noteUnanswered(const Guest &guest);
  Status finishConnecting(Guest &guest);
  Status connectError(uint32_t peer, int errnoValue) const;
  Status findTrouble(uint32_t peer) const;
  static Status isNot(const Guest &guest, std::string_view why);
  Status believe(Guest &guest) const;
  Fate turnAway(std::string reason);
  Fate answer(Guest &guest);
  Fate confirm(Guest &guest);
  bool sendGreeting(const Guest &guest, std::span<const std::byte> theirNonce) const;
  void take(Guest &guest);
  Status missing() const;
  size_t placeOf(const Hello &hello) const {
    return static_cast<size_t>(hello.rank) * self.numConnections + hello.connection;
  }
  void prepare(const Socket &socket, uint16_t number) const;
  Hello helloTo(uint32_t peer, uint16_t number) const;
  bool mayGreet(const Hello &hello) const;
  bool endOldestSilent();
  void makeRoom();

  const Hello self;
  const OptionalKey key;
  const int timeoutMs;
  const bool mayComeLater;
  const std::function<bool()> mustStop;
  const std::function<void()> callProgress;
  const std::chrono::milliseconds maxSilence;

  mutable std::mutex mutex; // of all below
  Socket listener;
  const std::vector<Endpoint> endpoints;
  std::vector<Standing> places; // by peer and number
  size_t numMissing = 0;        // that are wanted and not met
  std::deque<Hello> toOpen;     // connections that this rank must open: what the peer will say
  Clock::time_point openAgain = Clock::time_point::min();
  Clock::time_point acceptAgain = Clock::time_point::min();
  std::vector<Guest> guests;
  std::vector<Greeted> greeted;        // that `progress` has not handed out yet
  std::vector<Status> failed;          // likewise
  std::map<uint32_t, Status> troubles; // by rank: see troubleWith
  Status lack;                         // for connections of others: not Ok since the last one was not accepted
  std::map<uint32_t, int> unanswered;  // by rank: connections in a row that ended without an answer
  size_t numStrangers = 0;
  std::string lastStranger; // why the last one was closed
};

} // namespace kolo::runtime::tcp
