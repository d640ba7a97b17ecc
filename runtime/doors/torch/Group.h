// Group: torch's process group whose collectives Kolo runs. What Kolo does not carry goes to a Gloo group.
#pragma once

#include "Base.h"
#include "Blocks.h"
#include "Exchange.h"
#include "StandIns.h"
#include "Work.h"
#include "kolo/runtime/Door.h"
#include "kolo/runtime/Queue.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace kolo::torch_door {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

/// What all ranks agree on in a call that Kolo may carry.
using Shape = runtime::CallShape;

/// A shape that Kolo carries, with the plugin that does; or why it does not.
struct Choice {
  const runtime::Plugin *plugin = nullptr;
  Shape shape;
  const char *reason = nullptr; // of static life time
  size_t mesh = 0;              // of Communicator::meshes
};

/// A call of Gloo's group, whose tensors it replaces by their stand-ins. May return no work if it has ended.
using GlooCall = std::function<WorkPointer(Base &gloo, StandIns &standIns)>;

/// How torch knows a call: its number, the title for its profiler, whether the caller goes on meanwhile.
struct Label {
  c10d::OpType type;
  const char *title;
  bool isAsync;
};

/// All ranks call the same functions in the same order. Throws std::invalid_argument if one rank can see that a call
/// is wrong, and std::runtime_error with Kolo's message for what fails. A failure ends the group.
class Group : public Base {
public:
  /// Joins the ranks through the store. Blocking. Throws std::runtime_error.
  static c10::intrusive_ptr<Base> create(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                                         std::chrono::milliseconds timeout, c10::intrusive_ptr<Base> gloo);
  /// `areOnOneHost`: all ranks are.
  Group(int rank, int size, runtime::Communicator joined, bool areOnOneHost, c10::intrusive_ptr<Base> gloo);
  ~Group() override;

  const std::string getBackendName() const override { return "kolo"; }

  WorkPointer broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
  WorkPointer allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
  WorkPointer allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
  WorkPointer reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
  WorkPointer allgather(TensorLists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
  WorkPointer _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) override;
  WorkPointer allgather_coalesced(TensorLists &outputs, Tensors &inputs,
                                  const c10d::AllgatherOptions &options) override;
  WorkPointer gather(TensorLists &outputs, Tensors &inputs, const c10d::GatherOptions &options) override;
  WorkPointer scatter(Tensors &outputs, TensorLists &inputs, const c10d::ScatterOptions &options) override;
  WorkPointer reduce_scatter(Tensors &outputs, TensorLists &inputs, const c10d::ReduceScatterOptions &options) override;
  WorkPointer _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                   const c10d::ReduceScatterOptions &options) override;
  WorkPointer alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;
  WorkPointer alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &outputSplits,
                            std::vector<int64_t> &inputSplits, const c10d::AllToAllOptions &options) override;
  WorkPointer barrier(const c10d::BarrierOptions &options) override;
  void monitoredBarrier(const c10d::BarrierOptions &options, bool waitAllRanks) override;
  WorkPointer send(Tensors &tensors, int peer, int tag) override;
  WorkPointer recv(Tensors &tensors, int peer, int tag) override;
  WorkPointer recvAnysource(Tensors &tensors, int tag) override;
#if TORCH_VERSION_MAJOR >= 2
  WorkPointer allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                              const c10d::AllgatherOptions &options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                              const c10d::ReduceScatterOptions &options) override;
#endif
  /// Sequence numbers count the collectives of this group, from 0.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence; }

private:
  struct ShapeHash {
    size_t operator()(const Shape &shape) const;
  };
  /// One collective of a call: its shape and memory. A call may have several.
  struct Part {
    Choice choice;
    Blocks input, output;
    bool isInPlace = false; // `output` is both
    GlooCall instead = {};  // of this part alone; empty: the whole call goes to Gloo
  };
  using Parts = std::vector<Part>;
  /// As the queue's, with what torch waits for.
  using Call = std::function<runtime::Status(runtime::Communicator &, Work &)>;
  using GlooMessage = std::function<WorkPointer(Tensors &)>;

  Choice chooseMove(runtime::CollectiveKind collective, const at::Tensor &block, int64_t numBlocks, int root = 0);
  Choice chooseReduction(runtime::CollectiveKind collective, const at::Tensor &tensor, const c10d::ReduceOp &op,
                         int64_t numBlocks, int root = 0);
  Choice choose(const Shape &shape) const;
  Choice find(Shape shape);
  WorkPointer submit(const Label &label, Parts parts, const Tensors &inputs, Tensors outputs, GlooCall instead);
  WorkPointer enqueue(const Label &label, const Tensors &inputs, Tensors outputs, Call call);
  runtime::Status runChoice(runtime::Communicator &communicator, const Choice &choice, const void *input, void *output);
  runtime::Status runPart(runtime::Communicator &communicator, Part &part);
  WorkPointer forward(const Label &label, const char *reason, Tensors outputs, GlooCall call);
  WorkPointer exchangeMessage(const char *title, Tensors tensors, bool isRead, const GlooMessage &call);
  WorkPointer exchangeBlocks(const Label &label, const Exchange &exchange, const c10d::AllToAllOptions &options,
                             GlooCall asIs);
  runtime::Status agreeOnCount(runtime::Communicator &communicator, int64_t count, bool &isAgreed);
  void countForwarded(const char *reason);
  runtime::Status runParts(runtime::Communicator &communicator, Parts &parts, const GlooCall &instead, Work &work);
  bool lacksMemory(const runtime::Status &status) const;
  void runOnGloo(const GlooCall &call, Work &work);
  std::shared_ptr<void> holdForwarded();
  void checkRoot(int64_t root, const char *what) const;
  void checkList(const Tensors &list, const at::Tensor &like, const char *what) const;

  c10::intrusive_ptr<Base> gloo;
  bool isOnOneHost;
  Choice agreement; // the all-reduce by which ranks agree on a count; may have no plugin
  std::unordered_map<Shape, Choice, ShapeHash> choices;
  uint64_t sequence = 0;
  std::atomic<int> numHeld = 0; // calls in the queue that may call Gloo: later ones for Gloo go behind them
  // Used by calls in the queue, one at a time.
  std::vector<runtime::CallArguments> arguments; // by mesh: a copy of a mesh takes as long as a small call
  Scratch inputScratch, outputScratch;
  std::optional<runtime::Queue> queue; // last: it ends first
};

/// One line for people: what was carried and forwarded by all groups of this process.
std::string statistics();
std::string notice();
/// Whether KOLO_STATS asks for that line.
bool wantsStatistics();

} // namespace kolo::torch_door
