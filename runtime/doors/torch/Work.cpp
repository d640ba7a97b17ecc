#include "Work.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <stdexcept>

namespace kolo::torch_door {

Work::Work(int rank, c10d::OpType type, const char *title, const std::vector<at::Tensor> &inputs,
           std::vector<at::Tensor> written)
    : c10d::Work(rank, type, title, inputs), name(title), outputs(std::move(written)) {}

void Work::start(runtime::Queue &queue, runtime::Queue::Call call) {
  auto self = c10::intrusive_ptr<Work>::reclaim_copy(this);
  request = queue.enqueue(std::move(call), [self](const runtime::Status &status) { self->end(status); });
}

void Work::run(runtime::Queue &queue, runtime::Queue::Call call) { end(queue.run(std::move(call))); }

/// Names the timeout as torch does, so that callers who look for that word find it.
static std::string describe(const char *name, const runtime::Status &status) {
  const char *limit = status.code() == runtime::StatusCode::Timeout ? " (the timeout of this group)" : "";
  return std::string(name) + ": " + runtime::toString(status.code()) + ": " + status.message() + limit;
}

void Work::refuse(const runtime::Status &status) {
  refuse(std::make_exception_ptr(std::runtime_error(describe(name, status))));
}

void Work::end(const runtime::Status &status) {
  if (!status.isOk())
    refuse(status);
  std::exception_ptr failure = refusal;
  finish(failure);
  c10::intrusive_ptr<c10::ivalue::Future> pending;
  {
    std::scoped_lock lock(mutex_);
    hasEnded = true;
    pending = future;
  }
  if (pending)
    complete(*pending);
}

void Work::complete(c10::ivalue::Future &pending) {
  if (exception_)
    pending.setErrorIfNeeded(exception_);
  else
    pending.markCompleted(at::IValue(outputs));
}

bool Work::wait(std::chrono::milliseconds timeout) {
  if (request) {
    if (timeout.count() <= 0)
      (void)request->wait();
    else if (!request->waitFor(timeout))
      throw std::runtime_error(std::string(name) + ": not done within " + std::to_string(timeout.count()) + " ms");
  }
  if (std::exception_ptr failure = exception())
    std::rethrow_exception(failure);
  return true;
}

std::vector<at::Tensor> Work::result() { return outputs; }

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  std::unique_lock lock(mutex_);
  if (future)
    return future;
  future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  bool isOver = hasEnded;
  lock.unlock();
  if (isOver)
    complete(*future);
  return future;
}

} // namespace kolo::torch_door
