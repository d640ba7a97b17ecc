#include "StandIns.h"

#include "Blocks.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>

#include <stdexcept>
#include <string>

namespace kolo::torch_door {

void checkWritable(const at::Tensor &tensor, const char *call) {
  if (isPlain(tensor) && at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    throw std::invalid_argument(std::string(call) +
                                ": several elements of an output lie at one place in memory: make it "
                                "contiguous");
}

static at::Tensor copyOf(const at::Tensor &tensor) { return tensor.detach().clone(at::MemoryFormat::Contiguous); }

void StandIns::forInput(at::Tensor &tensor) const {
  if (isPlain(tensor) && !isOrdered(tensor))
    tensor = copyOf(tensor);
}

void StandIns::forOutput(at::Tensor &tensor) {
  checkWritable(tensor, call);
  if (!isPlain(tensor) || isOrdered(tensor))
    return;
  at::Tensor standIn = copyOf(tensor);
  add(tensor, standIn);
  tensor = std::move(standIn);
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
