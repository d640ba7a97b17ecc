#include "Calls.h"

#include <algorithm>
#include <numeric>

namespace kolo::torch_door {

using runtime::CallArguments;
using runtime::Communicator;
using runtime::Status;
using runtime::StatusCode;

Calls::Calls(Communicator joined, bool areOnOneHost, c10::intrusive_ptr<Base> glooGroup)
    : gloo(std::move(glooGroup)), isOnOneHost(areOnOneHost) {
  for (const runtime::Mesh &mesh : joined.meshes())
    arguments.push_back({{}, mesh});
  queue.emplace(std::move(joined));
}

void Calls::end() {
  queue.reset();
  gloo.reset();
}

int64_t Part::blockBytes(int numRanks) const {
  auto sumOf = [](const Counts &counts) { return std::accumulate(counts.begin(), counts.end(), int64_t(0)); };
  int64_t count =
      choice.shape.hasTables ? std::max(sumOf(inputCounts), sumOf(outputCounts)) / numRanks : choice.shape.count;
  return count * choice.shape.elementBytes();
}

Status Calls::runChoice(Communicator &communicator, const Choice &choice, const void *input, void *output,
                        const runtime::BlockTables *blocks) {
  CallArguments &call = arguments[choice.mesh];
  choice.shape.enter(call);
  call.input = input;
  call.output = output;
  call.blocks = blocks;
  return communicator.run(*choice.plugin, call);
}

Status Calls::runPart(Communicator &communicator, Part &part) {
  void *output = part.output.place(outputScratch);
  const void *input = part.isInPlace ? output : part.input.place(inputScratch);
  (part.isInPlace ? part.output : part.input).pack();
  const runtime::BlockTables blocks{{part.inputCounts, {}}, {part.outputCounts, {}}};
  Status status = runChoice(communicator, part.choice, input, output, part.choice.shape.hasTables ? &blocks : nullptr);
  if (status.isOk())
    part.output.unpack();
  return status;
}

WorkPointer Calls::enqueue(const Label &label, const Tensors &inputs, Tensors outputs, Call call) {
  ++sequence;
  auto work = c10::make_intrusive<Work>(communicator().rank(), label.type, label.title, inputs, std::move(outputs));
  runtime::Queue::Call ofWork = [call = std::move(call), work](Communicator &communicator) {
    Status status = call(communicator, *work);
    // All ranks see that they differ, and before any of them has begun, so later calls can be right.
    if (status.code() != StatusCode::Mismatch)
      return status;
    work->refuse(status);
    return Status();
  };
  if (label.isAsync)
    work->start(*queue, std::move(ofWork));
  else
    work->run(*queue, std::move(ofWork));
  return work;
}

WorkPointer Calls::run(const Label &label, Parts parts, const Tensors &inputs, Tensors outputs, GlooCall instead) {
  for (const Part &part : parts)
    if (!part.choice.plugin)
      return forward(label, part.choice.reason, std::move(outputs), std::move(instead));
  for (const at::Tensor &output : outputs)
    checkWritable(output, label.title);
  return enqueue(label, inputs, std::move(outputs),
                 [this, parts = std::move(parts), instead = std::move(instead),
                  held = holdForwarded()](Communicator &communicator, Work &work) mutable {
                   return runParts(communicator, parts, instead, work);
                 });
}

/// On one host all ranks see this, and before any of them has begun the part. So Gloo takes it.
bool Calls::lacksMemory(const Status &status) const { return status.code() == StatusCode::OutOfMemory && isOnOneHost; }

Status Calls::runParts(Communicator &communicator, Parts &parts, const GlooCall &instead, Work &work) {
  int64_t carriedBytes = 0;
  bool isForwarded = false;
  for (Part &part : parts) {
    Status status = runPart(communicator, part);
    if (lacksMemory(status)) {
      isForwarded = true;
      runOnGloo(part.instead ? part.instead : instead, work);
      if (part.instead)
        continue;
      break;
    }
    if (!status.isOk())
      return status;
    carriedBytes += part.blockBytes(communicator.size());
  }
  if (isForwarded)
    door().countForwarded(noMemory);
  else
    door().countCarried(carriedBytes);
  return Status();
}

/// Whether all ranks have the same count, which no rank passes as a negative one.
Status Calls::agreeOn(Communicator &communicator, const Agreement &agreement, bool &isAgreed) {
  int64_t bounds[2] = {agreement.count, -agreement.count};
  Status status = runChoice(communicator, agreement.allReduce, bounds, bounds);
  isAgreed = bounds[0] == -bounds[1] && bounds[0] >= 0;
  return status;
}

WorkPointer Calls::runIfAgreed(const Label &label, const Agreement &agreement, Part part, const Tensors &inputs,
                               Tensors outputs, GlooCall instead) {
  auto call = [this, agreement, parts = Parts{std::move(part)}, instead = std::move(instead),
               held = holdForwarded()](Communicator &communicator, Work &work) mutable {
    bool isAgreed = false;
    Status status = agreeOn(communicator, agreement, isAgreed);
    const char *reason = isAgreed ? noProgram : "uneven sizes";
    if (status.isOk() && isAgreed && parts.front().choice.plugin)
      return runParts(communicator, parts, instead, work);
    if (lacksMemory(status))
      reason = noMemory;
    else if (!status.isOk())
      return status;
    door().countForwarded(reason);
    runOnGloo(instead, work);
    return Status();
  };
  return enqueue(label, inputs, std::move(outputs), std::move(call));
}

/// Until it is destroyed, the calls that are forwarded go through the queue.
std::shared_ptr<void> Calls::holdForwarded() {
  ++numHeld;
  return {nullptr, [this](void *) { --numHeld; }};
}

/// Blocks until the call has ended. What Gloo refuses is this call's failure, and Gloo's group stays usable.
void Calls::runOnGloo(const GlooCall &call, Work &work) {
  try {
    StandIns standIns(work.title());
    if (WorkPointer begun = call(*gloo, standIns))
      begun->wait();
    standIns.copyBack();
  } catch (...) {
    work.refuse(std::current_exception());
  }
}

/// Gloo pairs the calls of ranks by their order. So a call goes behind those of which the queue does not yet know
/// whether Gloo gets them.
WorkPointer Calls::forward(const Label &label, const char *reason, Tensors outputs, GlooCall call) {
  if (numHeld == 0)
    return forwardNow(label.title, reason, std::move(outputs), call);
  door().countForwarded(reason);
  return enqueue(label, {}, std::move(outputs),
                 [this, call = std::move(call), held = holdForwarded()](Communicator &, Work &work) {
                   runOnGloo(call, work);
                   return Status();
                 });
}

WorkPointer Calls::forwardNow(const char *title, const char *reason, Tensors outputs, const GlooCall &call) {
  ++sequence;
  door().countForwarded(reason);
  StandIns standIns(title);
  WorkPointer begun = call(*gloo, standIns);
  return settled(std::move(begun), std::move(standIns), std::move(outputs));
}

} // namespace kolo::torch_door
