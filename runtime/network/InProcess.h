// InProcess: the ControlTransport of ranks that are threads of one process. A rank whose world is one host has it
// without a peer.
#pragma once

#include "network/ControlTransport.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

namespace kolo::runtime {

/// What the ranks of one process share: where mails wait for their receivers, and who has left.
class Mailboxes {
public:
  explicit Mailboxes(int numRanks) : boxes(static_cast<size_t>(numRanks)) {}

private:
  friend class InProcess;
  struct Sent {
    int sender = 0;
    std::vector<std::byte> text;
  };
  struct Box {
    std::mutex mutex;
    std::condition_variable arrival;
    std::deque<Sent> mails;
    std::atomic<bool> hasLeft = false;
  };

  Box &of(int rank) { return boxes[static_cast<size_t>(rank)]; }

  std::deque<Box> boxes; // by rank
};

/// Ranks of one process write to each other's memory, so there is nothing to put: `data` registers nothing, has nothing
/// to flush, and refuses puts and signals.
class InProcess final : public Transport, public ControlTransport {
public:
  InProcess(std::shared_ptr<Mailboxes> shared, const ControlOptions &given);
  /// Leaves. Its mails stay for their receivers.
  ~InProcess() override;

  Endpoint endpoint() const override { return {}; }
  Status connect(std::span<const Endpoint> endpoints) override { return connect(endpoints, {}, false); }
  Status connect(std::span<const Endpoint>, const std::vector<bool> &, bool) override { return {}; }
  void know(std::shared_ptr<const EndpointTable>) override {}
  void ask(int) override {}
  Transport &data() override { return *this; }

  Status mail(int peer, std::span<const std::byte> text) override;
  void setPatience(int, bool) override {}
  bool hasSentMails(int) const override { return true; }

  Status progress() override;
  Status idle(const Counter &counter, uint64_t target, std::chrono::steady_clock::time_point until) override;
  Status stateOf(int peer) const override;
  bool hasLeft(int peer) const override;
  bool hasFailedWith(int peer) const override;
  Status refusal() const override;
  Status troubleWith(int) const override { return {}; }
  bool isWhole(int) const override { return true; }
  size_t numConnected() const override { return 0; }
  uint64_t numMails() const override { return mailsSent.load(std::memory_order_relaxed); }

  Status registerMemory(const Registration &) override { return {}; }
  void release(uint64_t) override {}
  Status put(Path path, RemotePlace place, const void *src, uint64_t sizeBytes) override;
  Status signal(Path path, RemoteSignal signal) override;
  Status flush(uint32_t) override { return {}; }
  PutCounts countPuts(Path) const override { return noPutsUnderWay; }

private:
  Status refuse(int peer) const;

  const std::shared_ptr<Mailboxes> mailboxes;
  const int rank;
  const MailHandler receiveMail;
  std::mutex receiving; // held by the thread that hands mails over, so that they keep their order
  std::atomic<uint64_t> mailsSent = 0;
  mutable std::mutex failing;
  std::vector<Status> failures; // by what peers sent that may not be; such a peer is heard no more
};

} // namespace kolo::runtime
