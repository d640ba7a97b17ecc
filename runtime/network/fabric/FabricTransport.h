// FabricTransport: the Transport by libfabric. README.md of this folder says how it works.
#pragma once

#include "network/Fabric.h"
#include "network/Registrations.h"
#include "network/fabric/Arrivals.h"
#include "network/fabric/Letter.h"
#include "network/fabric/Nic.h"
#include "network/fabric/SelfTest.h"

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

namespace kolo::runtime::fabric {

/// The lane of the self-test. Those of users are below.
inline constexpr uint32_t testLane = maxCountedLanes - 1;

class FabricTransport : public Fabric {
public:
  /// Opens a device of the provider. InvalidArgument, SystemError, OutOfMemory.
  static Result<std::unique_ptr<FabricTransport>> create(const FabricOptions &options, ControlTransport &mails);
  /// The same with other rules, for tests.
  static Result<std::unique_ptr<FabricTransport>> create(const FabricOptions &options, const ProviderRules &rules,
                                                         ControlTransport &mails);
  ~FabricTransport() override;

  Endpoint endpoint() const override { return {}; }
  Status connect(std::span<const Endpoint> endpoints) override;
  Status registerMemory(const Registration &registration) override;
  void release(uint64_t agreement) override;
  Status put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) override;
  Status signal(Path path, RemoteSignal signal) override;
  Status flush(uint32_t lane) override;
  Status progress() override;
  Status idle(const Counter &counter, uint64_t target, std::chrono::steady_clock::time_point until) override;
  Status stateOf(int peer) const override;
  Status take(int sender, std::span<const std::byte> mail) override;
  void ask(int peer) override;
  bool hasMet(int peer) const override;
  Status troubleWith(int peer) const override;
  void leave() override;

private:
  /// Memory of this rank that peers may write.
  struct Exposed {
    Registration registration;
    RemoteAgreement forSenders;
    std::vector<std::unique_ptr<Memory>> regions; // by role; null where nothing may be put
    std::unique_ptr<Memory> cells;
  };
  struct Request {
    bool isSignal = false, wasAsked = false;
    RemotePlace place;
    const std::byte *src = nullptr;
    uint64_t sizeBytes = 0, doneBytes = 0;
    RemoteSignal signal;
  };
  /// What one lane writes to one peer.
  struct SendPath {
    std::deque<Request> requests;          // that have not begun, or are in the middle
    std::map<uint64_t, uint64_t> underWay; // by interval: operations
    uint64_t numUnderWay = 0, numMoved = 0;
    bool wasDropped = false;                                  // some request, since the last flush
    uint64_t interval = 0, numPutsOfInterval = 0;             // an interval ends with a signal
    std::map<std::pair<uint64_t, uint32_t>, uint64_t> counts; // by agreement and semaphore: the last that was signalled
    bool isDone() const { return requests.empty() && numUnderWay == 0; }
  };
  /// How far this rank and a peer have met. Each waits for the step of the other.
  enum class Stage : uint8_t {
    Strange,    // this rank has told nothing
    Introduced, // its address; waits for the peer's
    Addressed,  // knows the peer's address; waits until the peer knows its own, where that is needed
    Tests,      // the self-test is under way; waits until the peer, too, has found all bytes right
    Met,
  };
  /// What exists until two ranks have met and nothing of the self-test is under way. It stays if they fail to meet: the
  /// peer may be writing here.
  struct Meeting {
    Meeting(int ownRank, int peer) : test(ownRank, peer) {}
    SelfTest test;
    std::unique_ptr<Memory> memory; // of the test; closed first
    std::vector<std::byte> address; // of the peer; empty: it has not told yet
    RemoteAgreement there;          // the peer's memory of the test
    Status difference;              // of the peer's device
    bool isPeerReady = false, hasPassed = false, hasPeerPassed = false;
  };
  /// A rank that this one writes to, or that writes here.
  struct Peer {
    Stage stage = Stage::Strange;
    std::unique_ptr<Meeting> meeting;
    Arrivals arrivals; // where signals are counted
    std::map<uint64_t, RemoteAgreement> agreements;
    uint64_t newest = 0; // of its registrations
    std::map<uint32_t, SendPath> paths;
    bool isLeaving = false, hasSaidAll = false, saidFarewell = false;
    std::map<std::tuple<uint64_t, uint32_t, uint32_t>, uint64_t> lastCounts; // of one that leaves, see noteLeaving
    Status refusal;                                                          // the two cannot write to each other
    Status failure;                                                          // of a write to it
    std::chrono::steady_clock::time_point failedAt;                          // if there was one
    /// Whether one of the two has told the other its address: letters of all kinds may follow.
    bool isAcquainted() const { return stage != Stage::Strange || !meeting->address.empty(); }
  };
  enum class Step : uint8_t { Done, Wait };

