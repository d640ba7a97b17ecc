// Group: what this thread has called between ncclGroupStart and ncclGroupEnd.
#pragma once

#include "Members.h"

#include <functional>

namespace kolo::nccl {

/// A call that may be carried, and how to forward it otherwise.
struct QueuedCall {
  std::shared_ptr<Member> member;
  Shape shape;
  runtime::RankBuffers buffers;
  Stream stream = nullptr;
  std::function<Code()> forward;
};

bool isInGroup();
void queue(QueuedCall call);
void queue(Registration registration);
/// Waits for the calls of a communicator that is carried: at once, or at the end of the group.
void flush(std::shared_ptr<Member> member);

/// Makes a communicator: at once, or at the end of the group. `call`: the real library's function.
Code create(Creation creation, const std::function<Code()> &call);
Code create(std::vector<Creation> creations, const std::function<Code()> &call);

/// What a carried call ended with; nothing: forward it.
std::optional<Code> outcome(const Member &member, const Deposit &deposit);

} // namespace kolo::nccl
