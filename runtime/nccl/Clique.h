// Clique: the ranks of one NCCL communicator, as far as Kolo carries their calls.
#pragma once

#include "Board.h"
#include "Types.h"

#include "kolo/runtime/Device.h"
#include "kolo/runtime/Plugin.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kolo::nccl {

/// A call as all ranks must make it alike. Whether it is carried depends on nothing else.
struct Shape {
  runtime::CollectiveKind kind = runtime::CollectiveKind::AllReduce;
  runtime::DataType type = runtime::DataType::U8;
  runtime::Reduction reduction = runtime::Reduction::Sum;
  int64_t count = 0;
  int root = 0;
  std::string program; // empty: Kolo chooses
  auto operator<=>(const Shape &) const = default;
};
std::string describe(const Shape &shape);

/// One call of one rank, and what became of it.
struct Deposit {
  enum class State : uint8_t { Waiting, Carried, Forwarded, Failed };
  Shape shape;
  runtime::RankBuffers buffers;
  Stream stream = nullptr;
  State state = State::Waiting;
  const char *reason = nullptr; // Forwarded
  Code code = Code::Success;    // Failed
  std::string message;          // Failed
};
using Ticket = std::shared_ptr<Deposit>;

/// What is decided about calls of one shape. The same on all ranks that have the same plugins.
struct Decision {
  const runtime::Plugin *plugin = nullptr; // null: not carried
  runtime::CallArguments arguments;        // without buffers; names the program
  const char *reason = "no program";
  int64_t sizeBytes = 0; // of the larger buffer of any rank
};

/// The program for calls of this shape, by the plugins' selections for this memory.
Decision decide(const Shape &shape, int numRanks, runtime::MemoryKind memory);

enum class Leave : uint8_t { Destroyed, Aborted };

/// For any thread. A rank's calls are carried in the order in which it submits them.
class Clique {
public:
  virtual ~Clique() = default;
  Clique(const Clique &) = delete;
  Clique &operator=(const Clique &) = delete;

  /// The devices of a rank are known: called once for each rank of this process, before its first call.
  virtual void attach(int rank, int device) = 0;
  /// Hands over a call. LocalClique does not block. HostClique blocks until all ranks have called if the call needs
  /// more internal memory, as DeviceCommunicator::run does.
  virtual Ticket submit(int rank, const Shape &shape, const runtime::RankBuffers &buffers, Stream stream) = 0;
  /// Blocks until it is known what became of a call. Then a carried call is in its stream.
  virtual void await(int rank, const Ticket &ticket) = 0;
  /// A failure that a device has noted since; "" if there is none. Never blocks.
  virtual std::string failure() = 0;
  /// The rank leaves: later calls fail, and so do calls of peers that wait for it. Destroyed: blocks until its memory
  /// may be freed, as NCCL does. Aborted: never blocks.
  virtual void leave(int rank, Leave how) = 0;

protected:
  /// Windows: peers access buffers directly. Ordinary: they are copied through internal memory.
  Clique(int size, runtime::MemoryKind ofBuffers) : numRanks(size), memory(ofBuffers) {}
  /// The decision about calls of this shape, kept. A new one is logged if `isSaid`.
  Decision &decisionOn(const Shape &shape, bool isSaid);
  /// Enters the outcome of a run. A refusal that aborted the communicator is not that of all ranks, so its call is
  /// not forwarded. True: the call was carried.
  bool settle(Decision &decision, Deposit &deposit, const runtime::Status &status, bool isUsable, bool isFirst) const;
  /// Ends a communicator of devices. Aborted: in a thread of its own, since peers may still use its memory.
  static void end(std::optional<runtime::DeviceCommunicator> communicator, Leave how);

  const int numRanks;
  const runtime::MemoryKind memory;

private:
  std::map<Shape, Decision> decisions;
  const Shape *lastShape = nullptr;
  Decision *lastDecision = nullptr;
};

/// All ranks are in this process, and called by any of its threads. The rank that calls last starts the call for all.
class LocalClique : public Clique {
public:
  explicit LocalClique(int size);
  void attach(int rank, int device) override;
  Ticket submit(int rank, const Shape &shape, const runtime::RankBuffers &buffers, Stream stream) override;
  void await(int rank, const Ticket &ticket) override;
  std::string failure() override;
  void leave(int rank, Leave how) override;

private:
  void start();
  void open();
  void failAll(const std::string &why);

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> devices;
  std::vector<std::deque<Ticket>> waiting; // by rank
  std::optional<runtime::DeviceCommunicator> communicator;
  runtime::Status unusable; // why there is none
  bool isOpen = false;
  int numLeft = 0;
  std::string ended; // why no call is carried any more
};

/// One rank in each of several processes of this host.
class HostClique : public Clique, public std::enable_shared_from_this<HostClique> {
public:
  /// Blocks until all ranks have come. All of them get the same answer.
  static runtime::Result<std::shared_ptr<HostClique>> connect(Board &board, int rank, int size, int device);
  void attach(int rank, int device) override {}
  Ticket submit(int rank, const Shape &shape, const runtime::RankBuffers &buffers, Stream stream) override;
  void await(int rank, const Ticket &ticket) override {}
  std::string failure() override;
  void leave(int rank, Leave how) override;

private:
  HostClique(int size, runtime::DeviceCommunicator made)
      : Clique(size, runtime::MemoryKind::Ordinary), communicator(std::move(made)) {}
  std::mutex mutex; // held in a call, which may block until all ranks have called
  std::optional<runtime::DeviceCommunicator> communicator; // none: this rank has left
};

/// How long a rank waits for another: KOLO_TIMEOUT_MS, else ten minutes, which is what PyTorch waits for NCCL.
int timeoutMs();

} // namespace kolo::nccl