  FabricTransport(const FabricOptions &given, const ProviderRules &providerRules, ControlTransport &mailPath);

  Status checkPath(Path path) const;
  Status enqueue(Path path, const Request &request);

  // With `mutex` held:
  Status expose(const Registration &registration);
  void tellRegistered(int number, const Exposed &own);
  Peer &acquaintance(int number);
  bool meet(int number);
  void introduce(int number, Peer &peer);
  void takeAddress(int number, Peer &peer);
  void beginTest(int number, Peer &peer);
  void look(int number, Peer &peer);
  void giveUp(int number, Peer &peer, const Status &status);
  void refuse(Peer &peer, const Status &why);
  Status ofSelfTest(const Status &status) const;
  void tellFailed(int number, const Status &why);
  void work();
  void note(Event &event);
  void askForMemory(const Operation &operation);
  void finish(Operation &operation);
  void advance(int number, uint32_t lane);
  Step postPut(int number, uint32_t lane, SendPath &path, Request &request);
  Step postSignal(int number, uint32_t lane, SendPath &path, Request &request);
  Step postFlag(Path path, SendPath &from, const RemoteSignal &signal, const RemoteAgreement &there);
  Step postMessage(Path path, SendPath &from, const RemoteSignal &signal);
  Step begin(Posted posted, Path path, SendPath &from, Operation &operation);
  const RemoteAgreement *findThere(int number, uint64_t agreement, uint32_t lane, SendPath &path, Request &request);
  Step askAbout(int number, uint32_t lane, SendPath &path, Request &request, bool isOld = false);
  void raise(int sender, uint32_t lane, const RemoteSignal &signal);
  void fail(int number, const std::string &reason);
  Status failureOf(int number, const Peer &peer) const;
  Status firstFailure() const;
  Status answer(int sender, const Question &question);
  Status compare(int sender, const Letter &address) const;
  Status takeFrom(int sender, Peer &peer, const Letter &letter);
  Status noteAddress(int sender, Peer &peer, const Letter &letter);
  Status noteLeaving(int sender, Peer &peer, const Letter &letter);
  void answerLeaving();
  void tellLeaving(int number, Peer &peer);
  bool mustHear(int number, const Peer &peer) const;
  bool mayLeave(bool waitsForAnswers);
  Cell *ownCell(int sender, uint32_t lane, const RemoteSignal &signal) const;
  bool hasStopped() const;
  void closeDevice();
  Status closedStatus() const;
  Status flushPath(Path path);
  bool isDone(Path path, uint64_t &numMoved, bool &wasDropped);
  std::vector<int> peersOf(uint32_t lane) const;

  const FabricOptions options;
  const ProviderRules rules;
  ControlTransport &mails;
  const int creatorPid;
  DeviceKind device;
  Registrations registrations;
  std::vector<bool> mayMeet; // by rank; constant once `isConnected`

  mutable std::mutex mutex;  // of all below; never held while a mail arrives
  std::unique_ptr<Nic> nic;  // null: it was closed
  std::map<int, Peer> peers; // by rank, without those that this rank has nothing to do with
  std::set<int> meetings;    // those of them with whom more steps are to do
  std::map<uint64_t, Exposed> exposed;
  uint64_t newestExposed = 0;              // also if it was released
  std::set<std::pair<int, uint32_t>> busy; // peers and lanes that have requests
  std::vector<Operation *> idleReceives;
  std::set<int> leaving; // peers that wait for this rank's farewell
  bool hasLeft = false;  // this rank waits for no signal any more: its cells may be gone
  std::atomic<bool> hasFailed = false;
  std::atomic<bool> isSomeoneLeaving = false;
  std::atomic<bool> isConnected = false;
  std::atomic<bool> isClosed = false; // the device, after a failure
};

} // namespace kolo::runtime::fabric
