// Group: torch's process group whose collectives Kolo runs. What Kolo does not carry goes to a Gloo group.
#pragma once

#include "Base.h"
#include "Calls.h"
#include "Choices.h"
#include "Exchange.h"

#include <string>
#include <vector>

namespace kolo::torch_door {

using TensorLists = std::vector<Tensors>;

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
  uint64_t getSequenceNumberForGroup() override { return calls.count(); }

private:
  WorkPointer exchangeBlocks(const Label &label, const Exchange &exchange, const c10d::AllToAllOptions &options,
                             GlooCall asIs);

  Calls calls;
  Choices choices;
  Choice agreement; // the all-reduce by which ranks agree on a count; may have no plugin
};

/// One line for people: what was carried and forwarded by all groups of this process.
std::string statistics();
std::string notice();
/// Whether KOLO_STATS asks for that line.
bool wantsStatistics();

} // namespace kolo::torch_door
