// Carrier: the ranks of one NCCL communicator, as far as Kolo carries their calls.
#pragma once

#include "Board.h"
#include "Types.h"

#include "kolo/runtime/Device.h"
#include "kolo/runtime/Door.h"
#include "kolo/runtime/Plugin.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kolo::nccl {

/// A call as all ranks must make it alike. Whether it is carried depends on nothing else.
struct Shape : runtime::CallShape {
  std::string program;                                       // empty: Kolo chooses
  runtime::MemoryKind memory = runtime::MemoryKind::Windows; // Windows: peers access the buffers directly
  bool hasTables = false; // blocks have lengths of their own, and none is longer than `count`
  auto operator<=>(const Shape &) const = default;
};
std::string describe(const Shape &shape);

/// One call of one rank, and what became of it.
struct CallRequest {
  enum class State : uint8_t { Waiting, Carried, Forwarded, Failed };
  Shape shape;
  runtime::RankBuffers buffers;
  Stream stream = nullptr;
  std::atomic<State> state = State::Waiting; // written last: another thread may read the rest then
  const char *reason = nullptr;              // Forwarded
  Code code = Code::Success;                 // Failed
  std::string message;                       // Failed
};
using RequestPointer = std::shared_ptr<CallRequest>;

/// Why a call is forwarded if the runtime refuses its memory on all ranks.
inline constexpr const char *unusableMemory = "memory or devices that Kolo cannot use";

/// What is decided about calls of one shape. The same on all ranks that have the same plugins.
struct Decision {
  const runtime::Plugin *plugin = nullptr; // null: not carried
  runtime::CallArguments arguments;        // without buffers; names the program
  const char *reason = "no program";
  int64_t sizeBytes = 0; // of the larger buffer of any rank
};

/// The program for calls of this shape, by the plugins' selections. `communicator`: that is to run it; null: it is not
/// made yet, and all ranks are of one host.
Decision decide(const Shape &shape, int numRanks, const runtime::DeviceCommunicator *communicator);

/// Whether some program might carry an all-to-all with block tables. The same on all ranks that have the same plugins.
bool haveTableProgram();

/// What one rank finds out about a call with block tables before it agrees to it.
struct Examined {
  const char *whyNot = nullptr; // null: this rank can make it
  uint64_t windows[2] = {};     // that its input and its output are in. Ranks can make the call if these are equal
};

class HostCarrier;
enum class Leave : uint8_t { Destroyed, Aborted };

/// For any thread. A rank's calls are carried in the order in which it submits them.
class Carrier {
public:
  virtual ~Carrier() = default;
  Carrier(const Carrier &) = delete;
  Carrier &operator=(const Carrier &) = delete;

  /// The devices of a rank are known: called once for each rank of this process, before its first call.
  virtual void attach(int rank, int device) = 0;
  /// Hands over a call. LocalCarrier blocks only while another rank waits for devices in `flush`. HostCarrier blocks
  /// until all ranks have called if the call needs more internal memory, as DeviceCommunicator::run does; so a thread
  /// with several ranks uses submitAll.
  virtual RequestPointer submit(int rank, const Shape &shape, const runtime::RankBuffers &buffers, Stream stream) = 0;
  /// Looks at a call with block tables, whose buffers have these sizes in bytes. Ranks with plugins alike that find
  /// nothing against it do not refuse it, but for want of memory. Blocks as `submit` of LocalCarrier.
  virtual Examined examine(int rank, const Shape &shape, const runtime::RankBuffers &buffers,
                           const std::array<size_t, 2> &sizeBytes) = 0;
  /// Blocks until it is known what became of a call. Then a carried call is in its stream.
  virtual void await(int rank, const RequestPointer &request) = 0;
  /// Blocks until the calls that were started are done, or have failed, or a rank of this process aborts. Returns the
  /// failure; Ok after this rank has left.
  virtual runtime::Status flush(int rank) = 0;
  /// A failure that a device has noted since, or a peer. Never blocks.
  virtual runtime::Status failure() = 0;
  /// The rank leaves: later calls fail, and so do calls of peers that wait for it. A second time changes nothing.
  /// Destroyed: blocks until this rank's calls are done, and, where its peers are in other processes only, until its
  /// memory may be freed; returns the failure of calls as `flush` does. Aborted: never blocks, and returns Ok.
  virtual runtime::Status leave(int rank, Leave how) = 0;
  /// The carrier as one that knows one rank only; null: it is none.
  virtual HostCarrier *ofOneRank() { return nullptr; }

protected:
  explicit Carrier(int size) : numRanks(size) {}
  /// The decision about calls of this shape, as of `decide`, kept. A new one is logged if `isSaid`.
  Decision &decisionOn(const Shape &shape, bool isSaid, const runtime::DeviceCommunicator *communicator = nullptr);
  /// Enters the outcome of a run, and counts the call if it was carried. A refusal that aborted the communicator is not
  /// that of all ranks, so its call is not forwarded.
  void settle(Decision &decision, CallRequest &request, const runtime::Status &status, bool isUsable,
              bool isFirst) const;
  /// Ends a communicator of devices. Aborted: in a thread of its own, since peers may still use its memory.
  static void end(std::shared_ptr<runtime::DeviceCommunicator> communicator, Leave how);

  /// Fails, with what is wrong with a call for which no plugin has the program that it names.
  void failUnknown(CallRequest &request) const;

  const int numRanks;

private:
  std::map<Shape, Decision> decisions;
  const Shape *lastShape = nullptr;
  Decision *lastDecision = nullptr;
};

