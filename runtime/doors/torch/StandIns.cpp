#include "StandIns.h"

#include "Blocks.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/zeros.h>

#include <stdexcept>
#include <string>

namespace kolo::torch_door {

void checkWritable(const at::Tensor &tensor, const char *call) {
  if (isPlain(tensor) && at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    throw std::invalid_argument(std::string(call) +
                                ": several elements of an output lie at one place in memory: make it "
                                "contiguous");
}

bool StandIns::isNeededFor(const at::Tensor &tensor) const {
  return isPlain(tensor) && (paddedElements || !isOrdered(tensor));
}

std::pair<at::Tensor, at::Tensor> StandIns::copyOf(const at::Tensor &tensor) const {
  if (!paddedElements) {
    at::Tensor copy = tensor.detach().clone(at::MemoryFormat::Contiguous);
    return {copy, copy};
  }
  at::NoGradGuard isData;
  at::Tensor padded = at::zeros({*paddedElements}, tensor.options().requires_grad(false));
  at::Tensor part = padded.narrow(0, 0, tensor.numel()).view(tensor.sizes());
  part.copy_(tensor);
  return {padded, part};
}

void StandIns::forInput(at::Tensor &tensor) const {
  if (isNeededFor(tensor))
    tensor = copyOf(tensor).first;
}

void StandIns::forOutput(at::Tensor &tensor) {
  checkWritable(tensor, call);
  if (!isNeededFor(tensor))
    return;
  auto [copy, standIn] = copyOf(tensor);
  add(tensor, standIn);
  tensor = std::move(copy);
}

void StandIns::add(const at::Tensor &tensor, at::Tensor standIn) { written.emplace_back(tensor, std::move(standIn)); }

void StandIns::copyBack() const {
  at::NoGradGuard isData;
  for (const auto &[tensor, standIn] : written)
    tensor.copy_(standIn);
}

StandInWork::StandInWork(WorkPointer glooCall, StandIns copies, std::vector<at::Tensor> written)
    : c10d::Work(-1, glooCall->retrieveOpType()), call(std::move(glooCall)), standIns(std::move(copies)),
      outputs(std::move(written)) {}

void StandInWork::settle() {
  std::call_once(isSettled, [this] { standIns.copyBack(); });
}

bool StandInWork::isCompleted() {
  if (!call->isCompleted())
    return false;
  if (!call->exception())
    settle();
  return true;
}

void StandInWork::synchronize() {
  call->synchronize();
  settle();
}

bool StandInWork::wait(std::chrono::milliseconds timeout) {
  bool hasEnded = call->wait(timeout);
  settle();
  return hasEnded;
}

c10::intrusive_ptr<c10::ivalue::Future> StandInWork::getFuture() {
  auto self = c10::intrusive_ptr<StandInWork>::reclaim_copy(this);
  return call->getFuture()->then(
      [self](c10::ivalue::Future &ended) {
        ended.value(); // throws what the call failed with
        self->settle();
        return at::IValue(self->outputs);
      },
      c10::ListType::create(c10::TensorType::get()));
}

WorkPointer settled(WorkPointer call, StandIns standIns, std::vector<at::Tensor> outputs) {
  if (standIns.areNone())
    return call;
  return c10::make_intrusive<StandInWork>(std::move(call), std::move(standIns), std::move(outputs));
}

} // namespace kolo::torch_door
