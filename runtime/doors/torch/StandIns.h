// StandIns: contiguous copies of tensors for Gloo, which takes the memory of every tensor for its elements in order.
#pragma once

#include "Base.h"

#include <ATen/core/Tensor.h>

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace kolo::torch_door {

/// Throws std::invalid_argument if elements of the tensor share memory, so that a call cannot write them.
void checkWritable(const at::Tensor &tensor, const char *call);

/// The stand-ins of one call. A tensor that Gloo reads rightly, or refuses, stands for itself.
class StandIns {
public:
  /// `title`: of the call, for messages; of static life time.
  explicit StandIns(const char *title) : call(title) {}

  /// From now on, every tensor gets a stand-in of one dimension and so many elements, of which it is the first ones.
  void padTo(int64_t numElements) { paddedElements = numElements; }

  /// Replaces what the call only reads.
  void forInput(at::Tensor &tensor) const;
  /// Replaces what the call writes. Throws as checkWritable does.
  void forOutput(at::Tensor &tensor);
  template <class Element> void forInput(std::vector<Element> &list) const {
    for (Element &element : list)
      forInput(element);
  }
  template <class Element> void forOutput(std::vector<Element> &list) {
    for (Element &element : list)
      forOutput(element);
  }

  /// Lets a part of other memory stand for a tensor that the call writes.
  void add(const at::Tensor &tensor, at::Tensor standIn);
  /// Whether there is nothing to copy back.
  bool areNone() const { return written.empty(); }
  /// To the tensors that the call was to write.
  void copyBack() const;

private:
  bool isNeededFor(const at::Tensor &tensor) const;
  /// A copy for Gloo, and the part of it that stands for the tensor.
  std::pair<at::Tensor, at::Tensor> copyOf(const at::Tensor &tensor) const;

  const char *call;
  std::optional<int64_t> paddedElements;
  std::vector<std::pair<at::Tensor, at::Tensor>> written; // a tensor, and what stands for it
};

/// A call of Gloo on stand-ins. Its results reach the tensors before anybody sees that it has ended.
class StandInWork : public c10d::Work {
public:
  StandInWork(WorkPointer call, StandIns standIns, std::vector<at::Tensor> outputs);

  bool isCompleted() override;
  bool isSuccess() const override { return call->isSuccess(); }
  std::exception_ptr exception() const override { return call->exception(); }
  int sourceRank() const override { return call->sourceRank(); }
  std::vector<at::Tensor> result() override { return outputs; }
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override { call->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

private:
  void settle();

  WorkPointer call;
  StandIns standIns;
  std::vector<at::Tensor> outputs;
  std::once_flag isSettled;
};

/// What torch waits for: Gloo's call, or a StandInWork where there are results to copy.
WorkPointer settled(WorkPointer call, StandIns standIns, std::vector<at::Tensor> outputs);

} // namespace kolo::torch_door
