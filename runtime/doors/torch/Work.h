// Work: one carried call, as torch waits for it.
#pragma once

#include "Base.h"
#include "kolo/runtime/Queue.h"

#include <optional>
#include <vector>

namespace kolo::torch_door {

class Work : public c10d::Work {
public:
  /// `title`: "kolo:all_reduce", of static life time. `outputs`: for result() and futures.
  Work(int rank, c10d::OpType type, const char *title, const std::vector<at::Tensor> &inputs,
       std::vector<at::Tensor> outputs);

  /// Hands the call to the queue and returns.
  void start(runtime::Queue &queue, runtime::Queue::Call call);
  /// Runs the call; blocks until it has ended.
  void run(runtime::Queue &queue, runtime::Queue::Call call);

  /// The call's own failure, for which the queue goes on. Called while the call runs.
  void refuse(std::exception_ptr failure) { refusal = std::move(failure); }
  void refuse(const runtime::Status &status);
  const char *title() const { return name; }

  /// Throws std::runtime_error with the message of a failure, or if the time is over; the call then goes on. Throws
  /// what the call was refused with.
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

private:
  void end(const runtime::Status &status);
  void complete(c10::ivalue::Future &pending);

  const char *name;
  std::vector<at::Tensor> outputs;
  std::exception_ptr refusal;
  std::optional<runtime::Request> request; // none if the call has been run
  c10::intrusive_ptr<c10::ivalue::Future> future;
  bool hasEnded = false; // whoever sees both completes the future
};

} // namespace kolo::torch_door