/// One thread has made all ranks. The rank that is called last starts the call for all, whichever thread calls.
class LocalCarrier : public Carrier {
public:
  explicit LocalCarrier(int size);
  void attach(int rank, int device) override;
  Examined examine(int rank, const Shape &shape, const runtime::RankBuffers &buffers,
                   const std::array<size_t, 2> &sizeBytes) override;
  RequestPointer submit(int rank, const Shape &shape, const runtime::RankBuffers &buffers, Stream stream) override;
  void await(int rank, const RequestPointer &request) override;
  runtime::Status flush(int rank) override;
  runtime::Status failure() override;
  runtime::Status leave(int rank, Leave how) override;

private:
  void start();
  void open();
  void announce();
  void abort(int rank);
  runtime::Status causeOf(const runtime::Status &status) const;
  void failAll(const std::string &why, bool isFailure);

  std::mutex mutex;   // held while calls are started, and while a rank waits for devices
  std::mutex arrival; // for `changed` alone: the other ranks' calls return meanwhile
  std::condition_variable changed;
  std::vector<int> devices;
  std::vector<std::deque<RequestPointer>> waiting; // by rank
  std::mutex ending; // of `communicator`, in addition, which an abort reads without the other mutex
  std::shared_ptr<runtime::DeviceCommunicator> communicator;
  std::atomic<int> abortedBy = -1; // the first rank that aborted
  runtime::Status unusable;        // why there is no communicator
  bool isOpen = false;
  std::vector<uint8_t> hasLeft; // by rank; an aborted one is destroyed, too
  std::string ended;            // why no call is carried any more
  runtime::Status broken;       // the same, where a rank did not just end in good order
};

/// A call of a group.
struct Submission {
  Carrier *carrier;
  int rank;
  const Shape *shape;
  runtime::RankBuffers buffers;
  Stream stream;
};
/// Hands over the calls of a group, in this order for each carrier. Blocks as `submit`, for all carriers at once.
std::vector<RequestPointer> submitAll(std::span<const Submission> group);

/// One rank, which is called for itself: ranks in other threads or processes, and on other hosts, need not call yet.
class HostCarrier : public Carrier, public std::enable_shared_from_this<HostCarrier> {
public:
  /// Blocks until all ranks have come. All of them get the same answer. `hasPeersHere`: other ranks are in this
  /// process.
  static runtime::Result<std::shared_ptr<HostCarrier>> connect(const runtime::AllGather &exchange, int rank, int size,
                                                               int device, bool hasPeersHere);
  void attach(int rank, int device) override {}
  Examined examine(int rank, const Shape &shape, const runtime::RankBuffers &buffers,
                   const std::array<size_t, 2> &sizeBytes) override;
  RequestPointer submit(int rank, const Shape &shape, const runtime::RankBuffers &buffers, Stream stream) override;
  void await(int rank, const RequestPointer &request) override {}
  runtime::Status flush(int rank) override;
  runtime::Status failure() override;
  runtime::Status leave(int rank, Leave how) override;
  HostCarrier *ofOneRank() override { return this; }
  /// As submitAll, where all carriers are of one rank.
  static std::vector<RequestPointer> submitTogether(std::span<const Submission> group);

  /// Makes this rank's memory and that of its peers a window, which they access directly. Collective, blocking.
  /// `addresses`: of all ranks, by rank, as NCCL has mapped them; empty: Kolo maps them.
  runtime::Status addWindow(void *memory, size_t sizeBytes, std::span<void *const> addresses);
  /// Forgets it for this rank. Waits for this rank's calls.
  void removeWindow(void *memory);
  /// As DeviceCommunicator::networkMemory. Requires that the rank has not left.
  std::string networkMemory() const { return communicator->networkMemory(); }

private:
  HostCarrier(int size, bool havePeersHere, runtime::DeviceCommunicator made)
      : Carrier(size), hasPeersHere(havePeersHere), crossesNetwork(!made.networkMemory().empty()),
        communicator(std::move(made)) {}
  Decision *decideOn(int rank, const runtime::RankBuffers &buffers, CallRequest &request);
  bool isTooLarge(const Shape &shape) const;
  void conclude(int rank, Decision &decision, CallRequest &request, const runtime::Status &status);

  const bool hasPeersHere, crossesNetwork;
  std::atomic<bool> hasLeft = false;
  std::mutex mutex; // of this rank alone; held in a call, which may block until all ranks have called
  std::optional<runtime::DeviceCommunicator> communicator; // none: this rank has left
  int numWindows = 0;
};

/// What NCCL calls such a failure. `isNamed`: the call named its program.
Code codeOf(const runtime::Status &status, bool isNamed = false);

/// How long a rank waits for another: KOLO_TIMEOUT_MS, else ten minutes, which is what PyTorch waits for NCCL.
int timeoutMs();

/// How long a rank waits for others in a group of sends and receives: KOLO_NCCL_GROUP_MS, else 100; 0: such groups are
/// forwarded. Nothing: the variable is wrong.
std::optional<int> groupMs();

/// How long the process waits at its end for an aborted communicator.
inline constexpr int abortedMs = 1000;
/// Before calls of any communicator: waits for the ends of aborted ones, abortedMs at most. To free their memory waits
/// for all kernels of a device, and keeps other calls of the driver waiting. Kernels of ranks that went on would wait
/// for those calls.
void awaitAborted();

} // namespace kolo::nccl
